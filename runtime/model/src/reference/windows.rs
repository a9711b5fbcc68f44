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
    /// Values of a channel.
    pub fn plane(&self) -> usize {
        (self.shape.height * self.shape.width) as usize
    }

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

/// A row of a plane as one position of a kernel sees it, without the padding.
pub(super) struct Line {
    /// Where its first value lies in the input's plane.
    pub from: usize,
    /// Which of the output's plane that belongs to.
    pub to: usize,
    pub count: usize,
}

/// The rows that a kernel's position sees, which is numbered row by row.
pub(super) fn lines(
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
