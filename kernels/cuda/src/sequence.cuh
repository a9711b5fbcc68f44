// Kernels for sequences of tokens: a token is a pixel.
#pragma once

#include "epilogue.cuh"
#include "guard.cuh"

// A warp normalises one pixel.
PUNCTUAL_KERNEL(layer_norm, LayerNorm, 128) {
    Watch watch(guard);
    const TensorView& input = params.input;
    u32 pixel = blockIdx.x * 4 + warp();
    bool here = pixel < params.images * input.height * input.width;
    u64 place = u64(here ? pixel : 0) * input.pitch;
    const Half* from = at<const Half>(input.address) + place;
    f32 sum = 0.0f;
    for (u32 channel = lane() * 8; channel < input.pitch; channel += LANES * 8) {
        Values8 values = load8(from + channel);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            sum += values.of[i];
        }
    }
    f32 mean = quotient(warp_sum(sum), f32(input.channels));
    f32 squares = 0.0f;
    for (u32 channel = lane() * 8; channel < input.pitch; channel += LANES * 8) {
        Values8 values = load8(from + channel);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            f32 difference = channel + i < input.channels ? values.of[i] - mean : 0.0f;
            squares = fused(difference, difference, squares);
        }
    }
    f32 variance = quotient(warp_sum(squares), f32(input.channels));
    f32 factor = reciprocal(square_root(variance + params.epsilon));
    if (!watch.may_go_on() || !here) {
        return;
    }
    for (u32 channel = lane() * 8; channel < input.pitch; channel += LANES * 8) {
        Values8 values = load8(from + channel);
        Values8 scale = load8(at<const f32>(params.scale) + channel);
        Values8 bias = load8(at<const f32>(params.bias) + channel);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            // Scale and bias of the padding are zero.
            values.of[i] = fused((values.of[i] - mean) * factor, scale.of[i], bias.of[i]);
        }
        store8(at<Half>(params.output) + (place + channel), values);
    }
}

// Each thread copies eight channels of the table's row that the pixel's number names, or of the nearest row.
PUNCTUAL_KERNEL(embedding, Embedding, 128) {
    Watch watch(guard);
    const TensorView& output = params.output;
    u32 vectors = params.channel_count / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    bool here = pixel < params.images * output.height * output.width;
    if (!watch.may_go_on() || !here) {
        return;
    }
    u64 place = u64(pixel) * params.pitch;
    f32 number = params.kept == KEPT_FLOATS ? at<const f32>(params.input)[place]
                                            : to_f32(at<const Half>(params.input)[place]);
    // A NaN takes row 0.
    u32 row = number >= f32(params.rows) ? params.rows - 1 : number > 0.0f ? u32(number) : 0;
    const Half* from = at<const Half>(params.table) + u64(row) * params.channel_count + channel;
    Half* to = at<Half>(output.address) + u64(pixel) * output.pitch + params.first_channel + channel;
    *reinterpret_cast<Halves8*>(to) = load_halves(from);
}

// Each thread computes eight channels of a token: constant tokens, then the image's pixels, with a table added to all.
PUNCTUAL_KERNEL(tokens, Tokens, 128) {
    Watch watch(guard);
    const TensorView& output = params.output;
    u32 vectors = params.channel_count / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    u32 token = pixel % output.width, image = pixel / output.width;
    if (!watch.may_go_on() || image >= params.images) {
        return;
    }
    u32 in_operator = params.first_channel + channel;
    Values8 values = load8(at<const Half>(params.table) + u64(token) * params.channel_count + channel);
    if (token >= params.prefix) {
        u64 from = u64(image) * (output.width - params.prefix) + (token - params.prefix);
        add8(values, load8(at<const Half>(params.input) + (from * output.pitch + in_operator)));
    }
    store8(at<Half>(output.address) + u64(pixel) * output.pitch + in_operator, values);
}
