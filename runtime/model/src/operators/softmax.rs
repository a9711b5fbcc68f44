//! Softmaxes.

use punctual_types::{Axis, Digit};
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::{Operation, Planar};
use crate::{ShapeError, Tensor};

/// `e^x / sum e^x` over the positions that a digit of an axis counts, for each position that the rest counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Softmax {
    /// `extent` positions of the axis, `step` apart; both together divide the axis.
    pub digit: Digit,
    /// Whether the result is the logarithm of that.
    pub logarithm: bool,
}

impl Meaning for Softmax {
    fn label(&self, _input: Tensor) -> String {
        "softmax".to_owned()
    }

    /// The digit must count positions of the input's axis, which are whole periods of it.
    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others()?;
        let (digit, input) = (self.digit, of.input);
        let size = digit.axis.index().map_or(0, |axis| input.sides()[axis]);
        let period = u64::from(digit.step) * u64::from(digit.extent);
        if size == 0 || period == 0 || !u64::from(size).is_multiple_of(period) {
            return Err(ShapeError::Digit { digit, input });
        }
        Ok(input)
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        self.softmax(of.input())
    }

    /// An exponential is as wrong as its argument, which is rounded.
    fn rounding(&self, of: &Operation<'_>, result: &[f32]) -> Rounding {
        let values = of.input().data.iter().copied();
        let finite = values.filter(|value| value.is_finite());
        let largest = finite.fold(0.0, |most: f32, value| most.max(value.abs()));
        let terms = (2.0 * largest).powi(2).min(1e6);
        Rounding::of_all(Form::Curve, 1 + terms as usize, typical(result))
    }
}

impl Softmax {
    fn softmax(&self, input: Planar) -> Vec<f32> {
        let Tensor { height, width, .. } = input.shape;
        let digit = self.digit;
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
                let logarithm = value - largest - sum.ln();
                result[at] = if self.logarithm {
                    logarithm
                } else {
                    logarithm.exp()
                } as f32;
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digit_of_the_channels_sums_up_to_one() {
        // Channels 0 and 2 belong together, and 1 and 3.
        let input = Planar {
            shape: Tensor::features(4),
            data: &[0.0, 5.0, 3.0_f32.ln(), 5.0],
        };
        let digit = Digit {
            axis: Axis::Channel,
            step: 2,
            extent: 2,
        };
        let of = |logarithm| Softmax { digit, logarithm }.softmax(input);
        for (found, expected) in of(false).iter().zip([0.25, 0.5, 0.75, 0.5]) {
            assert!((found - expected).abs() < 1e-6, "{found}");
        }
        assert!((of(true)[0] - 0.25_f32.ln()).abs() < 1e-6);
    }
}
