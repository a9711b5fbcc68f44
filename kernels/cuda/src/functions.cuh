// Functions that take many registers or much code: they have a kernel of their own beside `elementwise`.
#pragma once

#include "copy.cuh"

// Sine and cosine of any x. Whole turns are subtracted first, in three parts, so that the rest keeps its precision.
struct Turned {
    f32 sine;
    f32 cosine;

    DEVICE explicit Turned(f32 x) {
        f32 turns = to_nearest(x * 0.159154943f);
        f32 rest = fused(turns, -6.28125f, x);
        rest = fused(turns, -1.93500519e-3f, rest);
        rest = fused(turns, -3.01991e-7f, rest);
        sine_and_cosine(rest, sine, cosine);
    }
};

// The remainder of a divided by b, with the sign of a. The quotient of two halves has at most 41 bits, of which these
// steps take 22 each.
DEVICE f32 remainder_of(f32 a, f32 b) {
    f32 size = b < 0.0f ? -b : b;
    f32 rest = a < 0.0f ? -a : a;
    f32 large = size * 2097152.0f;
#pragma unroll 1
    for (u32 i = 0; i < 2 && rest >= large; i++) {
        rest = fused(-truncf(exact_quotient(rest, large)), large, rest);
        rest = rest < 0.0f ? rest + large : rest;
    }
    rest = fused(-truncf(exact_quotient(rest, size)), size, rest);
    rest = rest < 0.0f ? rest + size : rest;
    rest = rest >= size ? rest - size : rest;
    return a < 0.0f ? -rest : rest;
}

DEVICE f32 modulo_of(f32 a, f32 b) {
    f32 rest = remainder_of(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

DEVICE f32 further_function(u32 function, f32 a, f32 b) {
    switch (function) {
        case FUNCTION_LOGARITHM: return logf(a);
        case FUNCTION_POWER: return powf(a, b);
        case FUNCTION_MODULO: return modulo_of(a, b);
        case FUNCTION_REMAINDER: return remainder_of(a, b);
        case FUNCTION_SINE: return Turned(a).sine;
        case FUNCTION_COSINE: return Turned(a).cosine;
        case FUNCTION_TANGENT: return quotient(Turned(a).sine, Turned(a).cosine);
        case FUNCTION_ARC_SINE: return asinf(a);
        case FUNCTION_ARC_COSINE: return acosf(a);
        case FUNCTION_ARC_TANGENT: return atanf(a);
        case FUNCTION_HYPERBOLIC_SINE: return sinhf(a);
        case FUNCTION_HYPERBOLIC_COSINE: return coshf(a);
        case FUNCTION_ARC_HYPERBOLIC_SINE: return asinhf(a);
        case FUNCTION_ARC_HYPERBOLIC_COSINE: return acoshf(a);
        case FUNCTION_ARC_HYPERBOLIC_TANGENT: return atanhf(a);
        case FUNCTION_ERROR_FUNCTION: return erff(a);
        default: return a;
    }
}

// A channel of an operand at a pixel of the result.
DEVICE f32 operand_at(const Operand& operand, u32 image, u32 row, u32 column, u32 channel) {
    u64 place = u64(image) * operand.image + u64(row) * operand.row + u64(column) * operand.column;
    return load_kept(operand.address, place + channel * operand.channel, operand.kept);
}

// Each thread computes one channel of a pixel.
PUNCTUAL_KERNEL(elementwise_further, Elementwise, 128) {
    Watch watch(guard);
    const TensorView& output = params.output;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % output.pitch, pixel = index / output.pitch;
    u32 column = pixel % output.width, line = pixel / output.width;
    u32 row = line % output.height, image = line / output.height;
    if (!watch.may_go_on() || image >= params.images) {
        return;
    }
    f32 result[1] = {};
    if (channel < output.channels) {
        f32 first = operand_at(params.first, image, row, column, channel);
        f32 second = 0.0f;
        if (params.second.address != 0) {
            second = operand_at(params.second, image, row, column, channel);
        }
        result[0] = further_function(params.function, first, second);
        activate(params.epilogue, result);
    }
    at<Half>(output.address)[index] = to_half(result[0]);
}
