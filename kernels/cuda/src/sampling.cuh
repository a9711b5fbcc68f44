// Kernels that read at computed positions, or compute positions.
#pragma once

#include "copy.cuh"

// Two neighbouring rows or columns, and how much of each is taken.
struct Taps {
    u32 first;
    u32 second;
    f32 weights[2];
};

// The place inside of the image that `place` falls on when the image is reflected at its edges, again and again.
DEVICE f32 reflected(const GridSample& params, f32 place, f32 length) {
    f32 low = params.align_corners != 0 ? 0.0f : -0.5f, high = length + (params.align_corners != 0 ? -1.0f : -0.5f);
    if ((place >= low && place <= high) || place != place) {
        return place;
    }
    if (high <= low) {
        return low;
    }
    f32 over = low - place > place - high ? low - place : place - high;
    f32 turns = truncf(exact_quotient(over, high - low));
    f32 rest = exact_sum(over, -product(turns, high - low));
    bool is_odd = floorf(turns * 0.5f) * 2.0f != turns;
    return (place < low) != is_odd ? low + rest : high - rest;
}

// The rows or columns at a position, as kernels/types/src/sampling.rs says it: rounded in the same order, as rounding
// decides which pixel is nearest. No comparison changes a NaN.
DEVICE Taps taps_at(const GridSample& params, f32 position, u32 size) {
    enum Outside : u32 { ZEROS = 0, BORDER = 1, REFLECTION = 2 };
    f32 length = f32(size), last = length - 1.0f;
    position = position < -1e30f ? -1e30f : position > 1e30f ? 1e30f : position;
    f32 place = params.align_corners != 0
                    ? product(exact_sum(position, 1.0f) * 0.5f, last)
                    : exact_sum(product(exact_sum(position, 1.0f), length), -1.0f) * 0.5f;
    if (params.nearest != 0) {
        place = to_nearest(place);
    }
    f32 low = 0.0f, high = last;
    if (params.outside == ZEROS) {
        low = -2.0f;
        high = length + 1.0f;
    } else if (params.outside == REFLECTION) {
        place = reflected(params, place, length);
    }
    place = place < low ? low : place > high ? high : place;
    f32 floor = floorf(place), share = place - floor;
    auto inside = [&](f32 at, f32 weight) { return at < 0.0f || at > last ? 0.0f : weight; };
    auto number = [&](f32 at) { return at > 0.0f ? (at > last ? size - 1 : u32(at)) : 0; };
    return {number(floor), number(floor + 1.0f), {inside(floor, 1.0f - share), inside(floor + 1.0f, share)}};
}

// Each thread computes one channel of a pixel: neighbours have neighbouring channels, which mostly share positions.
PUNCTUAL_KERNEL(grid_sample, GridSample, 128) {
    Watch watch(guard);
    const TensorView &input = params.input, &grid = params.grid;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % input.pitch, pixel = index / input.pitch;
    u32 image = pixel / (grid.height * grid.width);
    if (!watch.may_go_on() || image >= params.images) {
        return;
    }
    f32 sum = 0.0f;
    if (channel < input.channels) {
        u32 group = channel / (input.channels / params.groups);
        const Half* position = at<const Half>(grid.address) + u64(pixel) * grid.pitch + 2 * group;
        Taps columns = taps_at(params, to_f32(position[0]), input.width);
        Taps rows = taps_at(params, to_f32(position[1]), input.height);
        const Half* from =
            at<const Half>(input.address) + u64(image) * input.height * input.width * input.pitch + channel;
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 row = i / 2 == 0 ? rows.first : rows.second, column = i % 2 == 0 ? columns.first : columns.second;
            f32 weight = rows.weights[i / 2] * columns.weights[i % 2];
            sum = fused(weight, to_f32(from[u64(row * input.width + column) * input.pitch]), sum);
        }
    }
    at<Half>(params.output)[index] = to_half(sum);
}

// The position that a computed number stands for, within `size`: a negative one counts from the end.
DEVICE u32 position_of(f32 index, u32 size) {
    f32 whole = truncf(index < -16777216.0f ? -16777216.0f : index);
    f32 from_start = whole < 0.0f ? whole + f32(size) : whole;
    return from_start > 0.0f ? (from_start >= f32(size) ? size - 1 : u32(from_start)) : 0;
}

// Each thread copies one channel of a pixel.
PUNCTUAL_KERNEL(take, Take, 128) {
    enum Axis : u32 { CHANNEL = 0, ROW = 1, COLUMN = 2 };
    Watch watch(guard);
    const TensorView &input = params.input, &indices = params.indices, &output = params.output;
    u32 place = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = place % output.pitch, pixel = place / output.pitch;
    u32 column = pixel % output.width, line = pixel / output.width;
    u32 row = line % output.height, image = line / output.height;
    if (!watch.may_go_on() || image >= params.images) {
        return;
    }
    f32 value = 0.0f;
    if (channel < output.channels) {
        u32 at_row = row < indices.height ? row : indices.height - 1;
        u32 at_column = column < indices.width ? column : indices.width - 1;
        u32 at_channel = channel < indices.channels ? channel : indices.channels - 1;
        u64 from = ((u64(image) * indices.height + at_row) * indices.width + at_column) * indices.pitch + at_channel;
        f32 index = load_kept(indices.address, from, params.kept);
        switch (params.axis) {
            case CHANNEL: channel = position_of(index, input.channels); break;
            case ROW: row = position_of(index, input.height); break;
            default: column = position_of(index, input.width); break;
        }
        from = ((u64(image) * input.height + row) * input.width + column) * input.pitch + channel;
        value = to_f32(at<const Half>(input.address)[from]);
    }
    at<Half>(output.address)[place] = to_half(value);
}

// An integer in the order of values: NaN is below all.
DEVICE int ranked(const TopK& params, Half half) {
    f32 value = params.largest != 0 ? to_f32(half) : -to_f32(half);
    // Adding 0 turns -0 into 0: the zeros are equal.
    int bits = int(half_bits_of(value + 0.0f));
    bits = bits >= 0x8000 ? 0x7fff - bits : bits;
    return value != value ? -65536 : bits;
}

// Whether the value at position `number` comes before that at `of_other`, by their ranks and then by position.
DEVICE bool comes_before(const TopK& params, int key, u32 number, int other, u32 of_other) {
    return key != other ? key > other : (params.last != 0) == (number > of_other) && number != of_other;
}

// Each thread has one value of a line and counts those that come before it: at that rank its position is written.
PUNCTUAL_KERNEL(top_columns, TopK, 128) {
    Watch watch(guard);
    const TensorView& input = params.input;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % input.pitch, pixel = index / input.pitch;
    u32 number = pixel % input.width, line = pixel / input.width;
    if (!watch.may_go_on() || line >= params.images * input.height) {
        return;
    }
    f32* to = at<f32>(params.output) + u64(line) * params.count * input.pitch + channel;
    if (channel >= input.channels) {
        if (number < params.count) {
            to[u64(number) * input.pitch] = 0.0f;
        }
        return;
    }
    const Half* from = at<const Half>(input.address) + u64(line) * input.width * input.pitch + channel;
    int key = ranked(params, from[u64(number) * input.pitch]);
    u32 rank = 0;
#pragma unroll 4
    for (u32 other = 0; other < input.width; other++) {
        int of_other = ranked(params, from[u64(other) * input.pitch]);
        rank += comes_before(params, of_other, other, key, number) ? 1 : 0;
    }
    if (rank < params.count) {
        to[u64(rank) * input.pitch] = f32(number);
    }
}

// The channel that comes first: each thread has one pixel.
PUNCTUAL_KERNEL(top_channel, TopK, 128) {
    Watch watch(guard);
    const TensorView& input = params.input;
    u32 pixel = blockIdx.x * blockDim.x + threadIdx.x;
    if (!watch.may_go_on() || pixel >= params.images * input.height * input.width) {
        return;
    }
    const Half* from = at<const Half>(input.address) + u64(pixel) * input.pitch;
    int best = ranked(params, from[0]);
    u32 number = 0;
#pragma unroll 1
    for (u32 channel = 1; channel < input.channels; channel++) {
        int key = ranked(params, from[channel]);
        if (comes_before(params, key, channel, best, number)) {
            best = key;
            number = channel;
        }
    }
    Values8 result = {{f32(number)}};
    store8(at<f32>(params.output) + u64(pixel) * 8, result);
}
