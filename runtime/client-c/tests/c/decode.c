/* Each function of punctual_decode.h, on tensors of a few numbers. */
#include <math.h>
#include <punctual_decode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                     \
    do {                                                                                                \
        if (!(what)) {                                                                                  \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, punctual_last_error());              \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

#define ROOM 4

static punctual_detection found[ROOM];
static size_t count;

static punctual_tensor tensor(const float *values, uint32_t rank, uint32_t a, uint32_t b, uint32_t c) {
    punctual_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.data = values;
    tensor.rank = rank;
    tensor.shape[0] = a;
    tensor.shape[1] = b;
    tensor.shape[2] = c;
    tensor.bytes = 4 * (size_t)a * (rank > 1 ? b : 1) * (rank > 2 ? c : 1);
    return tensor;
}

static int is(size_t at, float left, float top, float right, float bottom, float score, uint32_t class_index) {
    const punctual_detection *it = &found[at];
    return fabsf(it->left - left) < 1e-4f && fabsf(it->top - top) < 1e-4f && fabsf(it->right - right) < 1e-4f &&
           fabsf(it->bottom - bottom) < 1e-4f && fabsf(it->score - score) < 1e-4f && it->class_index == class_index;
}

static punctual_head head_of(uint32_t width, uint32_t height) {
    punctual_head head = PUNCTUAL_HEAD_INIT;
    head.input_width = width;
    head.input_height = height;
    return head;
}

static void rows_and_boxes(void) {
    static const float rows[] = {1, 2, 3, 4, 0.9f, 7, 5, 6, 7, 8, 0.2f, 1, 0, 0, 0, 0, 0, 0};
    static const int32_t two = 2;
    punctual_tensor detections = tensor(rows, 2, 3, 6, 0), number = tensor(NULL, 1, 1, 0, 0);
    punctual_head head = head_of(64, 48);
    number.data = &two;
    number.element = PUNCTUAL_INT32;
    CHECK(punctual_decode_rows(&detections, &number, 0, found, ROOM, &count) == PUNCTUAL_OK);
    CHECK(count == 2 && is(0, 1, 2, 3, 4, 0.9f, 7) && is(1, 5, 6, 7, 8, 0.2f, 1) && found[1].place == 1);
    CHECK(punctual_decode_rows(&detections, &number, 0.3f, found, ROOM, &count) == PUNCTUAL_OK && count == 1);
    CHECK(punctual_decode_rows(&detections, &number, 0, found, 1, &count) == PUNCTUAL_OK && count == 1);
    CHECK(punctual_decode_rows(&detections, &number, 0, NULL, 0, &count) == PUNCTUAL_OK && count == 0);
    CHECK(punctual_decode_rows(&detections, &number, 0, NULL, 1, &count) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(punctual_decode_rows(&detections, &detections, 0, found, ROOM, &count) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(punctual_decode_rows(NULL, &number, 0, found, ROOM, &count) == PUNCTUAL_ERROR_ARGUMENT);
    detections.element = PUNCTUAL_UINT8;
    CHECK(punctual_decode_rows(&detections, &number, 0, found, ROOM, &count) == PUNCTUAL_ERROR_DECODE);
    CHECK(strstr(punctual_last_error(), "float32") != NULL);

    /* Two boxes, centre and size, one behind the other; scores that are logits. */
    static const float centres[] = {10, 30, 10, 20, 4, 8, 2, 100};
    static const float scores[] = {0, -9, -9, 2};
    punctual_tensor boxes = tensor(centres, 2, 4, 2, 0), logits = tensor(scores, 2, 2, 2, 0);
    head.layout = PUNCTUAL_CHANNELS;
    head.form = PUNCTUAL_CENTRE;
    CHECK(punctual_decode_boxes(&head, &boxes, &logits, found, ROOM, &count) == PUNCTUAL_OK && count == 2);
    CHECK(is(0, 26, 0, 34, 48, 0.880797f, 1) && is(1, 8, 9, 12, 11, 0.5f, 0));
    logits.shape[1] = 3;
    logits.bytes = 24;
    static const float more[6] = {0};
    logits.data = more;
    CHECK(punctual_decode_boxes(&head, &boxes, &logits, found, ROOM, &count) == PUNCTUAL_ERROR_DECODE);
    CHECK(strstr(punctual_last_error(), "scores: 6 values, 4 were specified") != NULL);
    head.form = 9;
    CHECK(punctual_decode_boxes(&head, &boxes, &logits, found, ROOM, &count) == PUNCTUAL_ERROR_ARGUMENT);
    head.size = 3;
    CHECK(punctual_decode_boxes(&head, &boxes, &logits, found, ROOM, &count) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(strstr(punctual_last_error(), "PUNCTUAL_HEAD_INIT") != NULL);
}

static void anchors(void) {
    static const double ratios[] = {2}, sides[] = {8};
    punctual_map map = {2, 1, ratios, 1, 0.5, 0};
    punctual_head head = head_of(32, 16);
    punctual_anchors *made;
    float rects[32];
    CHECK(punctual_anchors_ssd(&head, &map, 1, 1.0, 1, &made) == PUNCTUAL_OK);
    CHECK(punctual_anchor_count(made) == 8 && punctual_anchor_rects(made, rects, 8) == PUNCTUAL_OK);
    /* Half of the input, in the middle of the left half. */
    CHECK(rects[0] == 0 && rects[1] == 4 && rects[2] == 16 && rects[3] == 12);
    CHECK(punctual_anchor_rects(made, rects, 7) == PUNCTUAL_ERROR_ARGUMENT);
    punctual_release_anchors(made);
    map.values = sides;
    static const double square[] = {1};
    CHECK(punctual_anchors_grid(&head, &map, 1, square, 1, &made) == PUNCTUAL_OK && punctual_anchor_count(made) == 2);
    static const float codes[] = {0, 0, 0, 0, 0, 0, 0, 0}, scores[] = {3, 0, 0, 3};
    punctual_tensor boxes = tensor(codes, 2, 2, 4, 0), logits = tensor(scores, 2, 2, 2, 0);
    head.activation = PUNCTUAL_SOFTMAX;
    head.background = 0;
    CHECK(punctual_decode_anchors(&head, made, &boxes, &logits, found, ROOM, &count) == PUNCTUAL_OK && count == 1);
    CHECK(is(0, 12, 0, 20, 4, 0.952574f, 1) && found[0].place == 1);
    punctual_release_anchors(made);
    static const float one[] = {0, 0, 9, 9};
    static const size_t levels[] = {1, 1};
    CHECK(punctual_anchors_of(one, 1, levels, 2, &made) == PUNCTUAL_ERROR_DECODE);
    CHECK(punctual_anchors_of(one, 1, levels, 1, &made) == PUNCTUAL_OK);
    punctual_release_anchors(made);
    punctual_release_anchors(NULL);
}

static void distances_sets_and_peaks(void) {
    static const uint32_t strides[] = {8};
    static const float sides[] = {0.5f, 0.5f, 1, 1, 0, 0, 0, 0}, scores[] = {2, -9};
    punctual_head head = head_of(16, 8);
    punctual_tensor boxes = tensor(sides, 2, 2, 4, 0), logits = tensor(scores, 2, 2, 1, 0);
    CHECK(punctual_decode_distances(&head, strides, 1, &boxes, &logits, NULL, 1, found, ROOM, &count) == PUNCTUAL_OK);
    CHECK(count == 1 && is(0, 0, 0, 12, 8, 0.880797f, 0));
    CHECK(punctual_decode_distances(&head, strides, 1, &boxes, &logits, NULL, 0, found, ROOM, &count) < 0);
    static const float parts[] = {0.5f, 0.5f, 0.5f, 0.25f};
    punctual_tensor relative = tensor(parts, 2, 1, 4, 0);
    static const float three[] = {3, 0, 0};
    punctual_tensor query = tensor(three, 2, 1, 3, 0);
    CHECK(punctual_decode_set(&head, &relative, &query, found, ROOM, &count) == PUNCTUAL_OK && count == 3);
    CHECK(is(0, 4, 3, 12, 5, 0.952574f, 0) && found[1].score == 0.5f);
    head.activation = PUNCTUAL_SOFTMAX;
    CHECK(punctual_decode_set(&head, &relative, &query, found, ROOM, &count) == PUNCTUAL_OK && count == 1);
    static const float heat[] = {0.1f, 0.9f, 0.3f, 0.2f}, extents[] = {0, 1, 0, 0, 0, 2, 0, 0};
    punctual_tensor map = tensor(heat, 3, 1, 2, 2), sizes = tensor(extents, 3, 2, 2, 2);
    head.activation = PUNCTUAL_SCORES;
    CHECK(punctual_decode_peaks(&head, 4, &map, &sizes, NULL, found, ROOM, &count) == PUNCTUAL_OK && count == 1);
    CHECK(is(0, 2, -4, 6, 4, 0.9f, 0));
    map.rank = 2;
    map.shape[0] = 4;
    map.shape[1] = 1;
    CHECK(punctual_decode_peaks(&head, 4, &map, &sizes, NULL, found, ROOM, &count) == PUNCTUAL_ERROR_DECODE);
    CHECK(strstr(punctual_last_error(), "2 dimensions, 3 were expected") != NULL);
}

static void points_masks_and_views(void) {
    static const float heat[] = {0, 0, 0, 0, 1, 0.5f, 0, 0, 0};
    punctual_head head = head_of(6, 6);
    punctual_tensor maps = tensor(heat, 3, 1, 3, 3);
    punctual_key_point point;
    CHECK(punctual_decode_key_points(&head, PUNCTUAL_QUARTER, &maps, &point, 1, &count) == PUNCTUAL_OK && count == 1);
    CHECK(point.x == 3.5f && point.y == 3 && point.score == 1);
    CHECK(punctual_decode_key_points(&head, PUNCTUAL_DARK + PUNCTUAL_CORNERS_ALIGNED, &maps, &point, 1, &count) == PUNCTUAL_OK);
    CHECK(punctual_decode_key_points(&head, 4, &maps, &point, 1, &count) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(punctual_decode_key_points(&head, PUNCTUAL_MEAN, &maps, &point, 0, &count) == PUNCTUAL_ERROR_ARGUMENT);
    point.x = 3;
    point.y = 4;
    punctual_view view = {10, 20, 12, 12, 6, 6, 0, 0};
    CHECK(punctual_view_key_points(&view, &point, 1) == PUNCTUAL_OK && point.x == 16 && point.y == 28);
    punctual_detection object = {0, 0, 3, 7, 0.5f, 3, 0, 0};
    CHECK(punctual_view_detections(&view, &object, 1) == PUNCTUAL_OK);
    CHECK(object.left == 10 && object.top == 20 && object.right == 16 && object.bottom == 32 && object.class_index == 3);
    static const float flat[] = {0, 0, 0, 0, 2, 2, 2, 2}, factors[] = {5, 1};
    punctual_tensor prototypes = tensor(flat, 3, 2, 2, 2), coefficients = tensor(factors, 2, 1, 2, 0);
    punctual_mask mask;
    float likely[72];
    CHECK(punctual_decode_mask(&head, &view, &prototypes, &coefficients, &object, &mask, likely, 72) == PUNCTUAL_OK);
    CHECK(mask.x == 10 && mask.y == 20 && mask.width == 6 && mask.height == 12);
    CHECK(fabsf(likely[0] - 0.880797f) < 1e-4f && fabsf(likely[71] - 0.880797f) < 1e-4f);
    CHECK(punctual_decode_mask(&head, &view, &prototypes, &coefficients, &object, &mask, likely, 71) == PUNCTUAL_ERROR_ARGUMENT);
    object.place = 1;
    CHECK(punctual_decode_mask(&head, &view, &prototypes, &coefficients, &object, &mask, likely, 72) == PUNCTUAL_ERROR_ARGUMENT);
    view.input_width = 0;
    CHECK(punctual_view_detections(&view, &object, 1) == PUNCTUAL_ERROR_DECODE);
    CHECK(punctual_get_view(NULL, NULL, &view) == PUNCTUAL_ERROR_ARGUMENT);
}

int main(void) {
    rows_and_boxes();
    anchors();
    distances_sets_and_peaks();
    points_masks_and_views();
    return 0;
}
