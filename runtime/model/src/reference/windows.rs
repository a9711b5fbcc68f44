//! Windows over tensors.

use punctual_types::Window;

use super::Planar;
use crate::Tensor;

/// Calls `visit` with each kernel position (numbered row by row) and its input pixel.
pub(crate) fn visit(
    window: &Window,
    row: usize,
    column: usize,
    mut visit: impl FnMut(usize, i64, i64),
) {
    let Window {
        kernel,
        stride,
        padding,
        dilation,
    } = *window;
    let first_row = row as i64 * i64::from(stride.height) - i64::from(padding.top);
    let first_column = column as i64 * i64::from(stride.width) - i64::from(padding.left);
    for y in 0..kernel.height {
        for x in 0..kernel.width {
            let position = (y * kernel.width + x) as usize;
            visit(
                position,
                first_row + i64::from(y) * i64::from(dilation.height),
                first_column + i64::from(x) * i64::from(dilation.width),
            );
        }
    }
}

/// A row of a plane as one position of a kernel sees it, without the padding.
pub(crate) struct Line {
    /// Where its first value lies in the input's plane.
    pub from: usize,
    /// Which of the output's plane that belongs to.
    pub to: usize,
    pub count: usize,
}

/// The rows that a kernel's position sees, which is numbered row by row.
pub(crate) fn lines(
    window: &Window,
    position: usize,
    input: Planar,
    output: Tensor,
) -> impl Iterator<Item = Line> {
    let Window {
        kernel,
        stride,
        padding,
        dilation,
    } = *window;
    let (down, along) = (
        position as u32 / kernel.width,
        position as u32 % kernel.width,
    );
    let seen = |step: u32, dilation: u32, padding: u32| {
        i64::from(step) * i64::from(dilation) - i64::from(padding)
    };
    let down = seen(down, dilation.height, padding.top);
    let along = seen(along, dilation.width, padding.left);
    let [_, height, width] = input.shape.sides().map(i64::from);
    let step = i64::from(stride.width);
    // The first column that is no padding, and the first one behind the last.
    let first = ((-along).max(0) as u64).div_ceil(step as u64) as i64;
    let end = ((width - along).max(0) as u64).div_ceil(step as u64) as i64;
    let end = end.min(output.width.into());
    (0..i64::from(output.height)).filter_map(move |row| {
        let y = row * i64::from(stride.height) + down;
        let is_there = (0..height).contains(&y) && first < end;
        is_there.then(|| Line {
            from: (y * width + first * step + along) as usize,
            to: (row * i64::from(output.width) + first) as usize,
            count: (end - first) as usize,
        })
    })
}
