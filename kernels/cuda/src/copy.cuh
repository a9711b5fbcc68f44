// Values moved to other places, and to what a client reads.
#pragma once

#include "epilogue.cuh"
#include "guard.cuh"

// A value of a tensor, whichever way it is kept.
DEVICE f32 load_kept(u64 address, u64 place, u32 kept) {
    switch (kept) {
        case KEPT_FLOATS: return at<const f32>(address)[place];
        case KEPT_BYTES: return f32(at<const u8>(address)[place]);
        default: return to_f32(at<const Half>(address)[place]);
    }
}

DEVICE void store_kept(u64 address, u64 place, u32 kept, f32 value) {
    switch (kept) {
        case KEPT_FLOATS: at<f32>(address)[place] = value; break;
        case KEPT_BYTES: at<u8>(address)[place] = u8(value); break;
        default: at<Half>(address)[place] = to_half(value); break;
    }
}

// How far from the start the value number `index` lies, by the digits of which the last counts fastest.
DEVICE u32 walked(const u32 (&extents)[DIGITS_MAX], const u32 (&steps)[DIGITS_MAX], u32 index) {
    u32 place = 0;
#pragma unroll 1
    for (u32 digit = DIGITS_MAX; digit-- > 0 && index != 0;) {
        u32 extent = extents[digit];
        place += index % extent * steps[digit];
        index /= extent;
    }
    return place;
}

// Eight channels of a pixel of the box a thread. The box that has a pixel's last channel also writes the padding.
PUNCTUAL_KERNEL(copy, Copy, 128) {
    Watch watch(guard);
    const TensorView& output = params.output;
    u32 end = params.first_channel + params.channels;
    u32 first_vector = params.first_channel / 8;
    u32 vectors = (end == output.channels ? output.pitch / 8 : ceil_div(end, 8)) - first_vector;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = (first_vector + index % vectors) * 8, pixel = index / vectors;
    u32 of_image = params.rows * params.columns;
    u32 image = pixel / of_image, in_box = pixel % of_image;
    bool here = image < params.images;
    if (!watch.may_begin() || !here) {
        return;
    }
    u64 from = u64(image) * params.source_image + params.start +
               walked(params.pixel_extents, params.pixel_steps, in_box);
    u32 row = image * output.height + params.first_row + in_box / params.columns;
    u64 to = (u64(row) * output.width + params.first_column + in_box % params.columns) * output.pitch;
    bool halves = params.from == KEPT_HALVES && params.to == KEPT_HALVES;
    bool whole = halves && channel >= params.first_channel && channel + 8 <= end;
    // All channels of the source in a row.
    if (whole && params.channel_extents[DIGITS_MAX - 1] == params.channels && params.channel_steps[DIGITS_MAX - 1] == 1) {
        u64 place = from + (channel - params.first_channel);
        if (place % 8 == 0) {
            *reinterpret_cast<Halves8*>(at<Half>(output.address) + (to + channel)) =
                load_halves(at<const Half>(params.source) + place);
            return;
        }
    }
    if (whole) {
        Values8 values;
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            u32 walk = walked(params.channel_extents, params.channel_steps, channel + i - params.first_channel);
            values.of[i] = to_f32(at<const Half>(params.source)[from + walk]);
        }
        store8(at<Half>(output.address) + (to + channel), values);
        return;
    }
#pragma unroll 1
    for (u32 c = channel; c < channel + 8; c++) {
        if (c >= params.first_channel && c < end) {
            u32 walk = walked(params.channel_extents, params.channel_steps, c - params.first_channel);
            store_kept(output.address, to + c, params.to, load_kept(params.source, from + walk, params.from));
        } else if (c >= end && end == output.channels) {
            store_kept(output.address, to + c, params.to, 0.0f);
        }
    }
}

constexpr u32 OUTPUT_BLOCK = 1024;

DEVICE bool is_finite(f32 value) {
    // The difference is not a number where the value is infinite.
    return value - value == 0.0f;
}

// A value as the client reads it.
DEVICE void store_output(u64 address, u32 place, u32 to, f32 value) {
    enum Type : u32 { F32 = 0, I32 = 1, BOOL = 2, U8 = 3, I8 = 4 };
    switch (to) {
        case F32: at<f32>(address)[place] = value; break;
        case I32: at<int>(address)[place] = to_integer(value); break;
        case BOOL: at<u8>(address)[place] = value != 0.0f ? 1 : 0; break;
        case U8: at<u8>(address)[place] = u8(value); break;
        default: at<u8>(address)[place] = u8(value) ^ 0x80; break;
    }
}

// Values of an image (blockIdx.y) in the order that the client reads them, and how many of each block's are not finite.
PUNCTUAL_KERNEL(output, Output, 128) {
    Watch watch(guard);
    __shared__ u32 counts[4];
    u64 source = u64(blockIdx.y) * params.source_image + params.start;
    u64 target = params.target + u64(blockIdx.y) * params.target_image;
    u32 not_finite = 0;
    if (!watch.may_begin()) {
        return;
    }
#pragma unroll 1
    for (u32 i = threadIdx.x; i < OUTPUT_BLOCK; i += 128) {
        u32 index = blockIdx.x * OUTPUT_BLOCK + i;
        if (index < params.elements) {
            f32 value = load_kept(params.source, source + walked(params.extents, params.steps, index), params.from);
            not_finite += is_finite(value) ? 0 : 1;
            store_output(target, index, params.to, value);
        }
    }
#pragma unroll
    for (u32 mask = 1; mask < LANES; mask *= 2) {
        not_finite += shuffle_xor(not_finite, mask);
    }
    if (lane() == 0) {
        counts[warp()] = not_finite;
    }
    block_barrier();
    if (threadIdx.x == 0) {
        u64 place = u64(blockIdx.y) * params.all_counts + params.first_count + blockIdx.x;
        at<u32>(params.counts)[place] = counts[0] + counts[1] + counts[2] + counts[3];
    }
    // The host reads it when the stage is done.
    fence_system();
}
