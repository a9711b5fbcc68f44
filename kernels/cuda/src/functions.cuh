// Functions that take many registers or much code: in a kernel beside `elementwise`.
#pragma once

#include "elementwise.cuh"

// Sine and cosine of what is left of x by whole turns, which are subtracted in three parts so that nothing is lost.
struct Turned {
    f32 sine;
    f32 cosine;

    DEVICE explicit Turned(f32 x) {
        f32 turns = to_nearest(x * 0.159154943f);
        f32 rest = fused(turns, -6.28125f, x);
        rest = fused(turns, -1.93500519e-3f, rest);
        rest = fused(turns, -3.01991e-7f, rest);
        sine = near_sine(rest);
        cosine = near_cosine(rest);
    }
};

// What is left of a divided by b, with the sign of a, for halves: their quotient has at most 41 bits, of which these
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

struct FurtherFunctions {
    DEVICE void operator()(u32 function, Values8& first, const Values8& second) const {
#define FOR_EACH(expression)                   \
    _Pragma("unroll 1")                        \
    for (u32 i = 0; i < 8; i++) {              \
        f32 a = first.of[i];                   \
        [[maybe_unused]] f32 b = second.of[i]; \
        first.of[i] = (expression);            \
    }                                          \
    break
        switch (function) {
            case FUNCTION_LOGARITHM: FOR_EACH(logf(a));
            case FUNCTION_POWER: FOR_EACH(powf(a, b));
            case FUNCTION_MODULO: FOR_EACH(modulo_of(a, b));
            case FUNCTION_REMAINDER: FOR_EACH(remainder_of(a, b));
            case FUNCTION_SINE: FOR_EACH(Turned(a).sine);
            case FUNCTION_COSINE: FOR_EACH(Turned(a).cosine);
            case FUNCTION_TANGENT: FOR_EACH(quotient(Turned(a).sine, Turned(a).cosine));
            case FUNCTION_ARC_SINE: FOR_EACH(asinf(a));
            case FUNCTION_ARC_COSINE: FOR_EACH(acosf(a));
            case FUNCTION_ARC_TANGENT: FOR_EACH(atanf(a));
            case FUNCTION_HYPERBOLIC_SINE: FOR_EACH(sinhf(a));
            case FUNCTION_HYPERBOLIC_COSINE: FOR_EACH(coshf(a));
            case FUNCTION_ARC_HYPERBOLIC_SINE: FOR_EACH(asinhf(a));
            case FUNCTION_ARC_HYPERBOLIC_COSINE: FOR_EACH(acoshf(a));
            case FUNCTION_ARC_HYPERBOLIC_TANGENT: FOR_EACH(atanhf(a));
            case FUNCTION_ERROR_FUNCTION: FOR_EACH(erff(a));
            default: break;
        }
#undef FOR_EACH
    }
};

PUNCTUAL_KERNEL(elementwise_further, Elementwise, 128) {
    elementwise_by(guard, params, FurtherFunctions{});
}
