// Fully connected layers.
#pragma once

#include "epilogue.cuh"
#include "guard.cuh"

constexpr u32 LINEAR_FEATURES = 4;
constexpr u32 LINEAR_IMAGES = 4;
constexpr u32 LINEAR_SUMS = LINEAR_FEATURES * LINEAR_IMAGES;

// Steps of the sum between two checks of the guard.
constexpr u32 LINEAR_TILE = 8192;

// Adds eight steps of the sums of a block. `images` of them are there.
DEVICE void linear_step(f32 (&sums)[LINEAR_SUMS], const Linear& params, const Half* input, const Half* weights,
                        u32 images, u32 step) {
    Values8 weight[LINEAR_FEATURES];
#pragma unroll
    for (u32 feature = 0; feature < LINEAR_FEATURES; feature++) {
        weight[feature] = load8(weights + u64(feature) * params.depth + step);
    }
#pragma unroll
    for (u32 image = 0; image < LINEAR_IMAGES; image++) {
        if (image < images) {
            Values8 value = load8(input + u64(image) * params.depth + step);
#pragma unroll
            for (u32 feature = 0; feature < LINEAR_FEATURES; feature++) {
                f32& sum = sums[image * LINEAR_FEATURES + feature];
                sum = dot8(value, weight[feature], sum);
            }
        }
    }
}

// A block has four features of up to four images; its threads share the depth. Bound by reading the weights, which
// small batches read once; large batches run on tensor cores (`linear_reduce`).
// Seven blocks leave each thread the registers that it needs, but no more.
PUNCTUAL_KERNEL_RESIDENT(linear, Linear, 128, 7) {
    Watch watch(guard);
    __shared__ f32 shared[4][LINEAR_SUMS];
    u32 first_feature = blockIdx.x * LINEAR_FEATURES, first_image = blockIdx.y * LINEAR_IMAGES;
    const Half* weights = at<const Half>(params.weights) + u64(first_feature) * params.depth;
    const Half* input = at<const Half>(params.input) + u64(first_image) * params.depth;
    u32 images = params.images - first_image;

    f32 sums[LINEAR_SUMS] = {};
    for (u32 tile = 0; tile < params.depth; tile += LINEAR_TILE) {
        if (tile != 0 && !watch.may_go_on()) {
            return;
        }
        u32 end = tile + LINEAR_TILE;
        if (end < params.depth) {
            watch.look_again();
        } else {
            end = params.depth;
        }
        for (u32 step = tile + threadIdx.x * 8; step < end; step += 128 * 8) {
            linear_step(sums, params, input, weights, images, step);
        }
    }
#pragma unroll
    for (u32 i = 0; i < LINEAR_SUMS; i++) {
#pragma unroll
        for (u32 mask = 1; mask < LANES; mask *= 2) {
            sums[i] += shuffle_xor(sums[i], mask);
        }
        if (lane() == 0) {
            shared[warp()][i] = sums[i];
        }
    }
    // Also the barrier between writing and reading the sums.
    if (!watch.may_go_on() || threadIdx.x >= LINEAR_SUMS) {
        return;
    }
    u32 in_launch = first_feature + threadIdx.x % LINEAR_FEATURES;
    u32 image = first_image + threadIdx.x / LINEAR_FEATURES;
    if (image >= params.images) {
        return;
    }
    u32 of = threadIdx.x;
    f32 result[1] = {shared[0][of] + shared[1][of] + shared[2][of] + shared[3][of]};
    result[0] += at<const f32>(params.bias)[in_launch];
    activate(params.epilogue, result);
    u32 feature = params.first_feature + in_launch;
    if (feature >= params.features) {
        result[0] = 0.0f;
    }
    u64 place = u64(image) * params.pitch + feature;
    if (params.output != 0) {
        at<Half>(params.output)[place] = to_half(result[0]);
    }
    if (params.scores != 0) {
        at<f32>(params.scores)[place] = result[0];
    }
}

// Finishes a layer whose sums a kernel for dense convolutions left in `partial`: eight features of an image a thread.
PUNCTUAL_KERNEL(linear_reduce, Linear, 128) {
    Watch watch(guard);
    u32 vectors = params.feature_count / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 image = index / vectors, in_launch = index % vectors * 8;
    u32 feature = params.first_feature + in_launch;
    u64 place = u64(image) * params.pitch + feature;
    bool here = image < params.images;
    Values8 sums = {};
    for (u32 split = 0; here && split < params.splits; split++) {
        u64 of_split = u64(split) * params.images * params.pitch;
        add8(sums, load8(at<const f32>(params.partial) + of_split + place));
    }
    if (!watch.may_go_on() || !here) {
        return;
    }
    add8(sums, load8(at<const f32>(params.bias) + in_launch));
    finish8(sums, params.epilogue, feature, params.features);
    if (params.output != 0) {
        store8(at<Half>(params.output) + place, sums);
    }
    if (params.scores != 0) {
        store8(at<f32>(params.scores) + place, sums);
    }
}
