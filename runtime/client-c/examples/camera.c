/* A camera in a few lines: thirty frames a second for five seconds, their verdicts, and a control loop that acts on the
 * newest answer.
 *
 *     cc camera.c $(pkg-config --cflags --libs punctual) -o camera
 *     ./camera /tmp/punctual.sock camera
 *
 * It may be started before the daemon, and outlives it. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <punctual.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FRAMES 150
#define PERIOD_NS (1000000000u / 30)
#define DEADLINE_NS 33000000u
/* Of the control loop, for each frame. */
#define TURNS 4

static int say(const char *what) {
    fprintf(stderr, "%s: %s\n", what, punctual_last_error());
    return 1;
}

static void print(const punctual_result *result) {
    double ms = (double)(result->finished_ns - result->captured_ns) / 1e6;
    printf("frame %" PRIu64 ": ", result->sequence);
    if (result->answered) {
        if (result->has_class)
            printf("class %u ", result->class_index);
        printf("by exit %u after %.2f ms, ", result->exit, ms);
    }
    printf("%s\n", punctual_verdict_text(result->verdict, result->reason));
}

/* A robot steers here. */
static void act(const punctual_result *newest) {
    printf("newest answer: frame %" PRIu64 ", exit %u\n", newest->sequence, newest->exit);
}

static void sleep_until(uint64_t until_ns) {
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
}

int main(int count, char **arguments) {
    punctual_options options = PUNCTUAL_OPTIONS_INIT;
    punctual_client *client;
    punctual_terms terms;
    punctual_result result;

    if (count != 3) {
        fprintf(stderr, "usage: camera SOCKET TASK\n");
        return 2;
    }
    options.socket = arguments[1];
    options.task = arguments[2];
    if (punctual_open(&options, PUNCTUAL_FOREVER, &client) != PUNCTUAL_OK)
        return say("no connection");
    if (punctual_get_terms(client, &terms) != PUNCTUAL_OK)
        return say("no terms");

    uint64_t start = punctual_now_ns();
    for (int turn = 0; turn < TURNS * FRAMES; turn++) {
        int frame = turn / TURNS;
        uint64_t captured = start + (uint64_t)turn * PERIOD_NS / TURNS;
        sleep_until(captured);
        /* Before its verdict, unless the manifest wants one answer. */
        if (punctual_latest(client, &result) == PUNCTUAL_OK)
            act(&result);
        while (punctual_try_verdict(client, &result) == PUNCTUAL_OK)
            print(&result);
        if (turn % TURNS != 0)
            continue;
        punctual_slot_t slot;
        punctual_status status = punctual_slot(client, 0, &slot);
        if (status == PUNCTUAL_NOTHING) {
            printf("no slot, or no daemon, for frame %d\n", frame);
            continue;
        }
        if (status != PUNCTUAL_OK)
            return say("no slots");
        /* A real camera copies its pixels here. */
        for (uint32_t row = 0; row < terms.height; row++)
            memset(slot.pixels + (size_t)row * terms.row_stride, (int)row + frame, terms.width);
        punctual_request request = {captured, captured + DEADLINE_NS, 0, 0};
        if (punctual_submit(client, &slot, &request, NULL) != PUNCTUAL_OK)
            return say("not submitted");
    }
    while (punctual_unanswered(client) > 0) {
        if (punctual_verdict(client, punctual_now_ns() + 1000000000u, &result) != PUNCTUAL_OK)
            return say("a verdict is missing");
        print(&result);
    }
    punctual_close(client);
    /* A reader that went away has ended the program before this, by SIGPIPE. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("standard output");
        return 1;
    }
    return 0;
}
