/* A camera in the place of a device, preloaded into the program under test: open, ioctl and mmap of the path in FAKE_V4L2
 * are answered here as a V4L2 driver would, everything else goes to the kernel. Frames come by a timer, each byte of
 * frame n is n. For tests only; what it does not need to know it refuses.
 *
 *   FAKE_V4L2            the path that is the camera
 *   FAKE_V4L2_PERIOD_US  time from frame to frame
 *   FAKE_V4L2_PADDING    bytes after each row
 *   FAKE_V4L2_GIVES      four characters: gives this format whatever is asked for
 *   FAKE_V4L2_SILENT     no more frames after so many
 *   FAKE_V4L2_FAULT      what is wrong with frames: damaged, empty, short, overlong, index (of a buffer that is not there);
 *                        their time stamp: zero, ahead, realtime, old, equal, copied, unknown (clock);
 *                        header (of 16 bytes before frames; multi-planar alone);
 *                        no frame: nothing (ready all the same), eio (until the stream is stopped; a buffer is lost)
 *   FAKE_V4L2_FAULTS     with how many of the first frames [all]
 *   FAKE_V4L2_EXPORTS    its buffers, as memory files in the place of DMA-BUFs: sealed (against holes, too) or open (not sealed)
 *   FAKE_V4L2_PIECES     multi-planar, with frames in so many pieces of memory
 *   FAKE_V4L2_JPEG       a file: each frame is its bytes, with those of the frame before behind them
 *   FAKE_V4L2_FPS_MAX    has a frame rate, and gives at most this one; says on standard error what was set
 *   FAKE_V4L2_EXPOSURE   has an exposure time; modes: none, usb (manual and aperture priority), all. The time is 100 at most;
 *                        says on standard error what was set
 *   FAKE_V4L2_NOT        captures nothing: an output device
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { BUFFERS_MAX = 32 };

static int device = -1;
static struct v4l2_pix_format format;
static struct { int memory; unsigned char *bytes; int queued; } buffers[BUFFERS_MAX];
static unsigned count, sequence, faults;
static int failed;

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static int fails(int error)
{
    errno = error;
    return -1;
}

static unsigned type(void)
{
    return getenv("FAKE_V4L2_PIECES") ? V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE : V4L2_BUF_TYPE_VIDEO_CAPTURE;
}

static int is(const char *fault)
{
    const char *given = getenv("FAKE_V4L2_FAULT");
    return given && strcmp(given, fault) == 0 && faults < number("FAKE_V4L2_FAULTS", 1L << 40);
}

static int open_any(const char *path, int flags, int mode)
{
    const char *camera = getenv("FAKE_V4L2");
    if (!camera || strcmp(path, camera) != 0)
        return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    device = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return device;
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
    va_end(rest);
    return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
    va_end(rest);
    return open_any(path, flags, mode);
}

void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0 && fd == device) {
        fd = buffers[offset >> 24].memory;
        offset = 0;
    }
    return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    return mmap(at, length, protection, flags, fd, offset);
}

static int bits(unsigned four_cc)
{
    switch (four_cc) {
    case V4L2_PIX_FMT_RGB24: case V4L2_PIX_FMT_BGR24: return 24;
    case V4L2_PIX_FMT_MJPEG: case V4L2_PIX_FMT_YUYV: case V4L2_PIX_FMT_UYVY: return 16;
    default: return 8;
    }
}

static int set_format(struct v4l2_format *asked)
{
    const char *gives = getenv("FAKE_V4L2_GIVES");
    struct v4l2_pix_format_mplane *planes = &asked->fmt.pix_mp;
    int multi = type() == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
    if (asked->type != type())
        return fails(EINVAL);
    format = asked->fmt.pix;
    if (multi)
        format = (struct v4l2_pix_format){.width = planes->width, .height = planes->height, .pixelformat = planes->pixelformat};
    if (gives)
        memcpy(&format.pixelformat, gives, 4);
    format.bytesperline = format.width * bits(format.pixelformat) / 8 + number("FAKE_V4L2_PADDING", 0);
    format.sizeimage = format.bytesperline * format.height;
    if (format.pixelformat == V4L2_PIX_FMT_NV12)
        format.sizeimage += format.sizeimage / 2;
    if (multi) {
        planes->pixelformat = format.pixelformat;
        planes->num_planes = number("FAKE_V4L2_PIECES", 1);
        planes->plane_fmt[0].bytesperline = format.bytesperline;
        planes->plane_fmt[0].sizeimage = format.sizeimage;
    } else {
        asked->fmt.pix = format;
    }
    return 0;
}

static int set_rate(struct v4l2_streamparm *asked)
{
    struct v4l2_fract *interval = &asked->parm.capture.timeperframe;
    long most = number("FAKE_V4L2_FPS_MAX", 0);
    if (!most || asked->type != type())
        return fails(most ? EINVAL : ENOTTY);
    asked->parm.capture.capability = V4L2_CAP_TIMEPERFRAME;
    if (interval->denominator > most * interval->numerator)
        *interval = (struct v4l2_fract){1, most};
    fprintf(stderr, "camera: a frame every %u/%u s\n", interval->numerator, interval->denominator);
    return 0;
}

static int set_control(struct v4l2_control *asked)
{
    const char *modes = getenv("FAKE_V4L2_EXPOSURE");
    if (!modes)
        return fails(EINVAL);
    if (asked->id == V4L2_CID_EXPOSURE_AUTO) {
        int usb = asked->value == V4L2_EXPOSURE_MANUAL || asked->value == V4L2_EXPOSURE_APERTURE_PRIORITY;
        if (strcmp(modes, "all") != 0 && !(usb && strcmp(modes, "usb") == 0))
            return fails(EINVAL);
        fprintf(stderr, "camera: exposure mode %d\n", asked->value);
        return 0;
    }
    if (asked->id != V4L2_CID_EXPOSURE_ABSOLUTE)
        return fails(EINVAL);
    if (asked->value > 100)
        asked->value = 100;
    fprintf(stderr, "camera: exposure %d\n", asked->value);
    return 0;
}

static int request(struct v4l2_requestbuffers *asked)
{
    if (asked->type != type())
        return fails(EINVAL);
    if (asked->count > BUFFERS_MAX)
        asked->count = BUFFERS_MAX;
    for (count = 0; count < asked->count; count++) {
        buffers[count].memory = memfd_create("camera", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (ftruncate(buffers[count].memory, format.sizeimage) != 0)
            return -1;
        buffers[count].bytes = (void *)syscall(SYS_mmap, NULL, (size_t)format.sizeimage, PROT_READ | PROT_WRITE,
                                               MAP_SHARED, buffers[count].memory, (off_t)0);
    }
    return 0;
}

static int exports(struct v4l2_exportbuffer *asked)
{
    const char *how = getenv("FAKE_V4L2_EXPORTS");
    if (!how || asked->type != type() || asked->index >= count || asked->plane != 0)
        return fails(how ? EINVAL : ENOTTY);
    int memory = buffers[asked->index].memory;
    if (strcmp(how, "sealed") == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE) != 0)
        return -1;
    asked->fd = fcntl(memory, F_DUPFD_CLOEXEC, 3);
    return asked->fd < 0 ? -1 : 0;
}

/* Whether it is of the device's kind, and has room for its plane if it has planes. */
static int has_planes(struct v4l2_buffer *asked)
{
    return asked->type == type() && (type() == V4L2_BUF_TYPE_VIDEO_CAPTURE || (asked->m.planes && asked->length == 1));
}

static int query(struct v4l2_buffer *asked)
{
    if (asked->index >= count)
        return fails(EINVAL);
    if (!has_planes(asked))
        return fails(EINVAL);
    if (asked->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE) {
        asked->m.planes[0].length = format.sizeimage;
        asked->m.planes[0].m.mem_offset = asked->index << 24;
        return 0;
    }
    asked->length = format.sizeimage;
    asked->m.offset = asked->index << 24;
    return 0;
}

static int queue(struct v4l2_buffer *asked)
{
    if (failed)
        return fails(EIO);
    if (!has_planes(asked) || asked->index >= count || buffers[asked->index].queued)
        return fails(EINVAL);
    buffers[asked->index].queued = 1;
    return 0;
}

static int timer(long period_us)
{
    struct itimerspec spec = {{period_us / 1000000, period_us % 1000000 * 1000}, {period_us / 1000000, period_us % 1000000 * 1000}};
    return timerfd_settime(device, 0, &spec, NULL);
}

static int start(void)
{
    sequence = 0;
    return timer(number("FAKE_V4L2_PERIOD_US", 2000));
}

static int stop(void)
{
    for (unsigned index = 0; index < count; index++)
        buffers[index].queued = 0;
    failed = 0;
    return timer(0);
}

static void stamp(struct v4l2_buffer *asked)
{
    static struct timespec first;
    struct timespec now;
    clock_gettime(is("realtime") ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
    if (!first.tv_sec)
        first = now;
    if (is("equal"))
        now = first;
    asked->timestamp.tv_sec = is("zero") ? 0 : now.tv_sec + (is("ahead") ? 5 : 0) - (is("old") ? 20 : 0);
    asked->timestamp.tv_usec = is("zero") ? 0 : now.tv_nsec / 1000;
    asked->flags = is("unknown") ? V4L2_BUF_FLAG_TIMESTAMP_UNKNOWN
                 : is("copied") ? V4L2_BUF_FLAG_TIMESTAMP_COPY : V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
}

/* Writes a frame; how many bytes it has. */
static unsigned draw(unsigned char *bytes)
{
    const char *jpeg = getenv("FAKE_V4L2_JPEG");
    FILE *file = jpeg ? fopen(jpeg, "r") : NULL;
    if (!file) {
        memset(bytes, (int)(sequence & 0xff), format.sizeimage);
        return format.sizeimage;
    }
    unsigned size = fread(bytes, 1, format.sizeimage, file);
    fclose(file);
    return size;
}

static int dequeue(struct v4l2_buffer *asked)
{
    unsigned long long expirations;
    unsigned used;
    if (!has_planes(asked))
        return fails(EINVAL);
    if (failed)
        return fails(EIO);
    if (is("nothing"))
        return fails(EAGAIN);
    if (read(device, &expirations, sizeof expirations) != sizeof expirations)
        return -1; /* EAGAIN: the timer has not come again. */
    sequence += expirations - 1; /* those were lost, as a driver's are without a buffer */
    for (unsigned index = 0; index < count; index++) {
        if (!buffers[index].queued)
            continue;
        buffers[index].queued = 0;
        if (is("eio")) {
            faults++;
            failed = 1;
            return fails(EIO);
        }
        used = draw(buffers[index].bytes);
        asked->index = is("index") ? count : index;
        used = is("empty") ? 0 : used - is("short") + is("overlong");
        if (asked->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE) {
            asked->bytesused = 0;
            asked->m.planes[0].bytesused = used;
            asked->m.planes[0].data_offset = is("header") ? 16 : 0;
        } else {
            asked->bytesused = used;
        }
        stamp(asked);
        if (is("damaged"))
            asked->flags |= V4L2_BUF_FLAG_ERROR;
        faults++;
        asked->sequence = sequence++;
        if ((long)sequence >= number("FAKE_V4L2_SILENT", 1L << 40))
            timer(0);
        return 0;
    }
    sequence++;
    return fails(EAGAIN);
}

int ioctl(int fd, unsigned long call, ...)
{
    va_list rest;
    va_start(rest, call);
    void *data = va_arg(rest, void *);
    va_end(rest);
    if (fd < 0 || fd != device)
        return syscall(SYS_ioctl, fd, call, data);
    switch (call) {
    case VIDIOC_QUERYCAP: {
        struct v4l2_capability *capability = data;
        capability->capabilities = V4L2_CAP_DEVICE_CAPS | V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING | V4L2_CAP_VIDEO_OUTPUT;
        capability->device_caps = getenv("FAKE_V4L2_NOT") ? V4L2_CAP_VIDEO_OUTPUT
                                : getenv("FAKE_V4L2_PIECES") ? V4L2_CAP_VIDEO_CAPTURE_MPLANE | V4L2_CAP_STREAMING
                                : V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
        return 0;
    }
    case VIDIOC_S_FMT: return set_format(data);
    case VIDIOC_S_PARM: return set_rate(data);
    case VIDIOC_S_CTRL: return set_control(data);
    case VIDIOC_REQBUFS: return request(data);
    case VIDIOC_QUERYBUF: return query(data);
    case VIDIOC_QBUF: return queue(data);
    case VIDIOC_EXPBUF: return exports(data);
    case VIDIOC_STREAMON: return start();
    case VIDIOC_STREAMOFF: return stop();
    case VIDIOC_DQBUF: return dequeue(data);
    default: return fails(ENOTTY);
    }
}
