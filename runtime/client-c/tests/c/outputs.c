/* Takes, keeps and releases the tensors of a daemon that gives `boxes` and takes `speed`:
 *
 *     outputs SOCKET verdict|callback
 *
 * Ends with 0 if all was right. C99 and C++. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <punctual.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                \
                    punctual_last_error());                                                   \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static uint64_t soon(void) { return punctual_now_ns() + UINT64_C(20000000000); }

/* What the callback hands over: a result, and the outputs that it took. */
typedef struct {
    punctual_result result;
    punctual_outputs *outputs;
} answer;

static int told[2];
static punctual_client *opened;

static void tell(const punctual_result *result, void *context) {
    answer heard;
    CHECK(context == told);
    heard.result = *result;
    heard.outputs = NULL;
    /* Some are left, and released when this returns. */
    if (result->sequence % 3 != 0 && result->outputs > 0)
        CHECK(punctual_take_outputs(opened, result, &heard.outputs) == PUNCTUAL_OK);
    CHECK(write(told[1], &heard, sizeof heard) == (ssize_t)sizeof heard);
}

static answer ask(punctual_client *client, int callback, unsigned char pixel, float second) {
    punctual_slot_t slot;
    punctual_request request;
    float speed[2];
    answer heard;
    memset(&request, 0, sizeof request);
    memset(&heard, 0, sizeof heard);
    speed[0] = 2.5f;
    speed[1] = second;
    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    memset(slot.pixels, pixel, slot.bytes);
    CHECK(punctual_set_vector(client, &slot, "sped", speed, 2) == PUNCTUAL_ERROR_VECTOR);
    CHECK(punctual_set_vector(client, &slot, "speed", speed, 3) == PUNCTUAL_ERROR_VECTOR);
    CHECK(punctual_set_vector(client, &slot, "speed", NULL, 2) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(punctual_set_vector(client, &slot, "speed", speed, 2) == PUNCTUAL_OK);
    CHECK(punctual_submit(client, &slot, &request, NULL) == PUNCTUAL_OK);
    if (callback) {
        struct pollfd waiting;
        waiting.fd = told[0];
        waiting.events = POLLIN;
        CHECK(poll(&waiting, 1, 20000) == 1);
        CHECK(read(told[0], &heard, sizeof heard) == (ssize_t)sizeof heard);
        return heard;
    }
    CHECK(punctual_verdict(client, soon(), &heard.result) == PUNCTUAL_OK);
    if (heard.result.sequence % 3 != 0 && heard.result.outputs > 0) {
        CHECK(punctual_take_outputs(client, &heard.result, &heard.outputs) == PUNCTUAL_OK);
        punctual_outputs *again;
        CHECK(punctual_take_outputs(client, &heard.result, &again) == PUNCTUAL_NOTHING);
    }
    return heard;
}

static void check(const answer *heard, unsigned char pixel, float second) {
    punctual_tensor boxes;
    const float *values;
    CHECK(heard->result.outputs == 1 && heard->result.not_finite == 0);
    CHECK(heard->result.has_class == 1 && heard->result.class_index == pixel);
    if (heard->outputs == NULL)
        return;
    CHECK(punctual_output_count(heard->outputs) == 1);
    CHECK(punctual_output_at(heard->outputs, 1, &boxes) == PUNCTUAL_NOTHING);
    CHECK(punctual_output_named(heard->outputs, "masks", &boxes) == PUNCTUAL_NOTHING);
    CHECK(punctual_output_named(heard->outputs, "boxes", &boxes) == PUNCTUAL_OK);
    CHECK(strcmp(boxes.name, "boxes") == 0 && boxes.element == PUNCTUAL_FLOAT32);
    CHECK(boxes.rank == 2 && boxes.shape[0] == 2 && boxes.shape[1] == 4 && boxes.bytes == 32);
    CHECK((uintptr_t)boxes.data % 64 == 0);
    values = (const float *)boxes.data;
    CHECK(values[0] == (float)pixel && values[1] == 2.5f && values[2] == second);
}

int main(int count, char **arguments) {
    punctual_options options = PUNCTUAL_OPTIONS_INIT;
    punctual_client *client;
    punctual_slot_t slot;
    punctual_request request;
    char name[8];
    answer kept[4];
    answer heard;
    int callback, turn;

    CHECK(count == 3);
    callback = strcmp(arguments[2], "callback") == 0;
    CHECK(pipe(told) == 0);
    options.socket = arguments[1];
    options.task = "any";
    CHECK((callback ? punctual_open_with_callback(&options, soon(), tell, told, &client)
                    : punctual_open(&options, soon(), &client)) == PUNCTUAL_OK);
    opened = client;
    CHECK(punctual_class_name(client, 1, name, sizeof name) == PUNCTUAL_OK);
    CHECK(strcmp(name, "tram") == 0);
    CHECK(punctual_class_name(client, 2, name, sizeof name) == PUNCTUAL_NOTHING);
    CHECK(punctual_class_name(client, 1, name, 4) == PUNCTUAL_ERROR_ARGUMENT);
    /* A frame without its vector. */
    memset(&request, 0, sizeof request);
    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    CHECK(punctual_submit(client, &slot, &request, NULL) == PUNCTUAL_ERROR_VECTOR);
    for (turn = 0; turn < 60; turn++) {
        heard = ask(client, callback, (unsigned char)turn, (float)turn);
        check(&heard, (unsigned char)turn, (float)turn);
        punctual_release_outputs(heard.outputs);
    }
    /* All four areas, and one frame too many. */
    turn = 0;
    while (turn < 4) {
        kept[turn] = ask(client, callback, (unsigned char)turn, 9.0f);
        if (kept[turn].outputs != NULL)
            turn++;
    }
    do {
        heard = ask(client, callback, 7, 9.0f);
    } while (heard.result.answered);
    CHECK(heard.result.verdict == PUNCTUAL_REJECTED && heard.result.reason == PUNCTUAL_NO_AREA);
    punctual_release_outputs(kept[0].outputs);
    heard = ask(client, callback, 7, 9.0f);
    check(&heard, 7, 9.0f);
    punctual_release_outputs(heard.outputs);
    /* They outlive the client. */
    punctual_close(client);
    for (turn = 1; turn < 4; turn++) {
        check(&kept[turn], (unsigned char)turn, 9.0f);
        punctual_release_outputs(kept[turn].outputs);
    }
    punctual_release_outputs(NULL);
    CHECK(punctual_output_count(NULL) == 0);
    return 0;
}
