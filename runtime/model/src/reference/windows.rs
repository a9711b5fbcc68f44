//! Tensors and windows over them.

use crate::{Extent, Padding, Tensor};

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

/// The windows of a convolution or a pool.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub kernel: Extent,
    pub stride: Extent,
    pub padding: Padding,
}

impl Window {
    pub fn whole(shape: Tensor) -> Self {
        let Tensor { height, width, .. } = shape;
        Self {
            kernel: Extent { height, width },
            stride: Extent {
                height: 1,
                width: 1,
            },
            padding: Padding {
                top: 0,
                left: 0,
                bottom: 0,
                right: 0,
            },
        }
    }

    /// Calls `visit` with each kernel position (numbered row by row) and its input pixel.
    pub fn visit(self, row: usize, column: usize, mut visit: impl FnMut(usize, i64, i64)) {
        let first_row = row as i64 * i64::from(self.stride.height) - i64::from(self.padding.top);
        let first_column =
            column as i64 * i64::from(self.stride.width) - i64::from(self.padding.left);
        for y in 0..self.kernel.height {
            for x in 0..self.kernel.width {
                let position = (y * self.kernel.width + x) as usize;
                visit(
                    position,
                    first_row + i64::from(y),
                    first_column + i64::from(x),
                );
            }
        }
    }
}
