//! The plain references that every kernel is tested against: one loop a dimension, images as
//! `[channel][row][column]`, sums in f64. Slow, allocating, obviously right.

use punctual_types::{Activation, Between, Extent, Filter, PoolKind, Resampling, Window};

use crate::ChannelRun;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
}

impl Shape {
    pub fn elements(self) -> usize {
        self.channels * self.height * self.width
    }

    fn index(self, channel: usize, row: usize, column: usize) -> usize {
        (channel * self.height + row) * self.width + column
    }

    /// The pixel at `row`, `column`, if it is inside the image and not in the padding.
    pub(crate) fn pixel(
        self,
        channel: usize,
        row: Option<usize>,
        column: Option<usize>,
    ) -> Option<usize> {
        match (row, column) {
            (Some(row), Some(column)) if row < self.height && column < self.width => {
                Some(self.index(channel, row, column))
            }
            _ => None,
        }
    }
}

/// `activation(conv(input) + bias [+ addend])`; `weights` are
/// `[output][input / groups][kernel row][kernel column]`. `window` must fit the padded input.
#[allow(clippy::too_many_arguments)]
pub fn conv2d(
    shape: Shape,
    window: &Window,
    groups: usize,
    activation: Activation,
    weights: &[f32],
    bias: &[f32],
    input: &[f32],
    addend: Option<&[f32]>,
) -> Vec<f32> {
    let (inputs, outputs) = (shape.channels / groups, bias.len());
    let (height, width) = output_extent(shape, window);
    let Extent {
        height: kernel_height,
        width: kernel_width,
    } = window.kernel;
    let taps = window.kernel.area();
    let out = Shape {
        channels: outputs,
        height,
        width,
    };
    let mut output = vec![0.0; out.elements()];
    for channel in 0..outputs {
        let first = channel / (outputs / groups) * inputs;
        for row in 0..height {
            for column in 0..width {
                let mut sum = f64::from(bias[channel]);
                for i in 0..inputs {
                    for ky in 0..kernel_height {
                        for kx in 0..kernel_width {
                            let (y, x) = source(window, row, column, ky, kx);
                            let Some(pixel) = shape.pixel(first + i, y, x) else {
                                continue;
                            };
                            let tap = (ky * kernel_width + kx) as usize;
                            let weight = weights[(channel * inputs + i) * taps + tap];
                            sum += f64::from(input[pixel]) * f64::from(weight);
                        }
                    }
                }
                let at = out.index(channel, row, column);
                sum += addend.map_or(0.0, |addend| f64::from(addend[at]));
                output[at] = activation.of(sum as f32);
            }
        }
    }
    output
}

/// The largest, or the mean, of each window's pixels; padding counts only in a mean that includes it.
pub fn pool(shape: Shape, window: &Window, kind: PoolKind, input: &[f32]) -> Vec<f32> {
    let (height, width) = output_extent(shape, window);
    let mut output = Vec::with_capacity(shape.channels * height * width);
    for channel in 0..shape.channels {
        for row in 0..height {
            for column in 0..width {
                let (mut largest, mut sum, mut count) = (f32::NEG_INFINITY, 0.0, 0);
                for ky in 0..window.kernel.height {
                    for kx in 0..window.kernel.width {
                        let (y, x) = source(window, row, column, ky, kx);
                        let Some(pixel) = shape.pixel(channel, y, x) else {
                            continue;
                        };
                        largest = largest.max(input[pixel]);
                        sum += f64::from(input[pixel]);
                        count += 1;
                    }
                }
                output.push(match kind {
                    PoolKind::Max => largest,
                    PoolKind::Average {
                        counts_padding: true,
                    } => {
                        let area = window.kernel.area();
                        (sum / area as f64) as f32
                    }
                    PoolKind::Average { .. } => (sum / f64::from(count)) as f32,
                });
            }
        }
    }
    output
}

pub fn global_average_pool(shape: Shape, input: &[f32]) -> Vec<f32> {
    let pixels = shape.height * shape.width;
    input
        .chunks_exact(pixels)
        .map(|plane| (plane.iter().copied().map(f64::from).sum::<f64>() / pixels as f64) as f32)
        .collect()
}

/// `activation(weights * input + bias)`; `weights` are `[output][input]`.
pub fn linear(activation: Activation, weights: &[f32], bias: &[f32], input: &[f32]) -> Vec<f32> {
    weights
        .chunks_exact(input.len())
        .zip(bias)
        .map(|(row, &bias)| {
            let products = row
                .iter()
                .zip(input)
                .map(|(&w, &x)| f64::from(w) * f64::from(x));
            activation.of((f64::from(bias) + products.sum::<f64>()) as f32)
        })
        .collect()
}

/// `activation(input + addend)`.
pub fn add(activation: Activation, input: &[f32], addend: &[f32]) -> Vec<f32> {
    input
        .iter()
        .zip(addend)
        .map(|(&a, &b)| activation.of(a + b))
        .collect()
}

/// `activation(input * factor)`; as many factors as values, or one a channel.
pub fn multiply(activation: Activation, input: &[f32], factor: &[f32]) -> Vec<f32> {
    let each = input.len() / factor.len();
    input
        .iter()
        .enumerate()
        .map(|(at, value)| activation.of(value * factor[at / each]))
        .collect()
}

/// The runs' channels, one run after the other, from images of `pixels` each.
pub fn gather(pixels: usize, runs: &[ChannelRun], inputs: &[Vec<f32>]) -> Vec<f32> {
    runs.iter()
        .flat_map(|run| &inputs[run.source][run.first * pixels..][..run.count * pixels])
        .copied()
        .collect()
}

/// An image of the resampling's rows and columns.
pub fn resize(shape: Shape, resampling: &Resampling, input: &[f32]) -> Vec<f32> {
    let (height, width) = (shape.height as u32, shape.width as u32);
    let planes = input.chunks_exact(shape.height * shape.width);
    let mut output = Vec::new();
    for plane in planes {
        let pixel = |row: usize, column: usize| plane[row * shape.width + column];
        match resampling.filter {
            Filter::Nearest(rounding) => {
                for row in resampling.nearest_rows(height, rounding) {
                    let columns = resampling.nearest_columns(width, rounding);
                    output.extend(columns.map(|column| pixel(row, column)));
                }
            }
            Filter::Linear => {
                for row in resampling.linear_rows(height) {
                    output.extend(resampling.linear_columns(width).map(|column| {
                        let along = |row: usize| {
                            let (first, second) = (column.first, column.second);
                            blend(pixel(row, first).into(), pixel(row, second).into(), column)
                        };
                        blend(along(row.first), along(row.second), row) as f32
                    }));
                }
            }
        }
    }
    output
}

fn blend(first: f64, second: f64, between: Between) -> f64 {
    let share = f64::from(between.share);
    first * (1.0 - share) + second * share
}

/// Rows and columns of what `window`, which must fit the padded input, makes of an image.
pub fn output_extent(shape: Shape, window: &Window) -> (usize, usize) {
    let input = Extent {
        height: shape.height as u32,
        width: shape.width as u32,
    };
    let Extent { height, width } = window
        .output(input)
        .expect("the window fits the padded input");
    (height as usize, width as usize)
}

/// The input row and column under a kernel's element; `None` above or left of the image.
pub(crate) fn source(
    window: &Window,
    row: usize,
    column: usize,
    ky: u32,
    kx: u32,
) -> (Option<usize>, Option<usize>) {
    let Window {
        stride,
        padding,
        dilation,
        ..
    } = window;
    let under = |at: usize, stride: u32, offset: u32, before: u32| {
        (at * stride as usize + offset as usize).checked_sub(before as usize)
    };
    (
        under(row, stride.height, ky * dilation.height, padding.top),
        under(column, stride.width, kx * dilation.width, padding.left),
    )
}
