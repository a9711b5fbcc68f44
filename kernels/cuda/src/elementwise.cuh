// Functions of one value or of two, and channels picked from several tensors: each thread writes eight channels of a
// pixel.
#pragma once

#include "epilogue.cuh"
#include "guard.cuh"

// Eight channels of an operand at a pixel of the result; an operand's only channel is repeated.
DEVICE Values8 operand8(const Operand& operand, u32 image, u32 row, u32 column, u32 channel) {
    u64 place = u64(image) * operand.image + u64(row) * operand.row + u64(column) * operand.column;
    if (operand.channel != 0) {
        place += channel;
        return operand.kept == KEPT_FLOATS ? load8(at<const f32>(operand.address) + place)
                                           : load8(at<const Half>(operand.address) + place);
    }
    f32 value = operand.kept == KEPT_FLOATS ? at<const f32>(operand.address)[place]
                                            : to_f32(at<const Half>(operand.address)[place]);
    return {{value, value, value, value, value, value, value, value}};
}

// Replaces `first` by the function's values. The choice stands outside of the loops, as in `activate`.
DEVICE void apply(u32 function, Values8& first, const Values8& second) {
#define FOR_EACH(expression)             \
    _Pragma("unroll")                    \
    for (u32 i = 0; i < 8; i++) {        \
        f32 a = first.of[i];             \
        [[maybe_unused]] f32 b = second.of[i]; \
        first.of[i] = (expression);      \
    }                                    \
    break
    switch (function) {
        case FUNCTION_ADD: FOR_EACH(a + b);
        case FUNCTION_SUBTRACT: FOR_EACH(a - b);
        case FUNCTION_MULTIPLY: FOR_EACH(a * b);
        case FUNCTION_DIVIDE: FOR_EACH(quotient(a, b));
        case FUNCTION_MINIMUM: FOR_EACH(b < a ? b : a);
        case FUNCTION_MAXIMUM: FOR_EACH(b > a ? b : a);
        case FUNCTION_ABSOLUTE: FOR_EACH(a < 0.0f ? -a : a);
        case FUNCTION_EXPONENTIAL: FOR_EACH(exponential(a < -87.3f ? -87.3f : a > 88.3f ? 88.3f : a));
        case FUNCTION_RECIPROCAL: FOR_EACH(quotient(1.0f, a));
        case FUNCTION_SQUARE_ROOT: FOR_EACH(square_root(a));
        case FUNCTION_EQUAL: FOR_EACH(a == b ? 1.0f : 0.0f);
        case FUNCTION_NOT_EQUAL: FOR_EACH(a != b ? 1.0f : 0.0f);
        case FUNCTION_LESS: FOR_EACH(a < b ? 1.0f : 0.0f);
        case FUNCTION_LESS_OR_EQUAL: FOR_EACH(a <= b ? 1.0f : 0.0f);
        case FUNCTION_KEEP_WHERE: FOR_EACH(b == 0.0f ? 0.0f : a);
        case FUNCTION_KEEP_UNLESS: FOR_EACH(b == 0.0f ? a : 0.0f);
        case FUNCTION_SLOPE: FOR_EACH(a > 0.0f ? a : a * b);
        case FUNCTION_SIGN: FOR_EACH(a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a);
        case FUNCTION_FLOOR: FOR_EACH(floorf(a));
        case FUNCTION_CEILING: FOR_EACH(ceilf(a));
        case FUNCTION_ROUND: FOR_EACH(to_nearest(a));
        case FUNCTION_TRUNCATE: FOR_EACH(truncf(a));
        default: break;
    }
#undef FOR_EACH
}

PUNCTUAL_KERNEL(elementwise, Elementwise, 128) {
    Watch watch(guard);
    const TensorView& output = params.output;
    u32 vectors = output.pitch / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    u32 column = pixel % output.width, line = pixel / output.width;
    u32 row = line % output.height, image = line / output.height;
    bool here = image < params.images;
    Values8 result = {};
    if (here) {
        Values8 second = {};
        result = operand8(params.first, image, row, column, channel);
        if (params.second.address != 0) {
            second = operand8(params.second, image, row, column, channel);
        }
        apply(params.function, result, second);
    }
    if (watch.may_go_on() && here) {
        finish8(result, params.epilogue, channel, output.channels);
        store8(at<Half>(output.address) + u64(pixel) * output.pitch + channel, result);
    }
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
    if (watch.may_go_on() && here) {
        Half* to = at<Half>(params.output.address) + u64(pixel) * params.output.pitch + channel;
        *reinterpret_cast<Halves8*>(to) = halves;
    }
}
