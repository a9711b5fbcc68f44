/* punctual.h - frames with deadlines in, verdicts out: the client library of Punctual.
 *
 *   punctual_client *client;
 *   punctual_options options = PUNCTUAL_OPTIONS_INIT;
 *   options.socket = "/run/punctual/socket";
 *   options.task = "front";
 *   options.format = PUNCTUAL_RGB8;
 *   if (punctual_open(&options, PUNCTUAL_FOREVER, &client) != PUNCTUAL_OK)
 *       fprintf(stderr, "%s\n", punctual_last_error());
 *
 * C99 and C++. Link with the output of `pkg-config --cflags --libs punctual` (add --static for the
 * static library). examples/camera.c is a complete program.
 *
 * Every submission gets exactly one verdict, not always in the order of submission; a frame that no
 * daemon answers gets PUNCTUAL_FAILED with PUNCTUAL_DAEMON_GONE. When the daemon ends, the client
 * reconnects to the next one by itself; sequence numbers continue.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC (punctual_now_ns). A limit is absolute: 0 does not wait,
 * PUNCTUAL_FOREVER waits without limit.
 *
 * There are three ways to get verdicts: a blocking call (punctual_verdict), through a descriptor for an event
 * loop (punctual_fd, punctual_try_verdict), or to a callback (punctual_open_with_callback).
 *
 * Unless the manifest wants one answer (answers = "final" or "early"), a frame's answers come one after the other, each
 * from a deeper exit, and then its verdict. punctual_latest gives the newest answer that is there, for a control loop;
 * punctual_answer and punctual_try_answer give each as it comes, and verdicts. Verdicts must be read in any case.
 *
 * Functions return PUNCTUAL_OK, PUNCTUAL_NOTHING or a negative error; punctual_last_error
 * gives its details. A client without a callback is for one thread at a time; any thread may use
 * one with a callback. No function calls exit, raises a signal or throws.
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

/* No time limit. */
#define PUNCTUAL_FOREVER UINT64_MAX
/* The frame has no deadline of its own: its capture time plus the task's deadline applies. */
#define PUNCTUAL_NO_DEADLINE 0

/* What functions return. */
typedef int32_t punctual_status;
#define PUNCTUAL_OK 0
/* Nothing arrived within the limit. Not an error. */
#define PUNCTUAL_NOTHING 1
/* An argument is NULL or invalid, or does not apply to this kind of client. */
#define PUNCTUAL_ERROR_ARGUMENT (-1)
/* No daemon admitted the client within the limit. */
#define PUNCTUAL_ERROR_CONNECT (-2)
/* The daemon refused the connection, for a reason that another attempt does not change. */
#define PUNCTUAL_ERROR_REFUSED (-3)
/* The daemon is gone, and this client does not reconnect. */
#define PUNCTUAL_ERROR_DISCONNECTED (-4)
/* The present daemon expects another frame format: see punctual_accept_terms. */
#define PUNCTUAL_ERROR_TERMS_CHANGED (-5)
/* The crop reaches beyond the frame. */
#define PUNCTUAL_ERROR_CROP (-6)
/* Too many unread verdicts: read some before the next submission. */
#define PUNCTUAL_ERROR_UNREAD (-7)
/* The slot was submitted or released before, or belongs to another client. */
#define PUNCTUAL_ERROR_SLOT (-8)
/* The system has no descriptors, memory or threads left. */
#define PUNCTUAL_ERROR_SYSTEM (-9)
/* A defect of this library: report it. */
#define PUNCTUAL_ERROR_INTERNAL (-10)
/* A vector of the task was not set, or its name, length or a number is wrong. */
#define PUNCTUAL_ERROR_VECTOR (-11)
/* A tensor or a size does not go with the head (punctual_decode.h). */
#define PUNCTUAL_ERROR_DECODE (-12)
/* The connection has no task of this name. */
#define PUNCTUAL_ERROR_TASK (-13)

/* Pixel formats. */
#define PUNCTUAL_RGB8 1
/* A plane of luma, then one at half the resolution of interleaved U and V. */
#define PUNCTUAL_NV12 2
#define PUNCTUAL_BGR8 3
#define PUNCTUAL_GRAY8 4
/* Four bytes for two pixels of a row: luma, U, luma, V. */
#define PUNCTUAL_YUYV 5
/* Two bytes a pixel, the low one first. */
#define PUNCTUAL_GRAY16 6
/* Four bytes a pixel: red, green, blue, and a fourth value. */
#define PUNCTUAL_RGBA8 7
/* The network's input as the client prepared it, in little-endian float: rows of crop_width, a channel of
 * crop_height rows after the other. All must be finite. Height / crop_height is the number of channels. */
#define PUNCTUAL_TENSOR 8
/* Four bytes for two pixels of a row: U, luma, V, luma. */
#define PUNCTUAL_UYVY 9

/* punctual_options.flags: end with the daemon instead of reconnecting. */
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
/* Submitted faster than the manifest allows. */
#define PUNCTUAL_QUOTA 6
/* A newer frame of the same client replaced it. */
#define PUNCTUAL_SUPERSEDED 7
/* Best-effort work is shed at present. */
#define PUNCTUAL_SHEDDING 8
/* No area is free for its outputs: release outputs, or raise `slots` in the manifest. */
#define PUNCTUAL_NO_AREA 9
/* Its task's network is not loaded yet: the daemon is starting. */
#define PUNCTUAL_NOT_READY 10

/* punctual_result.reason with PUNCTUAL_FAILED */
#define PUNCTUAL_DEVICE 1
#define PUNCTUAL_PAYLOAD 2
#define PUNCTUAL_CLIENT_GONE 3
#define PUNCTUAL_SHED 4
/* A value of a tensor is infinite or no number. */
#define PUNCTUAL_NOT_FINITE 5
/* A number of its vectors is out of the manifest's range. */
#define PUNCTUAL_VECTOR 6
/* The daemon's threads got no processor time: another program had their core, or the hypervisor. */
#define PUNCTUAL_STARVED 7
#define PUNCTUAL_DAEMON_GONE 255

/* A connection for the frames of one task; it reconnects when the daemon restarts. */
typedef struct punctual_client punctual_client;

/* The daemon, the task and the frames. Initialise with PUNCTUAL_OPTIONS_INIT. */
typedef struct punctual_options {
    /* sizeof(punctual_options), from which the library knows the fields. */
    uint32_t size;
    /* Pixel format: PUNCTUAL_RGB8, ... */
    uint32_t format;
    /* The path of the daemon's socket. */
    const char *socket;
    /* The task to send frames to, as the manifest names it. */
    const char *task;
    /* Poll for verdicts this long before each sleep: 0 to 50000 ns. */
    uint64_t spin_ns;
    /* PUNCTUAL_NO_RECONNECT or 0. */
    uint32_t flags;
    /* Layout of rows and planes in a slot, as in punctual_terms, if the sensor's differs from the
     * manifest's. row_stride 0: the manifest's layout; the next three fields are ignored then. */
    uint32_t row_stride;
    uint32_t offset;
    uint32_t chroma_offset;
    uint32_t chroma_stride;
    /* Client buffers: descriptors of memfds sealed against shrinking, or of
     * DMA-BUFs, one a slot (at most 64). The library keeps duplicates of them. The daemon's manifest must allow it
     * (import_buffers). A slot has no pixels then; punctual_slot_at gives the slot of a buffer. 0: the daemon's memory. */
    uint32_t buffer_count;
    const int *buffers;
} punctual_options;

#define PUNCTUAL_OPTIONS_INIT { sizeof(punctual_options), PUNCTUAL_RGB8, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL }

/* The terms of the connection. Lengths in pixels, offsets and strides in bytes. */
typedef struct punctual_terms {
    uint32_t format;
    uint32_t width;
    uint32_t height;
    /* From the start of a row of RGB or luma to the next. */
    uint32_t row_stride;
    /* First byte of the chroma plane, and from one of its rows to the next; 0 without one. */
    uint32_t chroma_offset;
    uint32_t chroma_stride;
    /* Size of the crop that the network gets. */
    uint32_t crop_width;
    uint32_t crop_height;
    /* How many frames can be in flight at once. */
    uint32_t slots;
    /* How many submissions can be without a read verdict. */
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
    /* Identifies the slot to the library. */
    uint64_t token;
    /* Its number: 0 to slots - 1. */
    uint32_t index;
    uint32_t reserved;
} punctual_slot_t;

/* Times and crop of a frame. */
typedef struct punctual_request {
    /* Capture time, in ns. */
    uint64_t captured_ns;
    /* The absolute deadline, or PUNCTUAL_NO_DEADLINE. */
    uint64_t deadline_ns;
    /* Upper left corner of the crop, in pixels. */
    uint32_t crop_x;
    uint32_t crop_y;
} punctual_request;

/* The verdict of a submission, or an answer before it. */
typedef struct punctual_result {
    /* The submission's number, from 1 on; a reconnection does not reset it. */
    uint64_t sequence;
    uint64_t captured_ns;
    /* The absolute deadline that applied; UINT64_MAX if only the daemon knew it. */
    uint64_t deadline_ns;
    /* When the answer was sent first; without one, when the verdict was reached. */
    uint64_t finished_ns;
    /* PUNCTUAL_ON_TIME, ...; the reason of a rejection or failure, else 0. An answer that
     * was on time stays so, whatever its verdict's answer becomes. */
    uint8_t verdict;
    uint8_t reason;
    /* 1 if there is an answer. */
    uint8_t answered;
    /* The exit that gave the answer, counted from the input. */
    uint8_t exit;
    /* The class with the largest score, if has_class; punctual_class_name gives its name. How sure the network is, in
     * units of 1/65535, if has_confidence. */
    uint16_t class_index;
    uint16_t confidence;
    /* The slot that held the frame. */
    uint32_t slot;
    uint8_t has_class;
    uint8_t has_confidence;
    /* How many tensors the answer has: see punctual_take_outputs. */
    uint8_t outputs;
    /* 1 if some values of them are not finite. */
    uint8_t not_finite;
    /* 1 if this is the verdict; 0 if another result of the same sequence follows: a deeper answer, that of a part of the
     * frame, or the verdict. */
    uint8_t is_final;
    /* Which crop of the frame this is about, from 1, where tasks look at what another finds: its only result, by
     * punctual_answer, before the frame's verdict. 0: the frame. */
    uint8_t part;
    /* Where the connection is of several tasks (punctual_set_task, or tasks that look at parts), the number of the one whose
     * answer this is; 0: the one of the options, or no daemon answered. */
    uint16_t task;
    /* With the verdict: boxes of the frame that no task looked at, as they are beyond the manifest's bound. */
    uint16_t left_out;
    uint16_t reserved;
    /* What the network saw of the frame, if this is about a part. */
    uint16_t crop_x;
    uint16_t crop_y;
    uint16_t crop_width;
    uint16_t crop_height;
} punctual_result;

/* punctual_tensor.element */
#define PUNCTUAL_FLOAT32 0
#define PUNCTUAL_INT32 1
/* A byte, 0 or 1. */
#define PUNCTUAL_BOOL 2
/* A byte that stands for (byte - zero) * scale. */
#define PUNCTUAL_UINT8 3
#define PUNCTUAL_INT8 4

/* Most dimensions of a tensor. */
#define PUNCTUAL_RANK_MAX 8

/* One tensor of an answer, in shared memory that nobody else can write. Valid until punctual_release_outputs. */
typedef struct punctual_tensor {
    /* The network's name for it. */
    const char *name;
    /* Its elements without gaps, the last dimension fastest. Aligned to 64 bytes. */
    const void *data;
    size_t bytes;
    /* PUNCTUAL_FLOAT32, ... */
    uint32_t element;
    /* How many dimensions; 0 for a single value. */
    uint32_t rank;
    uint32_t shape[PUNCTUAL_RANK_MAX];
    /* Of PUNCTUAL_UINT8 and PUNCTUAL_INT8; else 1 and 0. */
    float scale;
    int32_t zero;
} punctual_tensor;

/* The tensors of one answer. */
typedef struct punctual_outputs punctual_outputs;

/* Receives the verdicts one by one, on the client's own thread. May submit; may not close. */
typedef void (*punctual_callback)(const punctual_result *result, void *context);

/* Connects as soon as a daemon has a free place, and waits for one until `until_ns` at most. A daemon
 * that accepts the connection gets five seconds to answer. */
punctual_status punctual_open(const punctual_options *options, uint64_t until_ns,
                              punctual_client **client);

/* The same for a client whose verdicts go to `callback`, which also gets `context`, until
 * punctual_close has returned. Its submissions that have no verdict then get PUNCTUAL_CLIENT_GONE. */
punctual_status punctual_open_with_callback(const punctual_options *options, uint64_t until_ns,
                                            punctual_callback callback, void *context,
                                            punctual_client **client);

/* Ends the client and frees its slots. NULL is allowed. */
void punctual_close(punctual_client *client);

/* The terms of the connection; of the last one, if there is none at present. */
punctual_status punctual_get_terms(const punctual_client *client, punctual_terms *terms);

/* Accepts the present daemon's terms after PUNCTUAL_ERROR_TERMS_CHANGED; punctual_get_terms gives
 * them from then on. */
punctual_status punctual_accept_terms(punctual_client *client);

/* A slot for the next frame; PUNCTUAL_NOTHING if all were in use, or there was no daemon, until
 * `until_ns`. Several can be held at once. */
punctual_status punctual_slot(punctual_client *client, uint64_t until_ns, punctual_slot_t *slot);

/* The slot of this number, for the frame in the buffer of that number; PUNCTUAL_NOTHING if it is in use or there is
 * no daemon. Not for a client that was opened with a callback. */
punctual_status punctual_slot_at(punctual_client *client, uint32_t index, punctual_slot_t *slot);

/* Submits the frame in `slot` and takes the slot back, also on an error. `sequence` (or NULL) gets
 * the number that the verdict will have. */
punctual_status punctual_submit(punctual_client *client, const punctual_slot_t *slot,
                                const punctual_request *request, uint64_t *sequence);

/* Releases a slot without a submission. */
punctual_status punctual_give_back(punctual_client *client, const punctual_slot_t *slot);

/* Sets a vector that goes with the frame in `slot`: `count` numbers, as many as the manifest says. Each vector of the
 * task must be set before each submission. */
punctual_status punctual_set_vector(punctual_client *client, const punctual_slot_t *slot,
                                    const char *name, const float *values, size_t count);

/* Says which task the frame in `slot` is for, where a [[task]] of the manifest is for many packages: its tasks share one
 * connection. Otherwise a frame is for the task of the options. To be said for each frame. */
punctual_status punctual_set_task(punctual_client *client, const punctual_slot_t *slot, const char *name);
/* How many tasks the connection's frames can be for; 0: only the one of the options. */
uint32_t punctual_task_count(const punctual_client *client);
/* Copies the name of a task, by its number from 1 to punctual_task_count (tasks that look at parts come behind these), to `name`, of which `size` bytes can be written,
 * and a zero; PUNCTUAL_NOTHING if there is none. Numbers are those of the present connection. */
punctual_status punctual_task_name(const punctual_client *client, uint32_t task, char *name, size_t size);

/* Keeps the memory of a slot mapped until punctual_let_go, even after the slot is submitted and the
 * client closed: for languages with a garbage collector, in which references to an old frame may
 * remain. Such a reference reads the slot's present content. */
typedef struct punctual_memory punctual_memory;
punctual_status punctual_keep(const punctual_client *client, const punctual_slot_t *slot,
                              punctual_memory **memory);
void punctual_let_go(punctual_memory *memory);

/* The next verdict; PUNCTUAL_NOTHING if there was none until `until_ns`. */
punctual_status punctual_verdict(punctual_client *client, uint64_t until_ns,
                                 punctual_result *result);

/* The next verdict if there is one. Continues a connection attempt in progress. */
punctual_status punctual_try_verdict(punctual_client *client, punctual_result *result);

/* The next answer before its verdict, or else the next verdict (is_final tells); PUNCTUAL_NOTHING if there was none
 * until `until_ns`. Of a frame whose deeper answer is there already, only that one. Not for a client that was opened
 * with a callback, which receives verdicts alone. */
punctual_status punctual_answer(punctual_client *client, uint64_t until_ns, punctual_result *result);
/* The same if there is one. Continues a connection attempt in progress. */
punctual_status punctual_try_answer(punctual_client *client, punctual_result *result);

/* The newest answer, for a loop that takes what is there at each of its turns: that of the newest frame which has one,
 * with or without its verdict; PUNCTUAL_NOTHING if no frame newer than those whose verdicts were read has one. Nothing
 * is used up: the verdict remains to be read, or goes to the callback. One thread at a time may call it, of a client
 * with a callback, too. */
punctual_status punctual_latest(punctual_client *client, punctual_result *result);

/* The tensors of the result that the client got last (by any of the functions above), in a callback those of the
 * callback's result; PUNCTUAL_NOTHING if it has none, or they were taken before. They remain until
 * punctual_release_outputs, also after punctual_close. Tensors that are not taken are released with the next result, or
 * at the callback's end. Those of all answers of a frame are in one area, which goes back to the daemon after the
 * verdict, when all of them are released. As long as a program keeps all areas (as many as the task has slots), its
 * submissions are rejected with PUNCTUAL_NO_AREA. */
punctual_status punctual_take_outputs(punctual_client *client, const punctual_result *result,
                                      punctual_outputs **outputs);
/* How many tensors; 0 of NULL. */
uint32_t punctual_output_count(const punctual_outputs *outputs);
/* The tensor at a position from 0 on, or of a name; PUNCTUAL_NOTHING if there is none. */
punctual_status punctual_output_at(const punctual_outputs *outputs, uint32_t position,
                                   punctual_tensor *tensor);
punctual_status punctual_output_named(const punctual_outputs *outputs, const char *name,
                                      punctual_tensor *tensor);
/* Gives the memory back to the daemon. NULL is allowed. Any thread may call it. */
void punctual_release_outputs(punctual_outputs *outputs);

/* Copies the name of a class to `name`, of which `size` bytes can be written, and a zero; PUNCTUAL_NOTHING if the class
 * has no name. */
punctual_status punctual_class_name(const punctual_client *client, uint32_t class_index, char *name,
                                    size_t size);
/* The same of another task of the connection, by its number: that of a result is its `task`. */
punctual_status punctual_class_name_of(const punctual_client *client, uint32_t task, uint32_t class_index,
                                       char *name, size_t size);

/* A descriptor for poll, epoll or an event loop, the same for the client's whole life: readable when
 * punctual_try_verdict or punctual_try_answer may have something to do, so for answers before verdicts too. Before each
 * wait, call one of them until it returns PUNCTUAL_NOTHING. Do not read or close the descriptor. */
punctual_status punctual_fd(punctual_client *client, int *fd);

/* How many submissions have no read verdict. 0 for a client with a callback. */
uint64_t punctual_unanswered(const punctual_client *client);
/* How many connections there were so far, reconnections included. */
uint64_t punctual_connections(const punctual_client *client);
/* 1 if there is a daemon at present, else 0. */
int punctual_is_connected(const punctual_client *client);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t punctual_now_ns(void);

/* The meaning of a status. Never NULL; do not free it. */
const char *punctual_strerror(punctual_status status);
/* The details of the last error on this thread; "" if there was none. Valid until the next call of
 * this library on this thread. */
const char *punctual_last_error(void);
/* The meaning of a verdict and its reason. Never NULL; do not free it. */
const char *punctual_verdict_text(uint8_t verdict, uint8_t reason);

#ifdef __cplusplus
}
#endif

#endif
