// Sums, products, and channels picked from several tensors: eight channels of a pixel a thread.
#pragma once

#include "epilogue.cuh"
#include "guard.cuh"

template <class Operation>
DEVICE void elementwise(const Guard& guard, const Elementwise& params, Operation operation) {
    Watch watch(guard);
    u32 vectors = params.input.pitch / 8;
    u32 pixels = params.input.height * params.input.width;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    bool here = pixel < params.images * pixels;
    u64 place = u64(pixel) * params.input.pitch + channel;
    Values8 result = {};
    if (here) {
        u64 of_other = params.broadcast != 0 ? u64(pixel / pixels) * params.input.pitch + channel : place;
        result = load8(at<const Half>(params.input.address) + place);
        Values8 other = load8(at<const Half>(params.other) + of_other);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            result.of[i] = operation(result.of[i], other.of[i]);
        }
    }
    if (watch.may_begin() && here) {
        finish8(result, params.epilogue, channel, params.input.channels);
        store8(at<Half>(params.output) + place, result);
    }
}

struct Sum {
    DEVICE f32 operator()(f32 a, f32 b) const { return a + b; }
};

struct Product {
    DEVICE f32 operator()(f32 a, f32 b) const { return a * b; }
};

PUNCTUAL_KERNEL(add, Elementwise, 128) {
    elementwise(guard, params, Sum{});
}

PUNCTUAL_KERNEL(multiply, Elementwise, 128) {
    elementwise(guard, params, Product{});
}

// Where eight output channels come from, by their entries of the table. Neighbours from one whole vector are read as
// such; that is most of what concatenations and slices consist of.
DEVICE Halves8 gather8(const Gather& params, u32 channel, u64 pixel) {
    const u32* table = at<const u32>(params.table) + channel;
    u32 count = params.output.channels - channel < 8 ? params.output.channels - channel : 8;
    u32 first = table[0];
    bool whole = count == 8 && first % 8 == 0;
    u16 picked[8] = {};
    for (u32 i = 1; whole && i < 8; i++) {
        whole = table[i] == first + i;
    }
    if (whole) {
        u32 source = first >> 24;
        return load_halves(at<const Half>(params.sources[source]) + pixel * params.pitches[source] +
                           (first & 0xffffff));
    }
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        if (i < count) {
            u32 source = table[i] >> 24;
            const Half* from = at<const Half>(params.sources[source]) + pixel * params.pitches[source];
            picked[i] = from[table[i] & 0xffffff].bits;
        }
    }
    Halves8 halves;
#pragma unroll
    for (u32 pair = 0; pair < 4; pair++) {
        halves.pairs[pair] = picked[2 * pair] | u32(picked[2 * pair + 1]) << 16;
    }
    return halves;
}

PUNCTUAL_KERNEL(gather, Gather, 128) {
    Watch watch(guard);
    u32 vectors = params.output.pitch / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    bool here = pixel < params.images * params.output.height * params.output.width;
    Halves8 halves = {};
    // The vector may be all padding only if the tensor has no channel in it.
    if (here && channel < params.output.channels) {
        halves = gather8(params, channel, pixel);
    }
    if (watch.may_begin() && here) {
        Half* to = at<Half>(params.output.address) + u64(pixel) * params.output.pitch + channel;
        *reinterpret_cast<Halves8*>(to) = halves;
    }
}
