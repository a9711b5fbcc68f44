/* punctual.h - frames with deadlines in, verdicts out: the client library of Punctual.
 *
 *   punctual_client *client;
 *   punctual_options options = PUNCTUAL_OPTIONS_INIT;
 *   options.socket = "/run/punctual.sock";
 *   options.task = "signs";
 *   options.format = PUNCTUAL_RGB8;
 *   if (punctual_open(&options, PUNCTUAL_FOREVER, &client) != PUNCTUAL_OK)
 *       fprintf(stderr, "%s\n", punctual_last_error());
 *
 * C99 and C++. Link with what `pkg-config --cflags --libs punctual` says (add --static for the
 * static library). examples/camera.c is a whole program.
 *
 * Every submission gets exactly one verdict, not always in the order of submission; a frame that no
 * daemon answers gets PUNCTUAL_FAILED with PUNCTUAL_DAEMON_GONE. When the daemon ends, the client
 * connects anew by itself as soon as there is one again; sequence numbers go on.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC (punctual_now_ns). A limit is absolute: 0 does not wait,
 * PUNCTUAL_FOREVER waits as long as it takes.
 *
 * Verdicts come in three ways: to whoever asks (punctual_verdict), through a descriptor for an event
 * loop (punctual_fd, punctual_try_verdict), or to a callback (punctual_open_with_callback).
 *
 * Functions return PUNCTUAL_OK, PUNCTUAL_NOTHING or a negative error, of which punctual_last_error
 * has the details. A client without a callback is one thread's at a time; one with a callback may be
 * used by any thread. Nothing in here calls exit, raises a signal or throws.
 */
#ifndef PUNCTUAL_H
#define PUNCTUAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PUNCTUAL_VERSION_MAJOR 0
#define PUNCTUAL_VERSION_MINOR 1

/* A limit that never comes. */
#define PUNCTUAL_FOREVER UINT64_MAX
/* No deadline of the frame's own: its capture time and the task's. */
#define PUNCTUAL_NO_DEADLINE 0

/* What functions return. */
typedef int32_t punctual_status;
#define PUNCTUAL_OK 0
/* Nothing was there until the limit. Not an error. */
#define PUNCTUAL_NOTHING 1
/* An argument is NULL, not one of its values, or not for this kind of client. */
#define PUNCTUAL_ERROR_ARGUMENT (-1)
/* No daemon let the client in (in time). */
#define PUNCTUAL_ERROR_CONNECT (-2)
/* The daemon refuses, and asking again would not help. */
#define PUNCTUAL_ERROR_REFUSED (-3)
/* The daemon is gone, and this client does not reconnect. */
#define PUNCTUAL_ERROR_DISCONNECTED (-4)
/* The daemon that is there now wants other frames: see punctual_accept_terms. */
#define PUNCTUAL_ERROR_TERMS_CHANGED (-5)
/* The crop leaves the frame. */
#define PUNCTUAL_ERROR_CROP (-6)
/* Verdicts are to be read before more frames can be submitted. */
#define PUNCTUAL_ERROR_UNREAD (-7)
/* The slot was submitted or given back before, or is another client's. */
#define PUNCTUAL_ERROR_SLOT (-8)
/* The system refused descriptors, memory or a thread. */
#define PUNCTUAL_ERROR_SYSTEM (-9)
/* A fault of this library's: please report it. */
#define PUNCTUAL_ERROR_INTERNAL (-10)

/* How pixels are coded. */
#define PUNCTUAL_RGB8 1
/* A plane of luma, then one at half the resolution of interleaved U and V. */
#define PUNCTUAL_NV12 2
#define PUNCTUAL_BGR8 3
#define PUNCTUAL_GRAY8 4
/* Four bytes for two pixels of a row: luma, U, luma, V. */
#define PUNCTUAL_YUYV 5

/* punctual_options.flags: end with the daemon instead of connecting anew. */
#define PUNCTUAL_NO_RECONNECT 1u

/* punctual_result.verdict */
#define PUNCTUAL_ON_TIME 1
#define PUNCTUAL_LATE 2
#define PUNCTUAL_REJECTED 3
#define PUNCTUAL_FAILED 4

/* punctual_result.reason with PUNCTUAL_REJECTED */
#define PUNCTUAL_LATE_ON_ARRIVAL 1
#define PUNCTUAL_NO_SLACK 2
#define PUNCTUAL_QUEUE_FULL 3
#define PUNCTUAL_DRAINING 4
#define PUNCTUAL_CAPTURED_IN_FUTURE 5
/* Submitted faster than the manifest lets the client. */
#define PUNCTUAL_QUOTA 6
/* A newer frame of the same client took its place. */
#define PUNCTUAL_SUPERSEDED 7
/* The daemon does without best-effort work for now. */
#define PUNCTUAL_SHEDDING 8

/* punctual_result.reason with PUNCTUAL_FAILED */
#define PUNCTUAL_DEVICE 1
#define PUNCTUAL_PAYLOAD 2
#define PUNCTUAL_CLIENT_GONE 3
#define PUNCTUAL_SHED 4
#define PUNCTUAL_DAEMON_GONE 255

/* A connection for the frames of one task; renewed when the daemon is. */
typedef struct punctual_client punctual_client;

/* Which stream to feed, and how. Initialise with PUNCTUAL_OPTIONS_INIT. */
typedef struct punctual_options {
    /* sizeof(punctual_options): tells the library which fields there are. */
    uint32_t size;
    /* Of the frames: PUNCTUAL_RGB8, ... */
    uint32_t format;
    /* Where the daemon listens. */
    const char *socket;
    /* The task of its manifest to feed. */
    const char *task;
    /* Look for verdicts without sleeping for so long (at most 50000) before each sleep. */
    uint64_t spin_ns;
    /* PUNCTUAL_NO_RECONNECT or 0. */
    uint32_t flags;
    /* Where rows and planes lie in a slot, as in punctual_terms, if the sensor delivers them otherwise
     * than the manifest says. row_stride 0: as the manifest says; the others are not looked at then. */
    uint32_t row_stride;
    uint32_t offset;
    uint32_t chroma_offset;
    uint32_t chroma_stride;
    /* Frames lie in memory that the program has already: descriptors of memfds sealed against shrinking, or of
     * DMA-BUFs, one a slot (at most 64). The library keeps duplicates of them. The daemon's manifest must allow it
     * (import_buffers). A slot has no pixels then; punctual_slot_at gives the one of a buffer. 0: the daemon's memory. */
    uint32_t buffer_count;
    const int *buffers;
} punctual_options;

#define PUNCTUAL_OPTIONS_INIT { sizeof(punctual_options), PUNCTUAL_RGB8, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL }

/* What was agreed with the daemon. Lengths in pixels, offsets and strides in bytes. */
typedef struct punctual_terms {
    uint32_t format;
    uint32_t width;
    uint32_t height;
    /* From one row of RGB or luma to the next. */
    uint32_t row_stride;
    /* First byte of the chroma plane, and from one of its rows to the next; 0 without one. */
    uint32_t chroma_offset;
    uint32_t chroma_stride;
    /* The part of the frame that the network sees. */
    uint32_t crop_width;
    uint32_t crop_height;
    /* How many frames can be on their way at once. */
    uint32_t slots;
    /* How many submissions can be without a verdict that was read. */
    uint32_t results;
    /* First byte of the first row. */
    uint32_t offset;
    uint32_t reserved;
} punctual_terms;

/* A slot to write a frame into: yours from punctual_slot until punctual_submit or
 * punctual_give_back. Do not touch `pixels` after that: the daemon reads them. */
typedef struct punctual_slot_t {
    uint8_t *pixels;
    size_t bytes;
    /* Which slot, for the library. */
    uint64_t token;
    /* Its number: 0 to slots - 1. */
    uint32_t index;
    uint32_t reserved;
} punctual_slot_t;

/* What goes with a frame. */
typedef struct punctual_request {
    /* When it was captured. */
    uint64_t captured_ns;
    /* The absolute deadline, or PUNCTUAL_NO_DEADLINE. */
    uint64_t deadline_ns;
    /* The top left corner of where the network is to look. */
    uint32_t crop_x;
    uint32_t crop_y;
} punctual_request;

/* What became of a submission. */
typedef struct punctual_result {
    /* The submission's: they count from 1 for as long as the client lives. */
    uint64_t sequence;
    uint64_t captured_ns;
    /* The absolute deadline that applied; UINT64_MAX if only the daemon knew it. */
    uint64_t deadline_ns;
    /* When the verdict was reached. */
    uint64_t finished_ns;
    /* PUNCTUAL_ON_TIME, ... and why, if it was rejected or failed; else 0. */
    uint8_t verdict;
    uint8_t reason;
    /* 1 if the three fields below hold an answer. */
    uint8_t answered;
    /* The exit that it left the network through, counted from the input. */
    uint8_t exit;
    /* The class with the largest output, and that output in units of 1/65535. */
    uint16_t class_index;
    uint16_t confidence;
    /* The slot that held the frame. */
    uint32_t slot;
    uint32_t reserved;
} punctual_result;

/* Told a verdict, on the client's own thread, one after the other. May submit; may not close. */
typedef void (*punctual_callback)(const punctual_result *result, void *context);

/* Connects as soon as there is a daemon that has room, but waits for that no longer than until
 * `until_ns`. The answer of a daemon that is there is waited for up to five seconds. */
punctual_status punctual_open(const punctual_options *options, uint64_t until_ns,
                              punctual_client **client);

/* The same for a client whose verdicts go to `callback`, which also gets `context`, until
 * punctual_close has returned. Its submissions that have no verdict then get PUNCTUAL_CLIENT_GONE. */
punctual_status punctual_open_with_callback(const punctual_options *options, uint64_t until_ns,
                                            punctual_callback callback, void *context,
                                            punctual_client **client);

/* Ends the client; slots of it are gone with it. NULL is nothing to end. */
void punctual_close(punctual_client *client);

/* What was agreed; with the last daemon, if there is none at present. */
punctual_status punctual_get_terms(const punctual_client *client, punctual_terms *terms);

/* The application is ready for the frames of the daemon that is there now, after
 * PUNCTUAL_ERROR_TERMS_CHANGED; punctual_get_terms says which, from then on. */
punctual_status punctual_accept_terms(punctual_client *client);

/* A slot for the next frame; PUNCTUAL_NOTHING if all were in use, or there was no daemon, until
 * `until_ns`. Several can be had at once. */
punctual_status punctual_slot(punctual_client *client, uint64_t until_ns, punctual_slot_t *slot);

/* The slot of this number, for the frame in the buffer of that number; PUNCTUAL_NOTHING if it is in use or there is
 * no daemon. Not for a client that was opened with a callback. */
punctual_status punctual_slot_at(punctual_client *client, uint32_t index, punctual_slot_t *slot);

/* Submits the frame in `slot`, which is no longer yours, whatever is returned. `sequence` (or NULL)
 * gets the number that the verdict will repeat. */
punctual_status punctual_submit(punctual_client *client, const punctual_slot_t *slot,
                                const punctual_request *request, uint64_t *sequence);

/* A slot that is not going to be submitted. */
punctual_status punctual_give_back(punctual_client *client, const punctual_slot_t *slot);

/* Keeps the memory of a slot that is yours mapped until punctual_let_go, even when the slot is
 * submitted and the client closed: for languages with a garbage collector, in which somebody may look
 * at a frame of the past. What is seen there then is some frame or other. */
typedef struct punctual_memory punctual_memory;
punctual_status punctual_keep(const punctual_client *client, const punctual_slot_t *slot,
                              punctual_memory **memory);
void punctual_let_go(punctual_memory *memory);

/* The next verdict; PUNCTUAL_NOTHING if there was none until `until_ns`. */
punctual_status punctual_verdict(punctual_client *client, uint64_t until_ns,
                                 punctual_result *result);

/* The next verdict if it is there. Gets on with connecting if that is under way. */
punctual_status punctual_try_verdict(punctual_client *client, punctual_result *result);

/* A descriptor for poll, epoll or an event loop, the same for the client's whole life: readable when
 * punctual_try_verdict may have something to do. Call that until it gives PUNCTUAL_NOTHING before
 * each wait. Not to be read or closed. */
punctual_status punctual_fd(punctual_client *client, int *fd);

/* How many submissions have no verdict that was read. 0 for a client with a callback. */
uint64_t punctual_unanswered(const punctual_client *client);
/* How many connections there were so far: one more for each daemon that came after another. */
uint64_t punctual_connections(const punctual_client *client);
/* 1 if there is a daemon at present, else 0. */
int punctual_is_connected(const punctual_client *client);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t punctual_now_ns(void);

/* What a status means. Never NULL; not to be freed. */
const char *punctual_strerror(punctual_status status);
/* The details of the last error on this thread; "" if there was none. Valid until the next call of
 * this library on this thread. */
const char *punctual_last_error(void);
/* A verdict in words, with its reason. Never NULL; not to be freed. */
const char *punctual_verdict_text(uint8_t verdict, uint8_t reason);

#ifdef __cplusplus
}
#endif

#endif
