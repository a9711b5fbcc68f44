// What all kernels for dense convolutions do with eight sums: finish them, or leave that to conv_reduce.
#pragma once

#include "epilogue.cuh"

// `channel` is of the launch, `pixel` of the batch.
DEVICE void finish_conv8(const Conv& conv, Values8 sums, u32 pixel, u32 channel) {
    u32 in_operator = conv.first_channel + channel;
    u64 place = u64(pixel) * conv.output.pitch + in_operator;
    add8(sums, load8(at<const f32>(conv.bias) + channel));
    if (conv.residual != 0) {
        add8(sums, load8(at<const Half>(conv.residual) + place));
    }
    finish8(sums, conv.epilogue, in_operator, conv.output.channels);
    store8(at<Half>(conv.output.address) + place, sums);
}

// Of eight sums in `partial`.
DEVICE f32* partial8(const Conv& conv, u32 split, u32 pixel, u32 channel) {
    u64 pixels = u64(conv.images) * conv.output.height * conv.output.width;
    return at<f32>(conv.partial) + ((split * pixels + pixel) * conv.output.pitch + conv.first_channel + channel);
}

// The end of a split.
DEVICE void finish_split8(const Conv& conv, const Values8& sums, u32 split, u32 pixel, u32 channel) {
    if (conv.partial != 0) {
        store8(partial8(conv, split, pixel, channel), sums);
    } else {
        finish_conv8(conv, sums, pixel, channel);
    }
}
