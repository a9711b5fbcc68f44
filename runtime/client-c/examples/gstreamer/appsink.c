/* Any GStreamer source as a camera of punctuald: frames from an appsink into slots, with their capture times.
 *
 *     cc appsink.c $(pkg-config --cflags --libs punctual gstreamer-app-1.0 gstreamer-video-1.0) -o appsink
 *     ./appsink /run/punctual/socket front "v4l2src ! videoconvert"
 *
 * The third argument is all of the pipeline but its end. The size is the manifest's, the task's format rgb8. */
#include <gst/app/gstappsink.h>
#include <gst/video/video.h>
#include <inttypes.h>
#include <punctual.h>
#include <stdio.h>
#include <string.h>

static int say(const char *what, const char *why) {
    fprintf(stderr, "appsink: %s: %s\n", what, why);
    return 1;
}

/* The pipeline: what was given, then frames as the daemon wants them, the newest one only. */
static GstElement *build(const char *source, const punctual_terms *terms, GError **error) {
    char *text = g_strdup_printf("%s ! video/x-raw,format=RGB,width=%u,height=%u ! "
                                 "appsink name=frames sync=false max-buffers=1 drop=true",
                                 source, terms->width, terms->height);
    GstElement *pipeline = gst_parse_launch(text, error);
    g_free(text);
    if (pipeline) {
        /* GStreamer's system clock is the one that punctuald counts on; a sound card's would not be. */
        GstClock *clock = gst_system_clock_obtain();
        gst_pipeline_use_clock(GST_PIPELINE(pipeline), clock);
        gst_object_unref(clock);
    }
    return pipeline;
}

/* When the source says that the frame was captured; now, if it does not say. */
static uint64_t captured_ns(GstElement *pipeline, GstSample *sample) {
    GstClockTime pts = GST_BUFFER_PTS(gst_sample_get_buffer(sample));
    GstClockTime running = gst_segment_to_running_time(gst_sample_get_segment(sample), GST_FORMAT_TIME, pts);
    uint64_t now = punctual_now_ns();
    if (!GST_CLOCK_TIME_IS_VALID(running))
        return now;
    uint64_t captured = gst_element_get_base_time(pipeline) + running;
    return captured < now ? captured : now;
}

/* Copies the frame into a slot and submits it; PUNCTUAL_NOTHING if there is no slot or no daemon. */
static punctual_status feed(punctual_client *client, const punctual_terms *terms, GstElement *pipeline, GstSample *sample) {
    punctual_slot_t slot;
    punctual_status status = punctual_slot(client, 0, &slot);
    if (status != PUNCTUAL_OK)
        return status;
    GstVideoInfo info;
    GstVideoFrame frame;
    if (!gst_video_info_from_caps(&info, gst_sample_get_caps(sample)) ||
        !gst_video_frame_map(&frame, &info, gst_sample_get_buffer(sample), GST_MAP_READ)) {
        punctual_give_back(client, &slot);
        return PUNCTUAL_NOTHING;
    }
    const uint8_t *rows = GST_VIDEO_FRAME_PLANE_DATA(&frame, 0);
    for (uint32_t row = 0; row < terms->height; row++)
        memcpy(slot.pixels + terms->offset + (size_t)row * terms->row_stride,
               rows + (size_t)row * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0), (size_t)terms->width * 3);
    gst_video_frame_unmap(&frame);
    punctual_request request = {captured_ns(pipeline, sample), PUNCTUAL_NO_DEADLINE, 0, 0};
    return punctual_submit(client, &slot, &request, NULL);
}

static void print(const punctual_result *result) {
    printf("frame %" PRIu64 ": %s", result->sequence, punctual_verdict_text(result->verdict, result->reason));
    if (result->answered)
        printf(", class %u after %.2f ms", result->class_index, (double)(result->finished_ns - result->captured_ns) / 1e6);
    printf("\n");
}

int main(int count, char **arguments) {
    gst_init(&count, &arguments);
    if (count != 4)
        return say("usage", "appsink SOCKET TASK PIPELINE");
    punctual_options options = PUNCTUAL_OPTIONS_INIT;
    punctual_client *client;
    punctual_terms terms;
    punctual_result result;
    options.socket = arguments[1];
    options.task = arguments[2];
    if (punctual_open(&options, PUNCTUAL_FOREVER, &client) != PUNCTUAL_OK ||
        punctual_get_terms(client, &terms) != PUNCTUAL_OK)
        return say("no connection", punctual_last_error());
    GError *error = NULL;
    GstElement *pipeline = build(arguments[3], &terms, &error);
    if (error)
        return say("the pipeline", error->message);
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "frames");
    gst_element_set_state(pipeline, GST_STATE_PLAYING);

    GstSample *sample;
    uint64_t frames = 0, skipped = 0;
    while ((sample = gst_app_sink_pull_sample(GST_APP_SINK(sink)))) {
        punctual_status status = feed(client, &terms, pipeline, sample);
        gst_sample_unref(sample);
        if (status < 0)
            return say("not submitted", punctual_last_error());
        frames++;
        skipped += status == PUNCTUAL_NOTHING;
        while (punctual_try_verdict(client, &result) == PUNCTUAL_OK)
            print(&result);
    }
    while (punctual_unanswered(client) > 0 &&
           punctual_verdict(client, punctual_now_ns() + 1000000000u, &result) == PUNCTUAL_OK)
        print(&result);
    printf("%" PRIu64 " frames, %" PRIu64 " skipped, %" PRIu64 " without a verdict\n", frames, skipped, punctual_unanswered(client));
    if (fflush(stdout) != 0 || ferror(stdout))
        return say("standard output", "cannot be written");
    int lost = punctual_unanswered(client) > 0;
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(sink);
    gst_object_unref(pipeline);
    punctual_close(client);
    return lost || frames == 0;
}
