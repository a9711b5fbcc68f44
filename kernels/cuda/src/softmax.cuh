// Softmax over the positions that a digit of an axis counts.
#pragma once

#include "guard.cuh"
#include "vectors.cuh"

// `lanes` threads share a group of positions. Along channels a group's positions are neighbours in memory; along rows
// and columns the groups are, so each group has one thread.
PUNCTUAL_KERNEL(softmax, Softmax, 128) {
    Watch watch(guard);
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 share = index % params.lanes, group = index / params.lanes;
    u32 inner = group % params.inner;
    u32 outer = group / params.inner % params.outer;
    u32 rest = group / params.inner / params.outer;
    bool here = rest < params.images * params.rest;
    u64 first = u64(rest) * params.rest_step + u64(outer) * params.extent * params.step + inner;
    const Half* from = at<const Half>(params.input) + first;
    Half* to = at<Half>(params.output) + first;
    u32 extent = here ? params.extent : 0;

    f32 largest = -infinity();
#pragma unroll 1
    for (u32 i = share; i < extent; i += params.lanes) {
        f32 value = to_f32(from[u64(i) * params.step]);
        largest = value > largest ? value : largest;
    }
    for (u32 mask = 1; mask < params.lanes; mask *= 2) {
        f32 other = shuffle_xor(largest, mask);
        largest = other > largest ? other : largest;
    }
    f32 sum = 0.0f;
#pragma unroll 1
    for (u32 i = share; i < extent; i += params.lanes) {
        sum += exponential(to_f32(from[u64(i) * params.step]) - largest);
    }
    for (u32 mask = 1; mask < params.lanes; mask *= 2) {
        sum += shuffle_xor(sum, mask);
    }
    if (!watch.may_go_on() || !here) {
        return;
    }
    bool padding = params.along_channels == 0 && inner % params.pitch >= params.channels;
    f32 less = params.logarithm != 0 ? largest + logarithm(sum) : largest;
    f32 factor = reciprocal(sum);
#pragma unroll 1
    for (u32 i = share; i < extent; i += params.lanes) {
        f32 value = to_f32(from[u64(i) * params.step]) - less;
        value = params.logarithm != 0 ? value : exponential(value) * factor;
        to[u64(i) * params.step] = to_half(padding ? 0.0f : value);
    }
    // The pixel's last group also writes its padding.
    if (params.along_channels != 0 && outer + 1 == params.outer && inner + 1 == params.inner && share == 0) {
        Half* pixel = at<Half>(params.output) + u64(rest) * params.rest_step;
        for (u32 channel = params.channels; channel < params.pitch; channel++) {
            pixel[channel] = to_half(0.0f);
        }
    }
}
