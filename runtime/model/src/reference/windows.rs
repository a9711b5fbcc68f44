//! Tensors and windows over them.

use punctual_types::Window;

use crate::Tensor;

/// A planar tensor to read from.
#[derive(Clone, Copy)]
pub(super) struct Planar<'a> {
    pub shape: Tensor,
    pub data: &'a [f32],
}

impl Planar<'_> {
    /// The value at a place that may lie in the padding.
    pub fn at(&self, channel: usize, row: i64, column: i64) -> Option<f32> {
        let (height, width) = (self.shape.height as usize, self.shape.width as usize);
        let row = usize::try_from(row).ok().filter(|&row| row < height)?;
        let column = usize::try_from(column)
            .ok()
            .filter(|&column| column < width)?;
        Some(self.data[(channel * height + row) * width + column])
    }
}

/// Calls `visit` with each kernel position (numbered row by row) and its input pixel.
pub(super) fn visit(
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
