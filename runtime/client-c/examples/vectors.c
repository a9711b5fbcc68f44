/* A vector in, a tensor out: thirty frames, each with a speed, whose answers are rows of numbers.
 *
 *     cc vectors.c $(pkg-config --cflags --libs punctual) -o vectors
 *     ./vectors /tmp/punctual.sock camera
 *
 * The task gives an output `boxes` and takes a vector `speed` of two numbers. */
#include <inttypes.h>
#include <punctual.h>
#include <stdio.h>
#include <string.h>

#define FRAMES 30

static int say(const char *what) {
    fprintf(stderr, "%s: %s\n", what, punctual_last_error());
    return 1;
}

static int print(punctual_client *client, const punctual_result *result) {
    char name[64];
    punctual_outputs *outputs;
    punctual_tensor boxes;

    printf("frame %" PRIu64 ": %s", result->sequence,
           punctual_verdict_text(result->verdict, result->reason));
    if (result->has_class && punctual_class_name(client, result->class_index, name, sizeof name) == PUNCTUAL_OK)
        printf(", %s", name);
    if (punctual_take_outputs(client, result, &outputs) == PUNCTUAL_OK) {
        if (punctual_output_named(outputs, "boxes", &boxes) != PUNCTUAL_OK ||
            boxes.element != PUNCTUAL_FLOAT32 || boxes.rank != 2)
            return say("no boxes");
        const float *values = (const float *)boxes.data;
        for (uint32_t row = 0; row < boxes.shape[0]; row++) {
            printf("%s", row ? " |" : ", boxes:");
            for (uint32_t at = 0; at < boxes.shape[1]; at++)
                printf(" %g", values[row * boxes.shape[1] + at]);
        }
        /* From here on the daemon writes to that memory again. */
        punctual_release_outputs(outputs);
    }
    printf("\n");
    return 0;
}

int main(int count, char **arguments) {
    punctual_options options = PUNCTUAL_OPTIONS_INIT;
    punctual_client *client;
    punctual_slot_t slot;
    punctual_result result;

    if (count != 3) {
        fprintf(stderr, "usage: vectors SOCKET TASK\n");
        return 2;
    }
    options.socket = arguments[1];
    options.task = arguments[2];
    if (punctual_open(&options, PUNCTUAL_FOREVER, &client) != PUNCTUAL_OK)
        return say("no connection");
    for (int frame = 0; frame < FRAMES; frame++) {
        float speed[2] = {1.5f, (float)frame / 2};
        if (punctual_slot(client, PUNCTUAL_FOREVER, &slot) != PUNCTUAL_OK)
            return say("no slot");
        memset(slot.pixels, frame % 2, slot.bytes);
        if (punctual_set_vector(client, &slot, "speed", speed, 2) != PUNCTUAL_OK)
            return say("no speed");
        punctual_request request = {punctual_now_ns(), PUNCTUAL_NO_DEADLINE, 0, 0};
        if (punctual_submit(client, &slot, &request, NULL) != PUNCTUAL_OK)
            return say("not submitted");
        if (punctual_verdict(client, PUNCTUAL_FOREVER, &result) != PUNCTUAL_OK)
            return say("no verdict");
        if (print(client, &result) != 0)
            return 1;
    }
    punctual_close(client);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("standard output");
        return 1;
    }
    return 0;
}
