/* Answers before verdicts, of a daemon that answers each frame by two exits: the second's answer to a frame whose
 * pixels are even comes before the next frame's.
 *
 *     answers SOCKET ring|poll|callback
 *
 * Ends with 0 if all was right. C99 and C++. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <punctual.h>
#include <sched.h>
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

#define TURNS 30

static uint64_t soon(void) { return punctual_now_ns() + UINT64_C(20000000000); }

static int told[2];

static void tell(const punctual_result *result, void *context) {
    CHECK(context == told);
    CHECK(write(told[1], result, sizeof *result) == (ssize_t)sizeof *result);
}

static void wait_for(int fd) {
    struct pollfd waiting;
    waiting.fd = fd;
    waiting.events = POLLIN;
    CHECK(poll(&waiting, 1, 20000) == 1);
}

/* The next answer or verdict, in the way that `way` says; a callback hears verdicts alone. */
static punctual_result next(punctual_client *client, const char *way) {
    punctual_result result;
    if (strcmp(way, "ring") == 0) {
        CHECK(punctual_answer(client, soon(), &result) == PUNCTUAL_OK);
    } else if (strcmp(way, "poll") == 0) {
        int fd;
        punctual_status status;
        CHECK(punctual_fd(client, &fd) == PUNCTUAL_OK);
        while ((status = punctual_try_answer(client, &result)) == PUNCTUAL_NOTHING)
            wait_for(fd);
        CHECK(status == PUNCTUAL_OK);
    } else {
        wait_for(told[0]);
        CHECK(read(told[0], &result, sizeof result) == (ssize_t)sizeof result);
    }
    return result;
}

static punctual_result latest(punctual_client *client) {
    punctual_result result;
    uint64_t limit = soon();
    punctual_status status;
    while ((status = punctual_latest(client, &result)) == PUNCTUAL_NOTHING) {
        CHECK(punctual_now_ns() < limit);
        sched_yield();
    }
    CHECK(status == PUNCTUAL_OK);
    return result;
}

static uint64_t submit(punctual_client *client, unsigned char pixel) {
    static const float speed[2] = {0.5f, 1.5f};
    punctual_slot_t slot;
    punctual_request request;
    uint64_t sequence;
    memset(&request, 0, sizeof request);
    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    memset(slot.pixels, pixel, slot.bytes);
    CHECK(punctual_set_vector(client, &slot, "speed", speed, 2) == PUNCTUAL_OK);
    CHECK(punctual_submit(client, &slot, &request, &sequence) == PUNCTUAL_OK);
    return sequence;
}

/* That the outputs are those of this frame and exit. */
static void check(const punctual_outputs *outputs, unsigned char pixel, int exit_number) {
    punctual_tensor boxes;
    const float *values;
    CHECK(punctual_output_named(outputs, "boxes", &boxes) == PUNCTUAL_OK);
    values = (const float *)boxes.data;
    CHECK(values[0] == (float)pixel && values[3] == (float)exit_number);
}

int main(int count, char **arguments) {
    punctual_options options = PUNCTUAL_OPTIONS_INIT;
    punctual_client *client;
    punctual_result first, again, result;
    punctual_outputs *early, *same, *deep;
    uint64_t sequence;
    unsigned char turn;
    int callback;

    CHECK(count == 3);
    callback = strcmp(arguments[2], "callback") == 0;
    CHECK(pipe(told) == 0);
    options.socket = arguments[1];
    options.task = "any";
    CHECK((callback ? punctual_open_with_callback(&options, soon(), tell, told, &client)
                    : punctual_open(&options, soon(), &client)) == PUNCTUAL_OK);
    CHECK(punctual_latest(client, &result) == PUNCTUAL_NOTHING);
    CHECK(punctual_latest(client, NULL) == PUNCTUAL_ERROR_ARGUMENT);
    for (turn = 0; turn < TURNS; turn++) {
        sequence = submit(client, (unsigned char)(2 * turn));
        first = callback ? latest(client) : next(client, arguments[2]);
        CHECK(first.sequence == sequence && first.is_final == 0 && first.exit == 0);
        CHECK(first.verdict == PUNCTUAL_ON_TIME && first.answered == 1);
        CHECK(punctual_take_outputs(client, &first, &early) == PUNCTUAL_OK);
        CHECK(punctual_take_outputs(client, &first, &same) == PUNCTUAL_NOTHING);
        /* It is the newest as often as it is asked for, with its outputs. */
        again = latest(client);
        CHECK(again.sequence == sequence && again.is_final == 0 && again.exit == 0);
        CHECK(punctual_take_outputs(client, &again, &same) == PUNCTUAL_OK);
        check(same, (unsigned char)(2 * turn), 0);
        punctual_release_outputs(same);
        if (callback) {
            CHECK(punctual_answer(client, 0, &result) == PUNCTUAL_ERROR_ARGUMENT);
            CHECK(punctual_try_answer(client, &result) == PUNCTUAL_ERROR_ARGUMENT);
        } else {
            CHECK(punctual_try_answer(client, &result) == PUNCTUAL_NOTHING);
            CHECK(punctual_try_verdict(client, &result) == PUNCTUAL_NOTHING);
            CHECK(punctual_unanswered(client) == 1);
        }
        /* The next frame brings the verdict of this one, and has its own at once. */
        submit(client, 1);
        do
            result = next(client, arguments[2]);
        while (result.is_final == 0);
        CHECK(result.sequence == sequence && result.exit == 1);
        if (!callback) {
            CHECK(punctual_take_outputs(client, &first, &deep) == PUNCTUAL_NOTHING);
            CHECK(punctual_take_outputs(client, &result, &deep) == PUNCTUAL_OK);
            check(deep, (unsigned char)(2 * turn), 1);
            punctual_release_outputs(deep);
        }
        /* Of the same area, which is not the daemon's yet. */
        check(early, (unsigned char)(2 * turn), 0);
        punctual_release_outputs(early);
        do
            result = next(client, arguments[2]);
        while (result.is_final == 0);
        CHECK(result.sequence == sequence + 1 && result.exit == 1);
        CHECK(punctual_latest(client, &result) == PUNCTUAL_NOTHING);
    }
    punctual_close(client);
    return 0;
}
