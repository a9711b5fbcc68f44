//! Operators on bytes. A tensor of bytes is its bytes, each as a float that is a whole number.

use punctual_types::{Activation, PoolKind, Quantisation, Window};

use super::{Planar, visit};
use crate::Tensor;

/// Rounds a value, counted in steps of `to`, to one of its bytes: half to even, none outside the
/// activation's bounds, which are rounded to bytes themselves.
fn round(steps: f32, to: Quantisation, activation: Activation) -> f32 {
    let zero = f32::from(to.zero);
    let byte = |value: f32| (value.round_ties_even() + zero).clamp(0.0, 255.0);
    let (low, high) = activation.bounds();
    byte(steps).clamp(byte(low / to.scale), byte(high / to.scale))
}

/// What a step of `from` is worth in steps of `to`.
fn ratio(from: f32, to: Quantisation) -> f32 {
    (f64::from(from) / f64::from(to.scale)) as f32
}

/// A convolution's integers, and what they stand for.
pub(super) struct Weights<'a> {
    pub weights: &'a [i8],
    pub scales: &'a [f32],
    pub bias: &'a [f32],
    pub groups: u32,
}

/// `activation(conv(input) + bias)`: to bytes, or without `to` to floats.
pub(super) fn convolve(
    input: Planar,
    from: Quantisation,
    weights: &Weights,
    window: Window,
    output: Tensor,
    to: Option<Quantisation>,
    activation: Activation,
) -> Vec<f32> {
    let inputs = (input.shape.channels / weights.groups) as usize;
    let outputs = (output.channels / weights.groups) as usize;
    let area = window.kernel.area();
    let mut result = Vec::with_capacity(output.elements() as usize);
    for channel in 0..output.channels as usize {
        let kernel = &weights.weights[channel * inputs * area..][..inputs * area];
        let first = channel / outputs * inputs;
        let step = weights.scales[channel] * from.scale;
        let bias = f64::from(weights.bias[channel]) / f64::from(step);
        for row in 0..output.height as usize {
            for column in 0..output.width as usize {
                let mut sum = bias.round_ties_even() as i32;
                visit(&window, row, column, |position, y, x| {
                    for inside in 0..inputs {
                        // Padding means zero.
                        if let Some(value) = input.at(first + inside, y, x) {
                            let value = value as i32 - i32::from(from.zero);
                            let weight = i32::from(kernel[inside * area + position]);
                            sum = sum.wrapping_add(value * weight);
                        }
                    }
                });
                result.push(match to {
                    Some(to) => round(sum as f32 * ratio(step, to), to, activation),
                    None => activation.of(sum as f32 * step),
                });
            }
        }
    }
    result
}

/// The largest or the mean of each window's bytes.
pub(super) fn pool(
    input: Planar,
    from: Quantisation,
    kind: PoolKind,
    window: Window,
    output: Tensor,
    to: Quantisation,
) -> Vec<f32> {
    let (zero, ratio) = (f32::from(from.zero), ratio(from.scale, to));
    let mut result = Vec::with_capacity(output.elements() as usize);
    let mut seen: Vec<f32> = Vec::new();
    for channel in 0..output.channels as usize {
        for row in 0..output.height as usize {
            for column in 0..output.width as usize {
                seen.clear();
                visit(&window, row, column, |_, y, x| {
                    seen.extend(input.at(channel, y, x))
                });
                let steps = match kind {
                    PoolKind::Max => {
                        let largest = seen.iter().copied().fold(0.0, f32::max);
                        (largest - zero) * ratio
                    }
                    PoolKind::Average { counts_padding } => {
                        let area = window.kernel.area();
                        let count = if counts_padding { area } else { seen.len() };
                        // Whole numbers below 2^24: the sum is exact.
                        let sum: f32 = seen.iter().map(|value| value - zero).sum();
                        sum * (ratio / count as f32)
                    }
                };
                result.push(round(steps, to, Activation::None));
            }
        }
    }
    result
}

/// `activation(a + b)`, each operand with what its bytes stand for.
pub(super) fn add(
    (a, of_a): (&[f32], Quantisation),
    (b, of_b): (&[f32], Quantisation),
    to: Quantisation,
    activation: Activation,
) -> Vec<f32> {
    let steps = |value: &f32, of: Quantisation| (value - f32::from(of.zero)) * ratio(of.scale, to);
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| round(steps(a, of_a) + steps(b, of_b), to, activation))
        .collect()
}

/// The same values, kept as something else.
pub(super) fn convert(
    values: &[f32],
    from: Option<Quantisation>,
    to: Option<Quantisation>,
) -> Vec<f32> {
    let convert = |&value: &f32| {
        let steps = |from: Quantisation| value - f32::from(from.zero);
        match (from, to) {
            (None, None) => value,
            (None, Some(to)) => round(value / to.scale, to, Activation::None),
            (Some(from), None) => steps(from) * from.scale,
            (Some(from), Some(to)) => {
                round(steps(from) * ratio(from.scale, to), to, Activation::None)
            }
        }
    };
    values.iter().map(convert).collect()
}
