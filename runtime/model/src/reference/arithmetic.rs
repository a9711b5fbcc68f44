//! Functions of two tensors, and of the values along an axis.

use punctual_types::{Axis, Digit};

use super::windows::Planar;
use crate::Tensor;

/// `function` of each pair, the operands repeated where they have one position.
pub(super) fn binary(
    a: Planar,
    b: Planar,
    output: Tensor,
    function: impl Fn(f32, f32) -> f32,
) -> Vec<f32> {
    let value = |operand: Planar, [channel, row, column]: [u32; 3]| {
        let Tensor {
            channels,
            height,
            width,
        } = operand.shape;
        let row = row.min(height - 1) + channel.min(channels - 1) * height;
        operand.data[(row * width + column.min(width - 1)) as usize]
    };
    let mut result = Vec::with_capacity(output.elements() as usize);
    for channel in 0..output.channels {
        for row in 0..output.height {
            for column in 0..output.width {
                let at = [channel, row, column];
                result.push(function(value(a, at), value(b, at)));
            }
        }
    }
    result
}

pub(super) fn softmax(input: Planar, digit: Digit, logarithm: bool) -> Vec<f32> {
    let Tensor { height, width, .. } = input.shape;
    let between = match digit.axis {
        Axis::Channel => height * width,
        Axis::Row => width,
        _ => 1,
    };
    let (extent, step) = (digit.extent as usize, (digit.step * between) as usize);
    let mut result = vec![0.0; input.data.len()];
    for first in (0..result.len()).filter(|at| at / step % extent == 0) {
        let group = (0..extent).map(|i| first + i * step);
        let values: Vec<f64> = group.clone().map(|at| f64::from(input.data[at])).collect();
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = values.iter().map(|value| (value - largest).exp()).sum();
        for (at, value) in group.zip(values) {
            let logarithm_of = value - largest - sum.ln();
            result[at] = if logarithm {
                logarithm_of
            } else {
                logarithm_of.exp()
            } as f32;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(channels: u32, height: u32, width: u32) -> Tensor {
        Tensor {
            channels,
            height,
            width,
        }
    }

    #[test]
    fn operands_are_repeated_along_every_axis() {
        let a = Planar {
            shape: shape(2, 1, 2),
            data: &[1.0, 2.0, 3.0, 4.0],
        };
        let b = Planar {
            shape: shape(1, 2, 1),
            data: &[10.0, 20.0],
        };
        let sums = binary(a, b, shape(2, 2, 2), |a, b| a + b);
        assert_eq!(sums, [11.0, 12.0, 21.0, 22.0, 13.0, 14.0, 23.0, 24.0]);
    }

    #[test]
    fn a_digit_of_the_channels_sums_up_to_one() {
        // Channels 0 and 2 belong together, and 1 and 3.
        let input = Planar {
            shape: shape(4, 1, 1),
            data: &[0.0, 5.0, 3.0_f32.ln(), 5.0],
        };
        let digit = Digit {
            axis: Axis::Channel,
            step: 2,
            extent: 2,
        };
        let found = softmax(input, digit, false);
        for (found, expected) in found.iter().zip([0.25, 0.5, 0.75, 0.5]) {
            assert!((found - expected).abs() < 1e-6, "{found}");
        }
        let logarithms = softmax(input, digit, true);
        assert!((logarithms[0] - 0.25_f32.ln()).abs() < 1e-6);
    }
}
