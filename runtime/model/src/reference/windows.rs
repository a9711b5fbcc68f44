//! Tensors, windows over them, and what they are resized to.

use punctual_types::{Between, Filter, Resampling, Window};

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
        Some(self.data[self.position(channel, row, column)?])
    }

    /// Where the value at a place lies that may lie in the padding.
    pub fn position(&self, channel: usize, row: i64, column: i64) -> Option<usize> {
        let (height, width) = (self.shape.height as usize, self.shape.width as usize);
        let row = usize::try_from(row).ok().filter(|&row| row < height)?;
        let column = usize::try_from(column)
            .ok()
            .filter(|&column| column < width)?;
        Some((channel * height + row) * width + column)
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

/// A tensor of the resampling's rows and columns.
pub(super) fn resize(input: Planar, resampling: &Resampling) -> Vec<f32> {
    let (height, width) = (input.shape.height, input.shape.width);
    let pixel = |channel, row: usize, column: usize| {
        let pixel = input.at(channel, row as i64, column as i64);
        pixel.expect("a resampling takes pixels of the image")
    };
    let mut result = Vec::new();
    for channel in 0..input.shape.channels as usize {
        match resampling.filter {
            Filter::Nearest(rounding) => {
                for row in resampling.nearest_rows(height, rounding) {
                    let columns = resampling.nearest_columns(width, rounding);
                    result.extend(columns.map(|column| pixel(channel, row, column)));
                }
            }
            Filter::Linear => {
                for rows in resampling.linear_rows(height) {
                    result.extend(resampling.linear_columns(width).map(|columns| {
                        let line = |row| {
                            let values = [columns.first, columns.second];
                            blend(values.map(|at| pixel(channel, row, at).into()), columns)
                        };
                        blend([line(rows.first), line(rows.second)], rows) as f32
                    }));
                }
            }
        }
    }
    result
}

fn blend([first, second]: [f64; 2], between: Between) -> f64 {
    let share = f64::from(between.share);
    first * (1.0 - share) + second * share
}
