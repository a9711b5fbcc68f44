// Pooling.
#pragma once

#include "guard.cuh"
#include "vectors.cuh"

enum PoolKind : u32 { LARGEST = 0, MEAN_WITH_PADDING = 1, MEAN = 2 };

// Sums and comparisons in f32. Both are computed: a branch between them costs more.
DEVICE void pool8(Values8& result, const Values8& values, u32 kind) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        f32 value = values.of[i];
        f32 largest = fmaxf(result.of[i], value), sum = result.of[i] + value;
        result.of[i] = kind != LARGEST ? sum : largest;
    }
}

// Eight channels of an output pixel a thread.
PUNCTUAL_KERNEL(pool, Pool, 128) {
    Watch watch(guard);
    u32 vectors = params.output.pitch / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    u32 x = pixel % params.output.width, line = pixel / params.output.width;
    u32 y = line % params.output.height, image = line / params.output.height;
    bool here = image < params.images;

    // What padding counts as: minus infinity, or zero.
    u32 outside = params.kind == LARGEST ? 0xfc00fc00 : 0;
    Values8 result = to_values({{outside, outside, outside, outside}});
    u32 inside = 0;
    const Half* input = at<const Half>(params.input.address) +
                        u64(image) * params.input.height * params.input.width * params.input.pitch + channel;
#pragma unroll 1
    for (u32 ky = 0; here && ky < params.kernel_height; ky++) {
        u32 row = y * params.stride_height + ky - params.pad_top;
#pragma unroll 3
        for (u32 kx = 0; kx < params.kernel_width; kx++) {
            u32 column = x * params.stride_width + kx - params.pad_left;
            Halves8 halves = {{outside, outside, outside, outside}};
            if (row < params.input.height && column < params.input.width) {
                halves = load_halves(input + u64(row * params.input.width + column) * params.input.pitch);
                inside++;
            }
            pool8(result, to_values(halves), params.kind);
        }
    }
    if (params.kind != LARGEST) {
        f32 share = reciprocal(f32(params.kind == MEAN ? inside : params.kernel_height * params.kernel_width));
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            result.of[i] *= share;
        }
    }
    if (watch.may_go_on() && here) {
        store8(at<Half>(params.output.address) + u64(pixel) * params.output.pitch + channel, result);
    }
}

constexpr u32 POOL_VECTORS = 8;
constexpr u32 POOL_SHARES = 16;

// The mean or the largest of each channel of an image (blockIdx.y): neighbouring threads have neighbouring channels,
// and sixteen of them share the pixels of one vector.
PUNCTUAL_KERNEL(global_pool, GlobalPool, 128) {
    Watch watch(guard);
    __shared__ Values8 results[POOL_SHARES][POOL_VECTORS];
    u32 share = threadIdx.x / POOL_VECTORS, vector = threadIdx.x % POOL_VECTORS;
    u32 channel = (blockIdx.x * POOL_VECTORS + vector) * 8;
    u32 pixels = params.input.height * params.input.width;
    // Of no pixels: minus infinity, or zero.
    u32 none = params.kind == LARGEST ? 0xfc00fc00 : 0;
    Values8 result = to_values({{none, none, none, none}});
    if (channel < params.output.pitch) {
        const Half* input = at<const Half>(params.input.address) + u64(blockIdx.y) * pixels * params.input.pitch;
#pragma unroll 4
        for (u32 pixel = share; pixel < pixels; pixel += POOL_SHARES) {
            pool8(result, load8(input + pixel * params.input.pitch + channel), params.kind);
        }
    }
    results[share][vector] = result;
    // Also the barrier between writing and reading the results.
    if (!watch.may_go_on() || share != 0 || channel >= params.output.pitch) {
        return;
    }
#pragma unroll 1
    for (u32 other = 1; other < POOL_SHARES; other++) {
        pool8(result, results[other][vector], params.kind);
    }
    if (params.kind != LARGEST) {
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            result.of[i] *= reciprocal(f32(pixels));
        }
    }
    store8(at<Half>(params.output.address) + u64(blockIdx.y) * params.output.pitch + channel, result);
}
