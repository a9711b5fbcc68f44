//! The plain references that the kernels on bytes are tested against, and equal to the last bit:
//! one loop a dimension, images as `[channel][row][column]`. Slow, allocating, obviously right.

use punctual_types::{Activation, PoolKind, Quantisation, Window};

use super::rounding::{Rounding, steps};
use crate::reference::{output_extent, source};
use crate::shape::Shape;

/// What the sums of a convolution become.
#[derive(Clone, Debug, PartialEq)]
pub enum Image {
    Bytes(Vec<u8>),
    Floats(Vec<f32>),
}

/// A convolution's parameters, as [`Conv2d::pack`](super::Conv2d::pack) takes them.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    /// `[output][input / groups][kernel row][kernel column]`.
    pub weights: &'a [i8],
    /// What a step of an output's weights is worth.
    pub scales: &'a [f32],
    /// `[output]`.
    pub bias: &'a [f32],
}

/// `activation(conv(input) + bias)`, of bytes of `from`; without `to` in floats. Padding means zero.
#[allow(clippy::too_many_arguments)]
pub fn conv2d(
    shape: Shape,
    window: &Window,
    groups: usize,
    activation: Activation,
    parameters: Parameters<'_>,
    from: Quantisation,
    to: Option<Quantisation>,
    input: &[u8],
) -> Image {
    let Parameters {
        weights,
        scales,
        bias,
    } = parameters;
    let (inputs, outputs) = (shape.channels / groups, bias.len());
    let (height, width) = output_extent(shape, window);
    let (kernel, taps) = (window.kernel, window.kernel.area());
    let rounding = to.map(|to| Rounding::new(to, activation).expect("a sound activation"));
    let mut result = Vec::new();
    for channel in 0..outputs {
        let step = scales[channel] * from.scale;
        let bias = (f64::from(bias[channel]) / f64::from(step)).round_ties_even() as i32;
        let first = channel / (outputs / groups) * inputs;
        for row in 0..height {
            for column in 0..width {
                let mut sum = bias;
                for i in 0..inputs {
                    for ky in 0..kernel.height {
                        for kx in 0..kernel.width {
                            let (y, x) = source(window, row, column, ky, kx);
                            let Some(pixel) = shape.pixel(first + i, y, x) else {
                                continue;
                            };
                            let tap = (ky * kernel.width + kx) as usize;
                            let weight = weights[(channel * inputs + i) * taps + tap];
                            let input = i32::from(input[pixel]) - i32::from(from.zero);
                            sum = sum.wrapping_add(input * i32::from(weight));
                        }
                    }
                }
                result.push((sum as f32, step));
            }
        }
    }
    match (to, rounding) {
        (Some(to), Some(rounding)) => {
            let scale = |step| (f64::from(step) / f64::from(to.scale)) as f32;
            let bytes = result
                .iter()
                .map(|&(sum, step)| rounding.byte(sum * scale(step)));
            Image::Bytes(bytes.collect())
        }
        _ => {
            let floats = result.iter().map(|(sum, step)| activation.of(sum * step));
            Image::Floats(floats.collect())
        }
    }
}

/// `activation(a + b)`, each operand with what its bytes stand for.
pub fn add(
    activation: Activation,
    (a, of_a): (&[u8], Quantisation),
    (b, of_b): (&[u8], Quantisation),
    to: Quantisation,
) -> Vec<u8> {
    let rounding = Rounding::new(to, activation).expect("a sound activation");
    let value = |byte: u8, of: Quantisation| {
        steps(byte, of.zero.into()) * (f64::from(of.scale) / f64::from(to.scale)) as f32
    };
    let pairs = a.iter().zip(b);
    pairs
        .map(|(&a, &b)| rounding.byte(value(a, of_a) + value(b, of_b)))
        .collect()
}

/// The largest, or the mean, of each window's bytes.
pub fn pool(
    shape: Shape,
    window: &Window,
    kind: PoolKind,
    from: Quantisation,
    to: Quantisation,
    input: &[u8],
) -> Vec<u8> {
    let (height, width) = output_extent(shape, window);
    let rounding = Rounding::new(to, Activation::None).expect("no activation is sound");
    let ratio = (f64::from(from.scale) / f64::from(to.scale)) as f32;
    let mut output = Vec::new();
    for channel in 0..shape.channels {
        for row in 0..height {
            for column in 0..width {
                let (mut largest, mut sum, mut count) = (0, 0, 0);
                for ky in 0..window.kernel.height {
                    for kx in 0..window.kernel.width {
                        let (y, x) = source(window, row, column, ky, kx);
                        let Some(pixel) = shape.pixel(channel, y, x) else {
                            continue;
                        };
                        largest = largest.max(input[pixel]);
                        sum += i32::from(input[pixel]) - i32::from(from.zero);
                        count += 1;
                    }
                }
                output.push(match kind {
                    PoolKind::Max => rounding.byte(steps(largest, from.zero.into()) * ratio),
                    PoolKind::Average { counts_padding } => {
                        let area = window.kernel.area();
                        let count = if counts_padding { area } else { count };
                        rounding.byte(sum as f32 * (ratio / count as f32))
                    }
                });
            }
        }
    }
    output
}

/// Floats as bytes.
pub fn quantise(to: Quantisation, input: &[f32]) -> Vec<u8> {
    let rounding = Rounding::new(to, Activation::None).expect("no activation is sound");
    input.iter().map(|x| rounding.byte(x / to.scale)).collect()
}

/// What bytes stand for.
pub fn dequantise(from: Quantisation, input: &[u8]) -> Vec<f32> {
    let value = |&byte: &u8| steps(byte, from.zero.into()) * from.scale;
    input.iter().map(value).collect()
}
