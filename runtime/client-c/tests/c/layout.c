/* Prints what the compiler makes of punctual.h, for comparison with the library's own. */
#include <punctual.h>
#include <stdio.h>

#define STRUCT(type) printf(#type " %zu\n", sizeof(type))
#define FIELD(type, field) printf(#type "." #field " %zu\n", offsetof(type, field))
#define VALUE(name) printf(#name " %lld\n", (long long)(name))

int main(void) {
    STRUCT(punctual_options);
    FIELD(punctual_options, size);
    FIELD(punctual_options, format);
    FIELD(punctual_options, socket);
    FIELD(punctual_options, task);
    FIELD(punctual_options, spin_ns);
    FIELD(punctual_options, flags);
    FIELD(punctual_options, row_stride);
    FIELD(punctual_options, offset);
    FIELD(punctual_options, chroma_offset);
    FIELD(punctual_options, chroma_stride);
    FIELD(punctual_options, buffer_count);
    FIELD(punctual_options, buffers);
    STRUCT(punctual_terms);
    FIELD(punctual_terms, format);
    FIELD(punctual_terms, width);
    FIELD(punctual_terms, height);
    FIELD(punctual_terms, row_stride);
    FIELD(punctual_terms, chroma_offset);
    FIELD(punctual_terms, chroma_stride);
    FIELD(punctual_terms, crop_width);
    FIELD(punctual_terms, crop_height);
    FIELD(punctual_terms, slots);
    FIELD(punctual_terms, results);
    FIELD(punctual_terms, offset);
    FIELD(punctual_terms, reserved);
    STRUCT(punctual_slot_t);
    FIELD(punctual_slot_t, pixels);
    FIELD(punctual_slot_t, bytes);
    FIELD(punctual_slot_t, token);
    FIELD(punctual_slot_t, index);
    FIELD(punctual_slot_t, reserved);
    STRUCT(punctual_request);
    FIELD(punctual_request, captured_ns);
    FIELD(punctual_request, deadline_ns);
    FIELD(punctual_request, crop_x);
    FIELD(punctual_request, crop_y);
    STRUCT(punctual_result);
    FIELD(punctual_result, sequence);
    FIELD(punctual_result, captured_ns);
    FIELD(punctual_result, deadline_ns);
    FIELD(punctual_result, finished_ns);
    FIELD(punctual_result, verdict);
    FIELD(punctual_result, reason);
    FIELD(punctual_result, answered);
    FIELD(punctual_result, exit);
    FIELD(punctual_result, class_index);
    FIELD(punctual_result, confidence);
    FIELD(punctual_result, slot);
    FIELD(punctual_result, has_class);
    FIELD(punctual_result, has_confidence);
    FIELD(punctual_result, outputs);
    FIELD(punctual_result, not_finite);
    STRUCT(punctual_tensor);
    FIELD(punctual_tensor, name);
    FIELD(punctual_tensor, data);
    FIELD(punctual_tensor, bytes);
    FIELD(punctual_tensor, element);
    FIELD(punctual_tensor, rank);
    FIELD(punctual_tensor, shape);
    FIELD(punctual_tensor, scale);
    FIELD(punctual_tensor, zero);
    VALUE(PUNCTUAL_ON_TIME);
    VALUE(PUNCTUAL_LATE);
    VALUE(PUNCTUAL_LATE_ON_ARRIVAL);
    VALUE(PUNCTUAL_NO_SLACK);
    VALUE(PUNCTUAL_QUEUE_FULL);
    VALUE(PUNCTUAL_DRAINING);
    VALUE(PUNCTUAL_CAPTURED_IN_FUTURE);
    VALUE(PUNCTUAL_QUOTA);
    VALUE(PUNCTUAL_SUPERSEDED);
    VALUE(PUNCTUAL_SHEDDING);
    VALUE(PUNCTUAL_NO_AREA);
    VALUE(PUNCTUAL_DEVICE);
    VALUE(PUNCTUAL_PAYLOAD);
    VALUE(PUNCTUAL_CLIENT_GONE);
    VALUE(PUNCTUAL_SHED);
    VALUE(PUNCTUAL_NOT_FINITE);
    VALUE(PUNCTUAL_VECTOR);
    VALUE(PUNCTUAL_DAEMON_GONE);
    VALUE(PUNCTUAL_NO_RECONNECT);
    VALUE(PUNCTUAL_FLOAT32);
    VALUE(PUNCTUAL_INT32);
    VALUE(PUNCTUAL_BOOL);
    VALUE(PUNCTUAL_UINT8);
    VALUE(PUNCTUAL_INT8);
    return 0;
}
