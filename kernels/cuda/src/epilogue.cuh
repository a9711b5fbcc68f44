// What is done last to each value: activation, and zeros in the padding.
#pragma once

#include "vectors.cuh"

DEVICE f32 sigmoid(f32 x) {
    return reciprocal(1.0f + exponential(-x));
}

DEVICE f32 hyperbolic_tangent(f32 x) {
    return fused(2.0f, sigmoid(2.0f * x), -1.0f);
}

DEVICE f32 hard_sigmoid(f32 x) {
    f32 y = fused(x, 1.0f / 6.0f, 0.5f);
    y = y < 0.0f ? 0.0f : y;
    return y > 1.0f ? 1.0f : y;
}

// x * (1 + erf(x / sqrt 2)) / 2, as kernels/src/functions.rs computes it: what it lacks to max(x, 0) is
// u/2 erfc(u / sqrt 2) with u = |x|, and the erfc is near p(u)^-16.
DEVICE f32 gelu(f32 x) {
    f32 positive = x < 0.0f ? 0.0f : x;
    f32 u = x < 0.0f ? -x : x;
    u = u > 10.0f ? 10.0f : u;
    f32 p = 8.1689825e-7f;
    p = fused(p, u, -2.0735858e-6f);
    p = fused(p, u, 7.4786476e-5f);
    p = fused(p, u, -5.1502166e-6f);
    p = fused(p, u, 3.3133023e-3f);
    p = fused(p, u, 2.1127515e-2f);
    p = fused(p, u, 4.9869098e-2f);
    p = fused(p, u, 1.0f);
    p *= p;
    p *= p;
    p *= p;
    p *= p;
    return positive - 0.5f * u * reciprocal(p);
}

// x * tanh(ln(1 + e^x)), where the tanh is n / (n + 2) of n = e^x (e^x + 2). Beyond 20 it is x.
DEVICE f32 mish(f32 x) {
    f32 power = exponential(x > 20.0f ? 20.0f : x);
    f32 n = power * (power + 2.0f);
    return x * (n * reciprocal(n + 2.0f));
}

// The activation of COUNT values, in place. A NaN stays a NaN. The choice stands outside of the loops, so
// that it is made once.
template <u32 COUNT>
DEVICE void activate(const Epilogue& epilogue, f32 (&values)[COUNT]) {
#define FOR_EACH(expression)              \
    _Pragma("unroll")                     \
    for (u32 i = 0; i < COUNT; i++) {     \
        f32 x = values[i];                \
        values[i] = (expression);         \
    }                                     \
    break
    switch (epilogue.curve) {
        case CURVE_CLIP: {
            f32 low = epilogue.low, high = epilogue.high;
            FOR_EACH((x < low ? low : x) > high ? high : (x < low ? low : x));
        }
        case CURVE_SIGMOID: FOR_EACH(sigmoid(x));
        case CURVE_SILU: FOR_EACH(x * sigmoid(x));
        case CURVE_HARD_SIGMOID: FOR_EACH(hard_sigmoid(x));
        case CURVE_HARD_SWISH: FOR_EACH(x * hard_sigmoid(x));
        case CURVE_GELU: FOR_EACH(gelu(x));
        case CURVE_TANH: FOR_EACH(hyperbolic_tangent(x));
        case CURVE_LEAKY_RELU: {
            f32 slope = epilogue.low;
            FOR_EACH(x < 0.0f ? x * slope : x);
        }
        case CURVE_ELU: {
            f32 above = epilogue.low, below = epilogue.high, rate = epilogue.rate;
            FOR_EACH(x < 0.0f ? below * (exponential(rate * x) - 1.0f) : above * x);
        }
        case CURVE_MISH: FOR_EACH(mish(x));
        case CURVE_SOFTPLUS: FOR_EACH((x > 0.0f ? x : 0.0f) + logarithm(1.0f + exponential(x < 0.0f ? x : -x)));
        case CURVE_SOFTSIGN: FOR_EACH(x * reciprocal(1.0f + (x < 0.0f ? -x : x)));
        case CURVE_TANH_GELU: FOR_EACH(x * sigmoid(1.59576912f * fused(0.044715f * x * x, x, x)));
        default: break;
    }
#undef FOR_EACH
}

// Activates the values of `channel` and the seven behind it, of which those from `channels` on are padding.
DEVICE void finish8(Values8& values, const Epilogue& epilogue, u32 channel, u32 channels) {
    activate(epilogue, values.of);
    if (channel + 8 > channels) {
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            values.of[i] = channel + i < channels ? values.of[i] : 0.0f;
        }
    }
}
