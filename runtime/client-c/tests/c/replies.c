/* Feeds a daemon that answers each frame with its first pixel, in one of three ways:
 *
 *     replies SOCKET ring|poll|callback FRAMES
 *
 * then says "answered", waits for a line on its standard input while the daemon is replaced, and
 * goes on until the new one has answered. Ends with 0 if every verdict was right. C99 and C++. */
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

/* Where the callback puts what it hears. */
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

/* The next verdict, in the way that `way` says. */
static punctual_result next(punctual_client *client, const char *way) {
    punctual_result result;
    if (strcmp(way, "ring") == 0) {
        CHECK(punctual_verdict(client, soon(), &result) == PUNCTUAL_OK);
    } else if (strcmp(way, "poll") == 0) {
        int fd;
        punctual_status status;
        CHECK(punctual_fd(client, &fd) == PUNCTUAL_OK);
        while ((status = punctual_try_verdict(client, &result)) == PUNCTUAL_NOTHING) {
            wait_for(fd);
        }
        CHECK(status == PUNCTUAL_OK);
    } else {
        wait_for(told[0]);
        CHECK(read(told[0], &result, sizeof result) == (ssize_t)sizeof result);
        CHECK(punctual_try_verdict(client, &result) == PUNCTUAL_ERROR_ARGUMENT);
    }
    return result;
}

static punctual_result one_frame(punctual_client *client, const char *way, uint64_t number) {
    punctual_slot_t slot;
    punctual_request request = {5, 0, 0, 0};
    punctual_result result;
    uint64_t sequence = 0;
    request.deadline_ns = number;
    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    memset(slot.pixels, (int)(number & 0xff), slot.bytes);
    CHECK(punctual_submit(client, &slot, &request, &sequence) == PUNCTUAL_OK);
    CHECK(punctual_submit(client, &slot, &request, NULL) == PUNCTUAL_ERROR_SLOT);
    result = next(client, way);
    CHECK(result.sequence == sequence);
    CHECK(result.captured_ns == 5 && result.deadline_ns == number);
    return result;
}

static void right(const punctual_result *result, uint64_t number) {
    CHECK(result->verdict == PUNCTUAL_ON_TIME && result->reason == 0 && result->answered == 1);
    CHECK(result->class_index == (number & 0xff) && result->confidence == 65535);
    CHECK(strcmp(punctual_verdict_text(result->verdict, result->reason), "on time") == 0);
}

/* What the header promises to refuse. */
static void refusals(const punctual_options *options) {
    punctual_client *client = NULL;
    punctual_options wrong = *options;
    wrong.socket = NULL;
    CHECK(punctual_open(&wrong, 0, &client) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(strstr(punctual_last_error(), "options.socket") != NULL);
    wrong = *options;
    wrong.size = 8;
    CHECK(punctual_open(&wrong, 0, &client) == PUNCTUAL_ERROR_ARGUMENT);
    wrong = *options;
    wrong.format = 99;
    CHECK(punctual_open(&wrong, 0, &client) == PUNCTUAL_ERROR_ARGUMENT);
    wrong = *options;
    wrong.socket = "/nobody/listens/here";
    CHECK(punctual_open(&wrong, 0, &client) == PUNCTUAL_ERROR_CONNECT);
    CHECK(punctual_open(options, 0, NULL) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(punctual_slot(NULL, 0, NULL) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(client == NULL && punctual_strerror(PUNCTUAL_ERROR_CROP) != NULL);
    punctual_close(NULL);
}

int main(int count, char **arguments) {
    punctual_options options = PUNCTUAL_OPTIONS_INIT;
    punctual_client *client;
    punctual_terms terms;
    punctual_slot_t slot;
    punctual_memory *kept;
    punctual_request outside = {0, 0, 1, 100000};
    punctual_result result;
    uint64_t number, frames;
    const char *way;

    CHECK(count == 4);
    way = arguments[2];
    frames = strtoull(arguments[3], NULL, 10);
    options.socket = arguments[1];
    options.task = "any";
    refusals(&options);
    if (strcmp(way, "callback") == 0) {
        CHECK(pipe(told) == 0);
        CHECK(punctual_open_with_callback(&options, soon(), tell, told, &client) == PUNCTUAL_OK);
    } else {
        CHECK(punctual_open(&options, soon(), &client) == PUNCTUAL_OK);
    }
    CHECK(punctual_get_terms(client, &terms) == PUNCTUAL_OK);
    CHECK(terms.format == PUNCTUAL_RGB8 && terms.width == 64 && terms.height == 48);
    CHECK(terms.row_stride == 192 && terms.crop_width == 32 && terms.slots == 4);
    for (number = 1; number <= frames; number++) {
        result = one_frame(client, way, number);
        right(&result, number);
    }
    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    CHECK(slot.bytes == 64 * 48 * 3);
    CHECK(punctual_give_back(client, &slot) == PUNCTUAL_OK);
    CHECK(punctual_give_back(client, &slot) == PUNCTUAL_ERROR_SLOT);
    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    CHECK(punctual_submit(client, &slot, &outside, NULL) == PUNCTUAL_ERROR_CROP);
    CHECK(punctual_connections(client) == 1 && punctual_is_connected(client) == 1);

    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    puts("answered");
    fflush(stdout);
    CHECK(getchar() == '\n');
    /* A frame written for the daemon that is gone, and then others until there is a new one. */
    outside.crop_x = outside.crop_y = 0;
    CHECK(punctual_keep(client, &slot, &kept) == PUNCTUAL_OK);
    slot.pixels[0] = 77;
    CHECK(punctual_submit(client, &slot, &outside, NULL) == PUNCTUAL_OK);
    result = next(client, way);
    CHECK(result.verdict == PUNCTUAL_FAILED && result.reason == PUNCTUAL_DAEMON_GONE);
    do {
        result = one_frame(client, way, ++number);
    } while (result.verdict == PUNCTUAL_FAILED && result.reason == PUNCTUAL_DAEMON_GONE);
    right(&result, number);
    CHECK(punctual_connections(client) == 2);
    punctual_close(client);
    CHECK(slot.pixels[0] == 77); /* of the first daemon's time */
    punctual_let_go(kept);
    punctual_let_go(NULL);
    puts("recovered");
    return 0;
}
