// Convolutions of any shape, without tensor cores: what stands in for a tile that is not loaded yet, and what devices
// before 8.0 run.
#pragma once

#include "conv_finish.cuh"
#include "conv_window.cuh"
#include "guard.cuh"

constexpr u32 GENERAL_PIXELS = 2;

// Steps of the sum between two checks of the guard.
constexpr u32 GENERAL_TILE = 256;

// A lane has two pixels, a warp eight output channels: all lanes read the same weights. It obeys `splits` and
// `partial`, so that it can take the place of a launch of conv_gemm_*.
PUNCTUAL_KERNEL(conv_dense_general, Conv, 128) {
    Watch watch(guard);
    const Conv& conv = params;
    u32 pixels = conv.images * conv.output.height * conv.output.width;
    u32 channel = (blockIdx.y * 4 + warp()) * 8;
    bool here = channel < conv.channel_count;

    u32 first_pixel = blockIdx.x * (LANES * GENERAL_PIXELS) + lane();
    WindowStart windows[GENERAL_PIXELS];
#pragma unroll
    for (u32 i = 0; i < GENERAL_PIXELS; i++) {
        windows[i].find(conv, first_pixel + i * LANES, pixels);
    }
    u32 depth = conv.kernel_height * conv.kernel_width * conv.input.pitch;
    u32 begin = u32(u64(depth / 8) * blockIdx.z / conv.splits) * 8;
    u32 end = u32(u64(depth / 8) * (blockIdx.z + 1) / conv.splits) * 8;
    const Half* input = at<const Half>(conv.input.address);
    const Half* weights = at<const Half>(conv.weights) + u64(here ? channel : 0) * depth;

    Values8 sums[GENERAL_PIXELS] = {};
    Tap tap(conv, begin);
    bool inside[GENERAL_PIXELS];
    bool moved = true;
    if (!watch.may_go_on()) {
        return;
    }
#pragma unroll 1
    for (u32 step = begin; step < end; step += 8) {
        if ((step - begin) % GENERAL_TILE == 0) {
            if (!watch.may_go_on()) {
                return;
            }
            if (step + GENERAL_TILE < end) {
                watch.look_again();
            }
        }
        Values8 values[GENERAL_PIXELS];
#pragma unroll
        for (u32 i = 0; i < GENERAL_PIXELS; i++) {
            if (moved) {
                inside[i] = windows[i].holds(conv, tap);
            }
            values[i] = inside[i] ? load8(input + (windows[i].offset + tap.offset)) : Values8{};
        }
#pragma unroll
        for (u32 c = 0; c < 8; c++) {
            Values8 weight = load8(weights + u64(c) * depth + step);
#pragma unroll
            for (u32 i = 0; i < GENERAL_PIXELS; i++) {
                sums[i].of[c] = dot8(values[i], weight, sums[i].of[c]);
            }
        }
        moved = tap.advance(conv, 8);
    }
#pragma unroll
    for (u32 i = 0; i < GENERAL_PIXELS; i++) {
        u32 pixel = first_pixel + i * LANES;
        if (here && pixel < pixels) {
            finish_split8(conv, sums[i], blockIdx.z, pixel, channel);
        }
    }
}

// Adds the splits of a convolution up and finishes it: eight channels of a pixel a thread.
PUNCTUAL_KERNEL(conv_reduce, Conv, 128) {
    Watch watch(guard);
    u32 vectors = params.channel_count / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 pixel = index / vectors, channel = index % vectors * 8;
    bool here = pixel < params.images * params.output.height * params.output.width;
    Values8 sums = {};
    for (u32 split = 0; here && split < params.splits; split++) {
        add8(sums, load8(partial8(params, split, pixel, channel)));
    }
    if (watch.may_go_on() && here) {
        finish_conv8(params, sums, pixel, channel);
    }
}

constexpr u32 DEPTHWISE_COLUMNS = 2;

// Of one row of a window: WIDTH taps of neighbouring output columns, all read before the first is used, as small
// layers are bound by waiting for memory. `weights` are `pitch` halves apart; `input` is the image's channels.
template <u32 WIDTH, u32 STRIDE>
DEVICE void depthwise_row(Values8 (&sums)[DEPTHWISE_COLUMNS], const Half* input, const TensorView& view, u32 row,
                          u32 column, const Half* weights, u32 pitch) {
    constexpr u32 READS = (DEPTHWISE_COLUMNS - 1) * STRIDE + WIDTH;
    Halves8 taps[WIDTH];
#pragma unroll
    for (u32 kx = 0; kx < WIDTH; kx++) {
        taps[kx] = load_halves(weights + kx * pitch);
    }
    Halves8 values[READS] = {};
#pragma unroll
    for (u32 i = 0; i < READS; i++) {
        // Rows above and columns left of the input have wrapped around: they are not below its sizes either.
        if (row < view.height && column + i < view.width) {
            values[i] = load_halves(input + u64(row * view.width + column + i) * view.pitch);
        }
    }
#pragma unroll
    for (u32 i = 0; i < DEPTHWISE_COLUMNS; i++) {
#pragma unroll
        for (u32 kx = 0; kx < WIDTH; kx++) {
            Values8 value = to_values(values[i * STRIDE + kx]), weight = to_values(taps[kx]);
#pragma unroll
            for (u32 c = 0; c < 8; c++) {
                sums[i].of[c] = fused(value.of[c], weight.of[c], sums[i].of[c]);
            }
        }
    }
}

// Eight channels of two neighbouring output columns a thread. Windows three wide, which most are, have code of their
// own.
PUNCTUAL_KERNEL(conv_depthwise_general, Conv, 128) {
    Watch watch(guard);
    const Conv& conv = params;
    u32 vectors = conv.channel_count / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8;
    u32 strips = ceil_div(conv.output.width, DEPTHWISE_COLUMNS);
    u32 strip = index / vectors;
    u32 x = strip % strips * DEPTHWISE_COLUMNS;
    u32 line = strip / strips;
    u32 y = line % conv.output.height, image = line / conv.output.height;
    bool here = image < conv.images;

    Values8 sums[DEPTHWISE_COLUMNS] = {};
    const Half* input = at<const Half>(conv.input.address) +
                        u64(image) * conv.input.height * conv.input.width * conv.input.pitch +
                        conv.first_channel + channel;
    const Half* weights = at<const Half>(conv.weights) + channel;
    u32 column = x * conv.stride_width - conv.pad_left;
    u32 rows = here ? conv.kernel_height : 0;
    if (conv.kernel_width == 3 && conv.stride_width <= 2 && conv.dilation_width == 1) {
#pragma unroll 3
        for (u32 ky = 0; ky < rows; ky++) {
            u32 row = y * conv.stride_height + ky * conv.dilation_height - conv.pad_top;
            const Half* taps = weights + ky * 3 * conv.channel_count;
            if (conv.stride_width == 1) {
                depthwise_row<3, 1>(sums, input, conv.input, row, column, taps, conv.channel_count);
            } else {
                depthwise_row<3, 2>(sums, input, conv.input, row, column, taps, conv.channel_count);
            }
        }
    } else {
#pragma unroll 1
        for (u32 tap = 0; tap < rows * conv.kernel_width; tap++) {
            u32 ky = tap / conv.kernel_width, kx = tap % conv.kernel_width;
            u32 row = y * conv.stride_height + ky * conv.dilation_height - conv.pad_top;
            Values8 weight = load8(weights + tap * conv.channel_count);
#pragma unroll
            for (u32 i = 0; i < DEPTHWISE_COLUMNS; i++) {
                u32 from = column + i * conv.stride_width + kx * conv.dilation_width;
                if (row < conv.input.height && from < conv.input.width) {
                    Values8 value = load8(input + u64(row * conv.input.width + from) * conv.input.pitch);
#pragma unroll
                    for (u32 c = 0; c < 8; c++) {
                        sums[i].of[c] = fused(value.of[c], weight.of[c], sums[i].of[c]);
                    }
                }
            }
        }
    }
    if (!watch.may_go_on() || !here) {
        return;
    }
    u32 pixel = (image * conv.output.height + y) * conv.output.width + x;
#pragma unroll
    for (u32 i = 0; i < DEPTHWISE_COLUMNS; i++) {
        if (x + i < conv.output.width) {
            finish_conv8(conv, sums[i], pixel + i, channel);
        }
    }
}

// The sum of one channel of one pixel over the inputs of its group.
DEVICE f32 grouped_sum(const Conv& conv, const WindowStart& window, u32 channel, u32 row) {
    u32 inputs = conv.input.channels / conv.groups;
    u32 group = (conv.first_channel + channel) / (conv.output.channels / conv.groups);
    const Half* input = at<const Half>(conv.input.address) + group * inputs;
    const Half* weights = at<const Half>(conv.weights) +
                          (u64(channel) * conv.kernel_height + row) * conv.kernel_width * inputs;
    f32 sum = 0.0f;
#pragma unroll 1
    for (u32 kx = 0; kx < conv.kernel_width; kx++) {
        u32 column = kx * conv.dilation_width;
        if (u32(window.column + int(column)) >= conv.input.width) {
            continue;
        }
        int place = window.offset + int((row * conv.dilation_height * conv.input.width + column) * conv.input.pitch);
        const Half* weight = weights + kx * inputs;
        if (inputs % 8 == 0) {
#pragma unroll 1
            for (u32 i = 0; i < inputs; i += 8) {
                sum = dot8(load8(input + (place + int(i))), load8(weight + i), sum);
            }
        } else {
#pragma unroll 1
            for (u32 i = 0; i < inputs; i++) {
                sum = fused(to_f32(input[place + int(i)]), to_f32(weight[i]), sum);
            }
        }
    }
    return sum;
}

// Any number of groups: eight output channels of a pixel a thread, one after the other, as they may be of
// different groups. The guard is checked at each row of the window.
PUNCTUAL_KERNEL(conv_grouped_general, Conv, 128) {
    Watch watch(guard);
    const Conv& conv = params;
    u32 vectors = conv.channel_count / 8;
    u32 pixels = conv.images * conv.output.height * conv.output.width;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 pixel = index / vectors, channel = index % vectors * 8;
    bool here = pixel < pixels;
    WindowStart window;
    window.find(conv, pixel, pixels);
    if (!watch.may_go_on()) {
        return;
    }
    Values8 sums = {};
    for (u32 row = 0; row < conv.kernel_height; row++) {
        if (!watch.may_go_on()) {
            return;
        }
        if (row + 1 < conv.kernel_height) {
            watch.look_again();
        }
        if (!here || u32(window.row + int(row * conv.dilation_height)) >= conv.input.height) {
            continue;
        }
#pragma unroll
        for (u32 c = 0; c < 8; c++) {
            if (conv.first_channel + channel + c < conv.output.channels) {
                sums.of[c] += grouped_sum(conv, window, channel + c, row);
            }
        }
    }
    if (here) {
        finish_conv8(conv, sums, pixel, channel);
    }
}
