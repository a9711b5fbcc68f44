/* Boxes in the camera's frame: thirty frames, and what a detector sees in the crop in their middle.
 *
 *     cc detector.c $(pkg-config --cflags --libs punctual) -o detector
 *     ./detector /tmp/punctual.sock camera
 *
 * The task gives `detections` and `count`, as Punctual's decoder makes them; docs/decode.md has the other heads. */
#include <inttypes.h>
#include <punctual_decode.h>
#include <stdio.h>
#include <string.h>

#define MUST(call) \
    if ((call) != PUNCTUAL_OK) return fprintf(stderr, #call ": %s\n", punctual_last_error()), 1

static int print(punctual_client *client, const punctual_result *result) {
    punctual_outputs *outputs;
    punctual_view view;
    punctual_tensor rows, number;
    punctual_detection found[100];
    size_t count;
    MUST(punctual_get_view(client, result, &view));
    MUST(punctual_take_outputs(client, result, &outputs));
    MUST(punctual_output_named(outputs, "detections", &rows));
    MUST(punctual_output_named(outputs, "count", &number));
    MUST(punctual_decode_rows(&rows, &number, 0.3f, found, 100, &count));
    punctual_release_outputs(outputs);
    MUST(punctual_view_detections(&view, found, count)); /* now in pixels of the frame */
    for (const punctual_detection *it = found; it < found + count; it++) {
        char name[64] = "something";
        punctual_class_name(client, it->class_index, name, sizeof name);
        printf("frame %" PRIu64 ": %s %.2f: %.1f %.1f %.1f %.1f\n", result->sequence, name,
               it->score, it->left, it->top, it->right, it->bottom);
    }
    return 0;
}

int main(int count, char **arguments) {
    punctual_options options = PUNCTUAL_OPTIONS_INIT;
    punctual_client *client;
    punctual_terms terms;
    punctual_slot_t slot;
    punctual_result result;
    if (count != 3)
        return fprintf(stderr, "usage: detector SOCKET TASK\n"), 2;
    options.socket = arguments[1], options.task = arguments[2];
    MUST(punctual_open(&options, PUNCTUAL_FOREVER, &client));
    MUST(punctual_get_terms(client, &terms));
    uint32_t x = (terms.width - terms.crop_width) / 2, y = (terms.height - terms.crop_height) / 2;
    for (int frame = 0; frame < 30; frame++) {
        MUST(punctual_slot(client, PUNCTUAL_FOREVER, &slot));
        memset(slot.pixels, frame, slot.bytes); /* a real camera copies its pixels here */
        punctual_request request = {punctual_now_ns(), PUNCTUAL_NO_DEADLINE, x, y};
        MUST(punctual_submit(client, &slot, &request, NULL));
        MUST(punctual_verdict(client, PUNCTUAL_FOREVER, &result));
        MUST(print(client, &result));
    }
    punctual_close(client);
    return fflush(stdout) != 0;
}
