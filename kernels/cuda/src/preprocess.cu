// Frames of cameras to an image of the input tensor: crop, resize, normalise. The arithmetic is that of
// kernels/src/preprocess, with the filter's weights in f32 where that has them in f64, and rounded to halves.
#include "guard.cuh"
#include "vectors.cuh"

// Bytes of a pixel.
struct Colour {
    int red, green, blue;
};

DEVICE int to_byte(int value) {
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

// ITU-R BT.601, limited range, in fixed point of 14 bits: the coefficients of kernels/src/preprocess/nv12.rs.
DEVICE Colour to_rgb(int luma, int u, int v) {
    constexpr int LUMA = 19077, V_TO_R = 26149, U_TO_G = 6419, V_TO_G = 13320, U_TO_B = 33050;
    constexpr int BITS = 14, HALF = 1 << (BITS - 1);
    luma = (luma - 16) * LUMA;
    u -= 128;
    v -= 128;
    return {
        to_byte((luma + V_TO_R * v + HALF) >> BITS),
        to_byte((luma - U_TO_G * u - V_TO_G * v + HALF) >> BITS),
        to_byte((luma + U_TO_B * u + HALF) >> BITS),
    };
}

struct Rgb8 {
    static DEVICE Colour pixel(const Preprocess& params, u32 x, u32 y) {
        const u8* at_pixel = at<const u8>(params.frame) + u64(y) * params.stride + x * 3;
        return {at_pixel[0], at_pixel[1], at_pixel[2]};
    }
};

struct Nv12 {
    static DEVICE Colour pixel(const Preprocess& params, u32 x, u32 y) {
        const u8* chroma = at<const u8>(params.chroma) + u64(y / 2) * params.chroma_stride + x / 2 * 2;
        return to_rgb(at<const u8>(params.frame)[u64(y) * params.stride + x], chroma[0], chroma[1]);
    }
};

// Two pixels in four bytes: luma, U, luma, V.
struct Yuyv {
    static DEVICE Colour pixel(const Preprocess& params, u32 x, u32 y) {
        const u8* pair = at<const u8>(params.frame) + u64(y) * params.stride + x / 2 * 4;
        return to_rgb(pair[x % 2 * 2], pair[1], pair[3]);
    }
};

// The source positions that an output position is made of, along one axis: a triangle as wide as the step between
// output positions, or as two source positions if that is more.
struct Span {
    f32 centre;
    f32 slope;
    u32 first;
    u32 last;
    f32 normaliser;

    DEVICE Span(u32 position, u32 source, u32 output) {
        f32 scale = f32(source) / f32(output);
        f32 support = scale < 1.0f ? 1.0f : scale;
        centre = (f32(position) + 0.5f) * scale;
        slope = 1.0f / support;
        first = clamped(floorf(centre - support), source);
        last = clamped(ceilf(centre + support), source);
        last = (last == 0 ? 1 : last) - 1;
        f32 sum = 0.0f;
#pragma unroll 1
        for (u32 tap = first; tap <= last; tap++) {
            sum += triangle(tap);
        }
        normaliser = 1.0f / sum;
    }

    static DEVICE u32 clamped(f32 position, u32 source) {
        return position < 0.0f ? 0 : position > f32(source) ? source : u32(position);
    }

    DEVICE f32 triangle(u32 tap) const {
        f32 height = 1.0f - fabsf(f32(tap) + 0.5f - centre) * slope;
        return height < 0.0f ? 0.0f : height;
    }

    DEVICE f32 weight(u32 tap) const { return triangle(tap) * normaliser; }
};

// An output pixel a thread.
template <class Format>
DEVICE void preprocess(const Guard& guard, const Preprocess& params) {
    Watch watch(guard);
    const TensorView& output = params.output;
    u32 pixel = blockIdx.x * blockDim.x + threadIdx.x;
    if (!watch.may_go_on() || pixel >= output.height * output.width) {
        return;
    }
    Span rows(pixel / output.width, params.crop_height, output.height);
    Span columns(pixel % output.width, params.crop_width, output.width);
    f32 sums[3] = {};
#pragma unroll 1
    for (u32 y = rows.first; y <= rows.last; y++) {
        f32 of_row = rows.weight(y);
#pragma unroll 2
        for (u32 x = columns.first; x <= columns.last; x++) {
            f32 weight = of_row * columns.weight(x);
            Colour colour = Format::pixel(params, params.crop_x + x, params.crop_y + y);
            sums[0] = fused(weight, f32(colour.red), sums[0]);
            sums[1] = fused(weight, f32(colour.green), sums[1]);
            sums[2] = fused(weight, f32(colour.blue), sums[2]);
        }
    }
    Values8 values = {};
#pragma unroll
    for (u32 c = 0; c < 3; c++) {
        values.of[c] = (sums[c] * (1.0f / 255.0f) - params.mean[c]) * params.factor[c];
    }
    Half* to = at<Half>(output.address) + u64(pixel) * output.pitch;
    store8(to, values);
#pragma unroll 1
    for (u32 channel = 8; channel < output.pitch; channel += 8) {
        store8(to + channel, Values8{});
    }
}

PUNCTUAL_KERNEL(preprocess_rgb8, Preprocess, 128) {
    preprocess<Rgb8>(guard, params);
}

PUNCTUAL_KERNEL(preprocess_nv12, Preprocess, 128) {
    preprocess<Nv12>(guard, params);
}

PUNCTUAL_KERNEL(preprocess_yuyv, Preprocess, 128) {
    preprocess<Yuyv>(guard, params);
}
