// Kernels that copy values to other places and to the outputs that clients read.
#pragma once

#include "epilogue.cuh"
#include "guard.cuh"

// A value of a tensor, converted from the type that the tensor has.
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

// How many values from the start value `index` lies.
DEVICE u32 distance(const Digits& digits, u32 index) {
    u32 place = 0;
#pragma unroll 1
    for (u32 digit = DIGITS_MAX; digit-- > 0 && index != 0;) {
        u32 extent = digits.extents[digit];
        place += index % extent * digits.steps[digit];
        index /= extent;
    }
    return place;
}

// Each thread copies eight channels of a pixel of the box. The box that has a pixel's last channel also writes the
// padding.
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
    if (!watch.may_go_on() || !here) {
        return;
    }
    u64 from = u64(image) * params.source_image + params.start + distance(params.pixel_digits, in_box);
    u32 row = image * output.height + params.first_row + in_box / params.columns;
    u64 to = (u64(row) * output.width + params.first_column + in_box % params.columns) * output.pitch;
    bool halves = params.from == KEPT_HALVES && params.to == KEPT_HALVES;
    bool whole = halves && channel >= params.first_channel && channel + 8 <= end;
    const Digits& digits = params.channel_digits;
    // The source's channels are neighbours in memory, and so are the output's.
    if (whole && digits.extents[DIGITS_MAX - 1] == params.channels && digits.steps[DIGITS_MAX - 1] == 1) {
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
            u64 place = from + distance(digits, channel + i - params.first_channel);
            values.of[i] = to_f32(at<const Half>(params.source)[place]);
        }
        store8(at<Half>(output.address) + (to + channel), values);
        return;
    }
#pragma unroll 1
    for (u32 c = channel; c < channel + 8; c++) {
        if (c >= params.first_channel && c < end) {
            u64 place = from + distance(digits, c - params.first_channel);
            store_kept(output.address, to + c, params.to, load_kept(params.source, place, params.from));
        } else if (c >= end && end == output.channels) {
            store_kept(output.address, to + c, params.to, 0.0f);
        }
    }
}

constexpr u32 OUTPUT_BLOCK = 1024;

DEVICE bool is_finite(f32 value) {
    // Infinity minus infinity is NaN.
    return value - value == 0.0f;
}

// Writes a value as the type that the client reads.
DEVICE void store_output(u64 address, u32 place, u32 to, f32 value) {
    switch (to) {
        case TYPE_F32: at<f32>(address)[place] = value; break;
        case TYPE_I32: at<int>(address)[place] = to_integer(value); break;
        case TYPE_BOOL: at<u8>(address)[place] = value != 0.0f ? 1 : 0; break;
        case TYPE_U8: at<u8>(address)[place] = u8(value); break;
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
    if (!watch.may_go_on()) {
        return;
    }
#pragma unroll 1
    for (u32 i = threadIdx.x; i < OUTPUT_BLOCK; i += 128) {
        u32 index = blockIdx.x * OUTPUT_BLOCK + i;
        if (index < params.elements) {
            f32 value = load_kept(params.source, source + distance(params.digits, index), params.from);
            not_finite += is_finite(value) ? 0 : 1;
            store_output(target, index, params.to, value);
        }
    }
    not_finite = warp_sum(not_finite);
    if (lane() == 0) {
        counts[warp()] = not_finite;
    }
    block_barrier();
    if (threadIdx.x == 0) {
        u64 place = u64(blockIdx.y) * params.all_counts + params.first_count + blockIdx.x;
        at<u32>(params.counts)[place] = counts[0] + counts[1] + counts[2] + counts[3];
    }
    // The host reads the output when the stage is done.
    fence_system();
}
