/* punctual_decode.h - boxes, key points and masks from what detectors give; part of libpunctual.
 *
 *   punctual_head head = PUNCTUAL_HEAD_INIT;
 *   punctual_view view;
 *   punctual_detection found[100];
 *   size_t count;
 *   punctual_get_view(client, &result, &view);
 *   head.input_width = view.input_width;
 *   head.input_height = view.input_height;
 *   if (punctual_decode_boxes(&head, &boxes, &scores, found, 100, &count) != PUNCTUAL_OK)
 *       fprintf(stderr, "%s\n", punctual_last_error());
 *   punctual_view_detections(&view, found, count);      // pixels of the camera's frame
 *
 * Tensors are those of an answer (punctual_output_named), or any other memory that a punctual_tensor describes: float32,
 * without gaps, of one frame. Their shapes say how many classes, places and so on there are. A *place* is an anchor, a cell, a query
 * or a row.
 *
 * A function for detections writes the best `room` of them to `found`, the best first, in pixels of the network's input, and how many
 * they are to `count`. What is not finite is left out. Any thread may call any function here but punctual_get_view.
 * PUNCTUAL_ERROR_DECODE: a tensor or a size does not go with the head; punctual_last_error says which, and what was expected.
 *
 * docs/decode.md has the shapes and units of each head, and where its formulas come from. */
#ifndef PUNCTUAL_DECODE_H
#define PUNCTUAL_DECODE_H

#include <punctual.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An object. */
typedef struct punctual_detection {
    /* In pixels; pixel i reaches from i to i + 1. */
    float left;
    float top;
    float right;
    float bottom;
    /* 0 to 1. */
    float score;
    uint32_t class_index;
    /* Its anchor, cell, query or row: further tensors have its values there. */
    uint32_t place;
    uint32_t reserved;
} punctual_detection;

/* A key point. */
typedef struct punctual_key_point {
    /* In pixels. */
    float x;
    float y;
    /* The highest value of its map. */
    float score;
} punctual_key_point;

/* Which part of a frame the network saw, and how it was fitted into the network's input. */
typedef struct punctual_view {
    /* The part, in pixels of the frame. */
    uint32_t crop_x;
    uint32_t crop_y;
    uint32_t crop_width;
    uint32_t crop_height;
    /* The network's input. */
    uint32_t input_width;
    uint32_t input_height;
    /* 1: the part keeps its aspect ratio, with borders; 0: it is stretched. */
    uint32_t letterbox;
    uint32_t reserved;
} punctual_view;

/* punctual_head.layout: place after place, (places, channels), as torchvision's networks give it; or channel after channel,
 * (channels, places) or (channels, rows, columns). */
#define PUNCTUAL_PLACES 0
#define PUNCTUAL_CHANNELS 1

/* punctual_head.activation: what makes scores of 0 to 1 of the network's values. */
#define PUNCTUAL_SIGMOID 0
#define PUNCTUAL_SOFTMAX 1
#define PUNCTUAL_SCORES 2

/* punctual_head.form: left, top, right, bottom; or centre's x and y, width, height. */
#define PUNCTUAL_CORNERS 0
#define PUNCTUAL_CENTRE 1

/* punctual_head.candidates_of */
#define PUNCTUAL_OF_EACH_LEVEL 0
#define PUNCTUAL_OF_EACH_CLASS 1

/* punctual_head.suppression */
#define PUNCTUAL_SUPPRESS_NONE 0
#define PUNCTUAL_SUPPRESS_PER_CLASS 1
#define PUNCTUAL_SUPPRESS_ACROSS_CLASSES 2

/* What a head is like, and which of its detections are wanted. Initialise with PUNCTUAL_HEAD_INIT, then set what differs. */
typedef struct punctual_head {
    /* sizeof(punctual_head), from which the library knows the fields. */
    uint32_t size;
    /* Of the network's input: punctual_view has it. */
    uint32_t input_width;
    uint32_t input_height;
    uint32_t layout;
    uint32_t activation;
    /* The class that means that nothing is there; -1: none does. */
    int32_t background;
    uint32_t form;
    /* Scores must be higher; 0 to 1. */
    float threshold;
    /* 1: a place may be of several classes. 0: only its best class counts. */
    uint32_t several_classes;
    /* How many candidates go on to the suppression, of each level or of each class. */
    uint32_t candidates;
    uint32_t candidates_of;
    /* Whether a better detection removes those that overlap with it by more: intersection over union, 0 to 1. */
    uint32_t suppression;
    float overlap;
    /* Of anchors: what codes of x, y, width and height are divided by. SSD: 10, 10, 5, 5. */
    float weights[4];
    /* Of distances: where a cell's centre is, in strides from its corner. */
    float centre;
} punctual_head;

#define PUNCTUAL_HEAD_INIT { sizeof(punctual_head), 0, 0, PUNCTUAL_PLACES, PUNCTUAL_SIGMOID, -1, PUNCTUAL_CORNERS, 0.25f, 0, 1000, \
    PUNCTUAL_OF_EACH_LEVEL, PUNCTUAL_SUPPRESS_PER_CLASS, 0.5f, { 1, 1, 1, 1 }, 0.5f }

/* What the network saw of the frame whose result the client got last, in a callback that of the callback's result;
 * PUNCTUAL_NOTHING if no daemon answered, or it does not say what its input is. */
punctual_status punctual_get_view(const punctual_client *client, const punctual_result *result,
                                  punctual_view *view);
/* Moves detections from the network's input to the frame, clipped to the part that the network saw. */
punctual_status punctual_view_detections(const punctual_view *view, punctual_detection *found,
                                         size_t count);
punctual_status punctual_view_key_points(const punctual_view *view, punctual_key_point *points,
                                         size_t count);

/* The outputs of a network that ends in Punctual's decoder: `detections` (rows, 6) and `count` (int32, one number). */
punctual_status punctual_decode_rows(const punctual_tensor *detections, const punctual_tensor *number,
                                     float threshold, punctual_detection *found, size_t room,
                                     size_t *count);

/* Boxes that the network has decoded itself: `boxes` (places, 4) in pixels of its input, `scores` (places, classes). */
punctual_status punctual_decode_boxes(const punctual_head *head, const punctual_tensor *boxes,
                                      const punctual_tensor *scores, punctual_detection *found,
                                      size_t room, size_t *count);

/* A feature map of a network with anchors. */
typedef struct punctual_map {
    uint32_t width;
    uint32_t height;
    /* SSD: aspect ratios (width to height, without 1). RetinaNet: sides in pixels. */
    const double *values;
    size_t count;
    /* SSD: side of the map's anchors relative to the input's. */
    double scale;
    /* SSD: pixels of the input from one cell to the next; 0: the input's side divided by the map's. */
    double step;
} punctual_map;

/* Rectangles that a network's boxes are relative to. */
typedef struct punctual_anchors punctual_anchors;
/* SSD's: torchvision's DefaultBoxGenerator. `last_scale` follows the scale of the last map; `clip`: 1 if sides are
 * limited to the input's. */
punctual_status punctual_anchors_ssd(const punctual_head *head, const punctual_map *maps, size_t count,
                                     double last_scale, int clip, punctual_anchors **anchors);
/* RetinaNet's: torchvision's AnchorGenerator. `ratios`: height to width, of all maps. */
punctual_status punctual_anchors_grid(const punctual_head *head, const punctual_map *maps, size_t count,
                                      const double *ratios, size_t ratio_count,
                                      punctual_anchors **anchors);
/* Any: four numbers each, left, top, right, bottom in pixels of the input; the levels have as many as `levels` says. */
punctual_status punctual_anchors_of(const float *rects, size_t count, const size_t *levels,
                                    size_t level_count, punctual_anchors **anchors);
size_t punctual_anchor_count(const punctual_anchors *anchors);
/* Copies four numbers of each to `rects`, of which `count` rectangles can be written. */
punctual_status punctual_anchor_rects(const punctual_anchors *anchors, float *rects, size_t count);
/* NULL is allowed. */
void punctual_release_anchors(punctual_anchors *anchors);

/* SSD, RetinaNet: `boxes` (anchors, 4), `scores` (anchors, classes). */
punctual_status punctual_decode_anchors(const punctual_head *head, const punctual_anchors *anchors,
                                        const punctual_tensor *boxes, const punctual_tensor *scores,
                                        punctual_detection *found, size_t room, size_t *count);

/* FCOS, YOLO's distributions: distances to the four sides, in strides. There is a level for each of `strides`. `boxes`, `scores` and
 * `centerness` (or NULL) have `tensors` tensors each: one for each level, or one of all levels behind each other. Boxes have
 * four channels, or four times as many as a distance has bins. */
punctual_status punctual_decode_distances(const punctual_head *head, const uint32_t *strides,
                                          size_t levels, const punctual_tensor *boxes,
                                          const punctual_tensor *scores,
                                          const punctual_tensor *centerness, size_t tensors,
                                          punctual_detection *found, size_t room, size_t *count);

/* DETR and its descendants: `boxes` (queries, 4) relative to the input, `logits` (queries, classes). With PUNCTUAL_SOFTMAX the last
 * class means that there is no object; with PUNCTUAL_SIGMOID the best `room` of all queries and classes stay, whatever their query. */
punctual_status punctual_decode_set(const punctual_head *head, const punctual_tensor *boxes,
                                    const punctual_tensor *logits, punctual_detection *found,
                                    size_t room, size_t *count);

/* CenterNet: `heat` (classes, rows, columns), `sizes` and `offsets` (2, rows, columns) in cells of `stride` pixels; offsets
 * may be NULL. Activation: PUNCTUAL_SIGMOID or PUNCTUAL_SCORES. */
punctual_status punctual_decode_peaks(const punctual_head *head, float stride,
                                      const punctual_tensor *heat, const punctual_tensor *sizes,
                                      const punctual_tensor *offsets, punctual_detection *found,
                                      size_t room, size_t *count);

/* How a key point is placed between cells. */
#define PUNCTUAL_HIGHEST_CELL 0
/* A quarter of a cell towards the higher neighbour. */
#define PUNCTUAL_QUARTER 1
/* DARK: at the top of a parabola, after a Gaussian of 11 cells. */
#define PUNCTUAL_DARK 2
/* At the mean, by the map's softmax. */
#define PUNCTUAL_MEAN 3
/* Added to one of these: the centres of the outermost cells are those of the outermost pixels (UDP, VitPose). */
#define PUNCTUAL_CORNERS_ALIGNED 16

/* Key points from heat maps (points, rows, columns): one for each map, in pixels of the input. */
punctual_status punctual_decode_key_points(const punctual_head *head, uint32_t refinement,
                                           const punctual_tensor *maps, punctual_key_point *points,
                                           size_t room, size_t *count);

/* The part of the frame that a mask covers: the pixels whose centre is in the object's box. */
typedef struct punctual_mask {
    uint32_t x;
    uint32_t y;
    uint32_t width;
    uint32_t height;
} punctual_mask;

/* The mask of an object: `prototypes` (count, rows, columns), `coefficients` (places, count) or, by the head's layout,
 * (count, places). `object` is in pixels of the frame. `likely` gets for each pixel of the mask, row after row, how likely it is
 * the object's, 0 to 1: `room` numbers at most, else PUNCTUAL_ERROR_ARGUMENT. (right - left + 1) * (bottom - top + 1) are enough. */
punctual_status punctual_decode_mask(const punctual_head *head, const punctual_view *view,
                                     const punctual_tensor *prototypes,
                                     const punctual_tensor *coefficients,
                                     const punctual_detection *object, punctual_mask *mask,
                                     float *likely, size_t room);

#ifdef __cplusplus
}
#endif

#endif
