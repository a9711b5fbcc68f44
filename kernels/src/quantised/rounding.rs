//! The one rule by which values become bytes.

use punctual_types::{Activation, Quantisation};

use crate::{KernelError, activation};

/// Added to a small float, it leaves the float's nearest integer, half to even, in the sum's lowest
/// bits: between 2^23 and 2^24 a float's last bit is worth one.
const INTEGER: f32 = (3 << 22) as f32;

/// How a value, counted in steps of the result, becomes a byte: it is clipped, rounded half to
/// even, and the zero point is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rounding {
    /// The smallest result, less the zero point.
    pub low: f32,
    /// The largest result, less the zero point.
    pub high: f32,
    pub zero: i32,
}

impl Rounding {
    pub const IDLE: Rounding = Rounding {
        low: 0.0,
        high: 0.0,
        zero: 0,
    };

    /// To bytes of `to`, none of them outside the activation's bounds, which are rounded to bytes themselves.
    pub fn new(to: Quantisation, activation: Activation) -> Result<Rounding, KernelError> {
        if !activation.is_clip() {
            return Err(KernelError::Curve { activation });
        }
        activation::check(activation)?;
        let zero = f32::from(to.zero);
        let (least, most) = (-zero, 255.0 - zero);
        let (low, high) = activation.bounds();
        let bound = |value: f32| (value / to.scale).round_ties_even().clamp(least, most);
        Ok(Rounding {
            low: bound(low),
            high: bound(high),
            zero: i32::from(to.zero),
        })
    }

    /// The byte for a value of `steps` steps.
    #[inline(always)]
    pub fn byte(self, steps: f32) -> u8 {
        // Comparisons that a single instruction makes; NaN, which no sum is, would become `low`.
        let steps = if steps > self.low { steps } else { self.low };
        let steps = if steps < self.high { steps } else { self.high };
        let integer = (steps + INTEGER).to_bits() as i32 - INTEGER.to_bits() as i32;
        (integer + self.zero) as u8
    }
}

/// What a byte stands for, in steps: `q - zero`.
#[inline(always)]
pub(crate) fn steps(byte: u8, zero: i32) -> f32 {
    (i32::from(byte) - zero) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_rounded_to_even_and_what_lies_outside_is_clipped() {
        let to = Quantisation {
            scale: 0.5,
            zero: 100,
        };
        let rounding = Rounding::new(to, Activation::None).unwrap();
        for quarters in -4000..4000 {
            let value = quarters as f32 / 4.0;
            let expected = (value.round_ties_even() + 100.0).clamp(0.0, 255.0);
            assert_eq!(f32::from(rounding.byte(value)), expected, "{value}");
        }
        assert_eq!(rounding.byte(f32::INFINITY), 255);
        assert_eq!(rounding.byte(f32::NEG_INFINITY), 0);
    }

    #[test]
    fn an_activation_narrows_the_bytes_and_a_curve_is_refused() {
        let to = Quantisation {
            scale: 0.5,
            zero: 100,
        };
        let clip = Activation::Clip {
            low: 0.0,
            high: 6.0,
        };
        let rounding = Rounding::new(to, clip).unwrap();
        assert_eq!([-9.0, 9.0, 99.0].map(|x| rounding.byte(x)), [100, 109, 112]);
        assert_eq!(
            Rounding::new(to, Activation::Silu),
            Err(KernelError::Curve {
                activation: Activation::Silu
            })
        );
    }
}
