// Products of matrices that are both computed.
#pragma once

#include "guard.cuh"
#include "vectors.cuh"

constexpr u32 PRODUCT_PIXELS = 32;
constexpr u32 PRODUCT_CHANNELS = 64;
constexpr u32 PRODUCT_DEPTH = 32;

struct ProductTiles {
    alignas(16) f32 second[PRODUCT_DEPTH][PRODUCT_CHANNELS];
    f32 first[PRODUCT_DEPTH][PRODUCT_PIXELS + 1];
};

// In each row of each image (blockIdx.z) the matrix of the first's pixels by their channels, times that of the second's
// pixels by theirs. A block computes 32 pixels and 64 channels of the result, a thread four by four.
PUNCTUAL_KERNEL(product_of_rows, Product, 128) {
    Watch watch(guard);
    __shared__ ProductTiles tiles;
    const TensorView &a = params.first, &b = params.second;
    u32 first_pixel = blockIdx.x * PRODUCT_PIXELS, first_channel = blockIdx.y * PRODUCT_CHANNELS;
    const Half* of_first = at<const Half>(a.address) + u64(blockIdx.z) * a.width * a.pitch;
    const Half* of_second = at<const Half>(b.address) + u64(blockIdx.z) * b.width * b.pitch;
    u32 across = threadIdx.x % 16 * 4, down = threadIdx.x / 16 * 4;
    f32 sums[4][4] = {};
    if (!watch.may_go_on()) {
        return;
    }
    for (u32 step = 0; step < a.channels; step += PRODUCT_DEPTH) {
        // Also the barrier behind the last tile's reads.
        if (!watch.may_go_on(step + PRODUCT_DEPTH < a.channels)) {
            return;
        }
        // Each thread reads a vector of the first's channels and two of the second's. The padding's channels are zero.
        {
            u32 pixel = threadIdx.x / 4, depth = threadIdx.x % 4 * 8;
            bool there = first_pixel + pixel < a.width && step + depth < a.pitch;
            Values8 values = {};
            if (there) {
                values = load8(of_first + u64(first_pixel + pixel) * a.pitch + step + depth);
            }
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                tiles.first[depth + i][pixel] = values.of[i];
            }
        }
#pragma unroll
        for (u32 i = threadIdx.x; i < PRODUCT_DEPTH * PRODUCT_CHANNELS / 8; i += 128) {
            u32 depth = i / (PRODUCT_CHANNELS / 8), channel = i % (PRODUCT_CHANNELS / 8) * 8;
            bool there = step + depth < b.width && first_channel + channel < b.pitch;
            Values8 values = {};
            if (there) {
                values = load8(of_second + u64(step + depth) * b.pitch + first_channel + channel);
            }
            store8(&tiles.second[depth][channel], values);
        }
        block_barrier();
#pragma unroll 4
        for (u32 depth = 0; depth < PRODUCT_DEPTH; depth++) {
            Quad weights = *reinterpret_cast<const Quad*>(&tiles.second[depth][across]);
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                f32 value = tiles.first[depth][down + i];
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
                    sums[i][j] = fused(value, weights.of[j], sums[i][j]);
                }
            }
        }
    }
    struct alignas(8) Pairs {
        u32 of[2];
    };
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        u32 pixel = first_pixel + down + i, channel = first_channel + across;
        if (pixel < a.width && channel < b.pitch) {
            u64 place = (u64(blockIdx.z) * a.width + pixel) * b.pitch + channel;
            Pairs pairs = {{to_pair(sums[i][0], sums[i][1]), to_pair(sums[i][2], sums[i][3])}};
            *reinterpret_cast<Pairs*>(at<Half>(params.output) + place) = pairs;
        }
    }
}
