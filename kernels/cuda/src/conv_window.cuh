// Where the steps of a convolution's sum lie in its input.
#pragma once

#include "device.cuh"

// Eight neighbouring input channels of one tap: the unit in which the steps of the sum are read.
struct Tap {
    u32 channel;
    // Below and beside the window's first pixel: a tap's place in the kernel times the dilation.
    u32 row;
    u32 column;
    // From the window's first pixel and channel 0, in halves.
    int offset;

    DEVICE Tap(const Conv& conv, u32 step) {
        u32 tap = step / conv.input.pitch;
        channel = step % conv.input.pitch;
        row = tap / conv.kernel_width * conv.dilation_height;
        column = tap % conv.kernel_width * conv.dilation_width;
        place(conv);
    }

    // True: it is another tap now, or none if the row is below the window.
    DEVICE bool advance(const Conv& conv, u32 steps) {
        channel += steps;
        offset += int(steps);
        if (channel < conv.input.pitch) {
            return false;
        }
        do {
            channel -= conv.input.pitch;
            column += conv.dilation_width;
            if (column == conv.kernel_width * conv.dilation_width) {
                column = 0;
                row += conv.dilation_height;
            }
        } while (channel >= conv.input.pitch);
        place(conv);
        return true;
    }

    DEVICE void place(const Conv& conv) {
        offset = int((row * conv.input.width + column) * conv.input.pitch + channel);
    }
};

// Where the window of an output pixel begins.
struct WindowStart {
    int row;
    int column;
    // Of its first pixel and channel 0 in the batch's input, in halves. Of a window that begins in the padding it is
    // what it would be there, so that adding a tap's offset gives that tap's place.
    int offset;

    DEVICE void find(const Conv& conv, u32 pixel, u32 pixels) {
        u32 x = pixel % conv.output.width;
        u32 above = pixel / conv.output.width;
        u32 y = above % conv.output.height;
        u32 image = above / conv.output.height;
        row = int(y * conv.stride_height) - int(conv.pad_top);
        column = int(x * conv.stride_width) - int(conv.pad_left);
        int first = int(image * conv.input.height);
        offset = ((first + row) * int(conv.input.width) + column) * int(conv.input.pitch);
        if (pixel >= pixels) {
            // No tap of it is inside.
            row = -(1 << 30);
        }
    }

    DEVICE bool holds(const Conv& conv, const Tap& tap) const {
        return u32(row + int(tap.row)) < conv.input.height && u32(column + int(tap.column)) < conv.input.width &&
               tap.row < conv.kernel_height * conv.dilation_height;
    }
};
