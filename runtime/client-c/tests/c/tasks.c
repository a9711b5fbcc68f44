/* Asks the two tasks of one connection, of a daemon that answers with the task's number as the exit:
 *
 *     tasks SOCKET verdict|callback
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

static int told[2];

static void tell(const punctual_result *result, void *context) {
    CHECK(context == told);
    CHECK(write(told[1], result, sizeof *result) == (ssize_t)sizeof *result);
}

/* The answer to a frame for `task`; NULL: for the task of the options. */
static punctual_result ask(punctual_client *client, int callback, const char *task) {
    punctual_slot_t slot;
    punctual_request request;
    punctual_result result;
    memset(&request, 0, sizeof request);
    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    memset(slot.pixels, 0, slot.bytes);
    if (task != NULL)
        CHECK(punctual_set_task(client, &slot, task) == PUNCTUAL_OK);
    CHECK(punctual_submit(client, &slot, &request, NULL) == PUNCTUAL_OK);
    CHECK(punctual_set_task(client, &slot, "any") == PUNCTUAL_ERROR_SLOT);
    if (callback) {
        struct pollfd waiting;
        waiting.fd = told[0];
        waiting.events = POLLIN;
        CHECK(poll(&waiting, 1, 20000) == 1);
        CHECK(read(told[0], &result, sizeof result) == (ssize_t)sizeof result);
    } else {
        CHECK(punctual_verdict(client, soon(), &result) == PUNCTUAL_OK);
    }
    return result;
}

static void check(punctual_client *client, const punctual_result *result, uint16_t task, const char *class_name) {
    char name[8];
    CHECK(result->verdict == PUNCTUAL_ON_TIME && result->task == task && result->exit == task);
    CHECK(result->has_class && result->class_index == 0);
    CHECK(punctual_class_name_of(client, result->task, result->class_index, name, sizeof name) == PUNCTUAL_OK);
    CHECK(strcmp(name, class_name) == 0);
}

int main(int count, char **arguments) {
    punctual_options options = PUNCTUAL_OPTIONS_INIT;
    punctual_client *client;
    punctual_slot_t slot;
    punctual_result result;
    char name[8];
    int callback, turn;

    CHECK(count == 3);
    callback = strcmp(arguments[2], "callback") == 0;
    CHECK(pipe(told) == 0);
    options.socket = arguments[1];
    options.task = "any";
    CHECK((callback ? punctual_open_with_callback(&options, soon(), tell, told, &client)
                    : punctual_open(&options, soon(), &client)) == PUNCTUAL_OK);
    CHECK(punctual_task_count(client) == 2 && punctual_task_count(NULL) == 0);
    CHECK(punctual_task_name(client, 2, name, sizeof name) == PUNCTUAL_OK);
    CHECK(strcmp(name, "signs") == 0);
    CHECK(punctual_task_name(client, 0, name, sizeof name) == PUNCTUAL_NOTHING);
    CHECK(punctual_task_name(client, 3, name, sizeof name) == PUNCTUAL_NOTHING);
    CHECK(punctual_task_name(client, 2, name, 5) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(punctual_class_name(client, 0, name, sizeof name) == PUNCTUAL_OK);
    CHECK(strcmp(name, "car") == 0);
    CHECK(punctual_class_name_of(client, 2, 1, name, sizeof name) == PUNCTUAL_NOTHING);
    CHECK(punctual_class_name_of(client, 3, 0, name, sizeof name) == PUNCTUAL_NOTHING);
    for (turn = 0; turn < 30; turn++) {
        result = ask(client, callback, NULL);
        check(client, &result, 0, "car");
        result = ask(client, callback, "signs");
        check(client, &result, 2, "stop");
        result = ask(client, callback, "any");
        check(client, &result, 1, "car");
    }
    CHECK(punctual_slot(client, soon(), &slot) == PUNCTUAL_OK);
    CHECK(punctual_set_task(client, &slot, "trams") == PUNCTUAL_ERROR_TASK);
    CHECK(strstr(punctual_last_error(), "\"trams\"") != NULL);
    CHECK(punctual_set_task(client, &slot, NULL) == PUNCTUAL_ERROR_ARGUMENT);
    CHECK(punctual_give_back(client, &slot) == PUNCTUAL_OK);
    punctual_close(client);
    return 0;
}
