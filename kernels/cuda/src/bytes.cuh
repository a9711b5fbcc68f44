// Tensors of bytes: integers are summed up exactly and rounded once, as runtime/model/src/reference/quantised.rs says.
// A pixel's padding may hold anything: the weights there are zero.
#pragma once

#include "epilogue.cuh"
#include "guard.cuh"

struct alignas(8) Bytes8 {
    u32 words[2];

    DEVICE u32 at(u32 i) const { return words[i / 4] >> i % 4 * 8 & 0xff; }
};

struct alignas(16) Bytes16 {
    u32 words[4];
};

// The byte for a value in quantisation steps: rounded half to even, offset by zero's byte, within the bounds.
DEVICE u32 round_steps(const Rounding& rounding, f32 steps) {
    f32 byte = to_nearest(steps) + rounding.zero;
    byte = byte < rounding.low ? rounding.low : byte;
    return u32(byte > rounding.high ? rounding.high : byte);
}

DEVICE void store_rounded(u8* to, const Rounding& rounding, const Values8& steps) {
    Bytes8 bytes = {};
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        bytes.words[i / 4] |= round_steps(rounding, steps.of[i]) << i % 4 * 8;
    }
    *reinterpret_cast<Bytes8*>(to) = bytes;
}

// Finishes eight sums and writes them as the output is kept. `channel` counts from the launch's first.
DEVICE void finish_sums(const ConvBytes& conv, const int (&sums)[8], u32 pixel, u32 channel) {
    u32 in_operator = conv.first_channel + channel;
    Values8 values;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        int sum = int(u32(sums[i]) + at<const u32>(conv.bias)[channel + i]);
        values.of[i] = product(f32(sum), at<const f32>(conv.factors)[channel + i]);
    }
    u64 place = u64(pixel) * conv.output.pitch + in_operator;
    if (conv.kept == KEPT_BYTES) {
        u8* to = at<u8>(conv.output.address) + place;
        store_rounded(to, conv.rounding, values);
        // Pixels have a multiple of 16 bytes: the operator's last vector is followed by one of padding, or by none.
        u32 end = in_operator + 8;
        if (end >= conv.output.channels && end < conv.output.pitch) {
            *reinterpret_cast<Bytes8*>(to + 8) = {};
        }
    } else {
        finish8(values, conv.epilogue, in_operator, conv.output.channels);
        store8(at<Half>(conv.output.address) + place, values);
    }
}

// Where the window of an output pixel begins.
struct BytesWindow {
    u32 row;
    u32 column;
    const u8* image;
    bool here;

    DEVICE BytesWindow(const ConvBytes& conv, u32 pixel) {
        u32 line = pixel / conv.output.width;
        u32 number = line / conv.output.height;
        here = number < conv.images;
        row = line % conv.output.height * conv.stride_height - conv.pad_top;
        column = pixel % conv.output.width * conv.stride_width - conv.pad_left;
        u64 first = u64(number) * conv.input.height * conv.input.width * conv.input.pitch;
        image = at<const u8>(conv.input.address) + first;
    }

    // The pixel of a tap, or null in the padding, where row and column may have wrapped around below zero.
    DEVICE const u8* tap(const ConvBytes& conv, u32 tap) const {
        u32 y = row + tap / conv.kernel_width * conv.dilation_height;
        u32 x = column + tap % conv.kernel_width * conv.dilation_width;
        bool inside = here && y < conv.input.height && x < conv.input.width;
        return inside ? image + u64(y * conv.input.width + x) * conv.input.pitch : nullptr;
    }
};

// A lane computes a pixel, a warp eight output channels: all lanes read the same weights. The biases already subtract
// what the byte of zero adds, so padding counts as that byte. The guard is checked at each tap.
PUNCTUAL_KERNEL(conv_bytes, ConvBytes, 128) {
    Watch watch(guard);
    const ConvBytes& conv = params;
    u32 pixel = blockIdx.x * LANES + lane();
    u32 channel = (blockIdx.y * 4 + warp()) * 8;
    bool here = channel < conv.channel_count;
    BytesWindow window(conv, pixel);
    u32 taps = conv.kernel_height * conv.kernel_width;
    u32 depth = taps * conv.input.pitch;
    const u8* weights = at<const u8>(conv.weights) + u64(here ? channel : 0) * depth;
    int sums[8] = {};
    if (!watch.may_go_on()) {
        return;
    }
#pragma unroll 1
    for (u32 tap = 0; tap < taps; tap++) {
        if (!watch.may_go_on(tap + 1 < taps)) {
            return;
        }
        const u8* from = window.tap(conv, tap);
#pragma unroll 1
        for (u32 step = 0; step < conv.input.pitch; step += 16) {
            u32 zeros = conv.zero * 0x01010101;
            Bytes16 values = {{zeros, zeros, zeros, zeros}};
            if (from != nullptr) {
                values = *reinterpret_cast<const Bytes16*>(from + step);
            }
#pragma unroll
            for (u32 c = 0; c < 8; c++) {
                const u8* row = weights + u64(c) * depth + tap * conv.input.pitch + step;
                Bytes16 weight = *reinterpret_cast<const Bytes16*>(row);
#pragma unroll
                for (u32 word = 0; word < 4; word++) {
                    sums[c] = dot4(values.words[word], weight.words[word], sums[c]);
                }
            }
        }
    }
    if (here && window.here) {
        finish_sums(conv, sums, pixel, channel);
    }
}

// As many groups as channels: each thread computes eight channels of a pixel.
PUNCTUAL_KERNEL(conv_bytes_depthwise, ConvBytes, 128) {
    Watch watch(guard);
    const ConvBytes& conv = params;
    u32 vectors = conv.channel_count / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    BytesWindow window(conv, pixel);
    int sums[8] = {};
    if (!watch.may_go_on()) {
        return;
    }
    u32 taps = conv.kernel_height * conv.kernel_width;
#pragma unroll 1
    for (u32 tap = 0; tap < taps; tap++) {
        const u8* from = window.tap(conv, tap);
        if (from != nullptr) {
            const u8* place = at<const u8>(conv.weights) + tap * conv.channel_count + channel;
            Bytes8 weight = *reinterpret_cast<const Bytes8*>(place);
            Bytes8 value = *reinterpret_cast<const Bytes8*>(from + conv.first_channel + channel);
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                sums[i] += (int(value.at(i)) - int(conv.zero)) * int(static_cast<signed char>(weight.at(i)));
            }
        }
    }
    if (window.here) {
        finish_sums(conv, sums, pixel, channel);
    }
}

// Any number of groups: each thread computes eight channels of a pixel, one by one. The guard is checked at each tap.
PUNCTUAL_KERNEL(conv_bytes_grouped, ConvBytes, 128) {
    Watch watch(guard);
    const ConvBytes& conv = params;
    u32 vectors = conv.channel_count / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    BytesWindow window(conv, pixel);
    u32 inputs = conv.input.channels / conv.groups, outputs = conv.output.channels / conv.groups;
    u32 taps = conv.kernel_height * conv.kernel_width;
    int sums[8] = {};
    if (!watch.may_go_on()) {
        return;
    }
#pragma unroll 1
    for (u32 tap = 0; tap < taps; tap++) {
        if (!watch.may_go_on(tap + 1 < taps)) {
            return;
        }
        const u8* from = window.tap(conv, tap);
#pragma unroll
        for (u32 c = 0; c < 8; c++) {
            u32 of = conv.first_channel + channel + c;
            if (from != nullptr && of < conv.output.channels) {
                const u8* group = from + of / outputs * inputs;
                const u8* row = at<const u8>(conv.weights) + (u64(channel + c) * taps + tap) * inputs;
                for (u32 i = 0; i < inputs; i++) {
                    sums[c] += (int(group[i]) - int(conv.zero)) * int(static_cast<signed char>(row[i]));
                }
            }
        }
    }
    if (window.here) {
        finish_sums(conv, sums, pixel, channel);
    }
}

// The largest or the mean of each window: each thread computes eight channels of a pixel.
PUNCTUAL_KERNEL(pool_bytes, PoolBytes, 128) {
    enum Kind : u32 { LARGEST = 0, MEAN_WITH_PADDING = 1, MEAN = 2 };
    Watch watch(guard);
    const TensorView &input = params.input, &output = params.output;
    u32 vectors = output.pitch / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    u32 line = pixel / output.width, image = line / output.height;
    u32 row = line % output.height * params.stride_height - params.pad_top;
    u32 column = pixel % output.width * params.stride_width - params.pad_left;
    bool here = image < params.images;
    const u8* from = at<const u8>(input.address) + u64(image) * input.height * input.width * input.pitch + channel;
    u32 results[8] = {};
    u32 inside = 0;
    if (!watch.may_go_on() || !here) {
        return;
    }
#pragma unroll 1
    for (u32 tap = 0; tap < params.kernel_height * params.kernel_width; tap++) {
        u32 y = row + tap / params.kernel_width, x = column + tap % params.kernel_width;
        if (y < input.height && x < input.width) {
            Bytes8 bytes = *reinterpret_cast<const Bytes8*>(from + u64(y * input.width + x) * input.pitch);
            inside++;
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                u32 byte = bytes.at(i);
                results[i] = params.kind != LARGEST ? results[i] + byte : byte > results[i] ? byte : results[i];
            }
        }
    }
    u32 count = params.kind == MEAN_WITH_PADDING ? params.kernel_height * params.kernel_width : inside;
    f32 factor = params.kind == LARGEST ? params.ratio : exact_quotient(params.ratio, f32(count));
    int zeros = int(params.zero) * (params.kind == LARGEST ? 1 : int(inside));
    Values8 steps;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        steps.of[i] = product(f32(int(results[i]) - zeros), factor);
    }
    store_rounded(at<u8>(output.address) + u64(pixel) * output.pitch + channel, params.rounding, steps);
}

// Two tensors added: each thread computes eight channels of a pixel.
PUNCTUAL_KERNEL(add_bytes, AddBytes, 128) {
    Watch watch(guard);
    const TensorView& output = params.output;
    u32 vectors = output.pitch / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    bool here = index < params.images * output.height * output.width * vectors;
    if (!watch.may_go_on() || !here) {
        return;
    }
    Bytes8 first = at<const Bytes8>(params.first)[index], second = at<const Bytes8>(params.second)[index];
    Values8 steps;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        f32 a = product(f32(int(first.at(i)) - int(params.first_zero)), params.first_ratio);
        f32 b = product(f32(int(second.at(i)) - int(params.second_zero)), params.second_ratio);
        steps.of[i] = exact_sum(a, b);
    }
    store_rounded(at<u8>(output.address) + u64(index) * 8, params.rounding, steps);
}

// Bytes from and to halves, or bytes of another quantisation: each thread converts eight channels of a pixel. Bytes have
// more padding than halves: what has no input is written as zero steps.
PUNCTUAL_KERNEL(convert, Convert, 128) {
    Watch watch(guard);
    const TensorView &input = params.input, &output = params.output;
    u32 vectors = output.pitch / 8;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channel = index % vectors * 8, pixel = index / vectors;
    bool here = pixel < params.images * output.height * output.width;
    if (!watch.may_go_on() || !here) {
        return;
    }
    u64 from = u64(pixel) * input.pitch + channel, to = u64(pixel) * output.pitch + channel;
    Values8 steps = {};
    if (channel >= input.pitch) {
        // Padding.
    } else if (params.from == KEPT_BYTES) {
        Bytes8 bytes = *reinterpret_cast<const Bytes8*>(at<const u8>(input.address) + from);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            steps.of[i] = product(f32(int(bytes.at(i)) - int(params.zero)), params.factor);
        }
    } else {
        steps = load8(at<const Half>(input.address) + from);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            steps.of[i] = exact_quotient(steps.of[i], params.factor);
        }
    }
    if (params.to == KEPT_BYTES) {
        store_rounded(at<u8>(output.address) + to, params.rounding, steps);
        return;
    }
    finish8(steps, Epilogue{}, channel, output.channels);
    store8(at<Half>(output.address) + to, steps);
}
