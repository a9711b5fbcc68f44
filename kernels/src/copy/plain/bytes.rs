//! Values of tensors of bytes.

use core::ptr::NonNull;

use super::order::{Order, Piece, Planes, Row, Tokens};

/// Pixels whose lanes are taken apart together: their values stay in the nearest cache.
const TOGETHER: usize = 64;

/// Writes a piece's bytes with some bits flipped.
///
/// # Safety
/// The piece's values lie in the input; their places in the output are valid, and while this runs nothing else uses them.
pub(super) unsafe fn write(
    order: &Order,
    input: &[f32],
    piece: &Piece,
    output: NonNull<u8>,
    flipped: u8,
) {
    let input = crate::quantised::bytes(input);
    // SAFETY: the caller's promise.
    unsafe {
        match piece {
            Piece::Planes(planes) => write_planes(input, planes, output, flipped),
            Piece::Tokens(tokens) => write_tokens(order, input, tokens, output, flipped),
            Piece::Row(row) => write_row(order, input, row, output, flipped),
        }
    }
}

/// # Safety
/// As of [`write`].
unsafe fn write_planes(input: &[u8], planes: &Planes, output: NonNull<u8>, flipped: u8) {
    let Planes {
        from,
        step,
        pixels,
        ref lanes,
        to,
        apart,
    } = *planes;
    // Four lanes of each pixel, which lie in one word.
    let mut words = [0_u32; TOGETHER];
    let mut first = 0;
    while first < pixels {
        let some = TOGETHER.min(pixels - first);
        for four in lanes.start / 4..lanes.end.div_ceil(4) {
            let source = from + first * step + 4 * four;
            for (pixel, word) in words[..some].iter_mut().enumerate() {
                let bytes = &input[source + pixel * step..][..4];
                *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
            for lane in lanes.start.max(4 * four)..lanes.end.min(4 * four + 4) {
                let to = to + (lane - lanes.start) * apart + first;
                // SAFETY: the caller's promise.
                let plane =
                    unsafe { core::slice::from_raw_parts_mut(output.as_ptr().add(to), some) };
                for (byte, word) in plane.iter_mut().zip(words) {
                    *byte = (word >> (8 * (lane % 4))) as u8 ^ flipped;
                }
            }
        }
        first += some;
    }
}

/// # Safety
/// As of [`write`].
unsafe fn write_tokens(
    order: &Order,
    input: &[u8],
    tokens: &Tokens,
    output: NonNull<u8>,
    flipped: u8,
) {
    let mut to = tokens.to;
    for pixel in 0..tokens.pixels {
        let place = tokens.place.plus(pixel, tokens.step);
        let mut done = 0;
        while done < tokens.channels {
            let channel = place.channel + done;
            let some = (order.lanes - channel % order.lanes).min(tokens.channels - done);
            let from = order.at(super::order::Place { channel, ..place });
            // SAFETY: the caller's promise.
            let bytes = unsafe { core::slice::from_raw_parts_mut(output.as_ptr().add(to), some) };
            for (byte, value) in bytes.iter_mut().zip(&input[from..from + some]) {
                *byte = value ^ flipped;
            }
            (done, to) = (done + some, to + some);
        }
    }
}

/// # Safety
/// As of [`write`].
unsafe fn write_row(order: &Order, input: &[u8], row: &Row, output: NonNull<u8>, flipped: u8) {
    for at in 0..row.values {
        let value = input[order.at(row.place.plus(at, row.step))];
        // SAFETY: the caller's promise.
        unsafe { output.add(row.to + at).write(value ^ flipped) };
    }
}
