// Images resized to other rows and columns.
#pragma once

#include "guard.cuh"
#include "vectors.cuh"

// The two rows (or columns) of the input that one of the result lies between, and the weight of the second.
struct alignas(16) Between {
    u32 first;
    u32 second;
    f32 share;
    u32 gap;
};

DEVICE void blend8(Values8& first, const Values8& second, f32 share) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        first.of[i] = fused(second.of[i], share, first.of[i] * (1.0f - share));
    }
}

// Each thread computes eight channels of a pixel. The table has the result's rows, then its columns. Bytes are copied
// unchanged.
PUNCTUAL_KERNEL(resize, Resize, 128) {
    Watch watch(guard);
    const TensorView &input = params.input, &output = params.output;
    u32 vectors = output.pitch / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    u32 line = pixel / output.width;
    u32 image = line / output.height;
    if (!watch.may_go_on() || image >= params.images) {
        return;
    }
    Between row = at<const Between>(params.table)[line % output.height];
    Between column = at<const Between>(params.table)[output.height + pixel % output.width];
    u64 upper = (u64(image) * input.height + row.first) * input.width;
    u64 lower = (u64(image) * input.height + row.second) * input.width;
    u64 to = u64(pixel) * output.pitch + channel;
    if (params.kept == KEPT_BYTES) {
        struct alignas(8) Bytes8 {
            u32 words[2];
        };
        const u8* from = at<const u8>(input.address) + (upper + column.first) * input.pitch + channel;
        *reinterpret_cast<Bytes8*>(at<u8>(output.address) + to) = *reinterpret_cast<const Bytes8*>(from);
        return;
    }
    const Half* from = at<const Half>(input.address) + channel;
    Values8 result = load8(from + (upper + column.first) * input.pitch);
    if (column.share != 0.0f) {
        blend8(result, load8(from + (upper + column.second) * input.pitch), column.share);
    }
    if (row.share != 0.0f) {
        Values8 below = load8(from + (lower + column.first) * input.pitch);
        if (column.share != 0.0f) {
            blend8(below, load8(from + (lower + column.second) * input.pitch), column.share);
        }
        blend8(result, below, row.share);
    }
    store8(at<Half>(output.address) + to, result);
}
