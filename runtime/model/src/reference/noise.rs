//! What an engine's arithmetic may do to the results of operators: roundings, sums made in another order.
//!
//! Each value is moved up or down by about as much as an engine may be wrong. Whole numbers stay: counts, positions and
//! masks, which every engine has exactly; but not those that a curve ends in, as a sigmoid does in 1, nor averages. Operators
//! that move values, or that give bytes, are exact as well.

use punctual_types::{Activation, Random};

use super::Operation;
use super::agreement::{HALF_MAX, Precision, SINGLE_UNIT};
use crate::operators::meaning::Meaning;
use crate::{TensorId, with_operator};

/// Noise of one run. The same seed and the strength with the other sign move each value the other way: a boundary that the
/// noise of a value can cross is crossed by one of both runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    pub precision: Precision,
    pub seed: u64,
    /// How many times as much as an engine may be wrong by; negative for the other way.
    pub strength: f64,
    /// Whether values that an engine may round to zero are zero. Not in each run: such a value never gets the other sign.
    pub vanishing: bool,
}

/// How an operator's results are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Every engine has the same results of the same values.
    Exact,
    Plain,
    /// They are weighted means, whose weights are rounded.
    Average,
    /// They are of a curve that an engine may compute in another way.
    Curve,
    /// They are sums of products with fractions, as means over channels are, and nothing else.
    Fractions,
}

impl Form {
    pub fn of_curve(is_curve: bool) -> Self {
        if is_curve { Self::Curve } else { Self::Plain }
    }

    /// Of an operator that sums products with its first weights and applies an activation.
    pub fn of_weighted(of: &Operation<'_>, activation: Activation) -> Self {
        let mut weights = of.weights(0).iter();
        match () {
            () if !activation.is_clip() => Self::Curve,
            () if weights.any(|weight| weight.fract() != 0.0) => Self::Fractions,
            () => Self::Plain,
        }
    }
}

/// The sums that an operator's values are made of.
pub(crate) struct Rounding {
    form: Form,
    /// Terms of each.
    terms: f64,
    /// About the sum of the terms' absolute values: one for each channel of the result, or one for all.
    sizes: Vec<f64>,
}

impl Rounding {
    pub fn exact() -> Self {
        Self::once(Form::Exact, 0.0)
    }

    /// Of values that are rounded once.
    pub fn once(form: Form, size: f64) -> Self {
        Self::of_all(form, 1, size)
    }

    /// All sums have `terms` terms, and this size.
    pub fn of_all(form: Form, terms: usize, size: f64) -> Self {
        Self {
            form,
            terms: terms as f64,
            sizes: vec![size],
        }
    }
}

impl Noise {
    /// An input, as an engine that keeps it in halves reads it.
    pub fn read(&self, tensor: TensorId, values: &mut [f32]) {
        if self.precision == Precision::Half {
            self.displace(tensor, values, false, |_, value| {
                self.precision.unit() * value.abs()
            });
        }
    }

    /// An operator's result.
    pub fn disturb(&self, operation: &Operation<'_>, result: &mut [f32]) {
        let output = operation.operator.output;
        if operation.quantisation(output).is_some() {
            return;
        }
        let kind = &operation.operator.kind;
        let Rounding { form, terms, sizes } =
            with_operator!(kind, kind => kind.rounding(operation, result));
        if form == Form::Exact {
            return;
        }
        let each = result.len() / sizes.len();
        // Weights that are kept in halves are wrong by a unit each, independently.
        let of_weights = match self.precision {
            Precision::Single => 0.0,
            Precision::Half => self.precision.unit() / terms.sqrt(),
        };
        let stored = self.precision.unit() + 4.0 * SINGLE_UNIT;
        self.displace(output, result, form != Form::Plain, |at, value| {
            // What is clipped, or a sum of nothing but zeros, is nothing in every engine.
            if form == Form::Fractions && value == 0.0 {
                return 0.0;
            }
            let (value, size) = (value.abs(), sizes[at / each]);
            let of_sums = SINGLE_UNIT * (terms.sqrt() * value + size);
            stored * value + of_sums + of_weights * size
        });
    }

    /// Whole numbers as well if the results are always rounded.
    fn displace(
        &self,
        tensor: TensorId,
        values: &mut [f32],
        is_rounded: bool,
        amount: impl Fn(usize, f64) -> f64,
    ) {
        let mut random = Random::new(self.seed).stream("noise", tensor.0.into());
        let mut drawn = 0;
        // No rounding makes results negative that cannot be so: their logarithm would be no number. A negative zero could.
        let is_positive = is_rounded && values.iter().all(|v| *v >= 0.0 && v.is_sign_positive());
        for (at, value) in values.iter_mut().enumerate() {
            if at % 32 == 0 {
                drawn = random.next_u64();
            }
            // Never nothing, so that boundaries are crossed; of two sizes, so that differences change as well.
            let share = [1.0, -1.0, 0.25, -0.25][(drawn & 3) as usize] * self.strength;
            drawn >>= 2;
            let mut vanishes = value.abs() < self.precision.vanishing();
            // So large a number is whole because it was rounded.
            let is_whole =
                value.fract() == 0.0 && f64::from(value.abs()) < 0.5 / self.precision.unit();
            if value.is_finite() && (is_rounded || !is_whole) {
                let moved = amount(at, f64::from(*value)) * share;
                let least = self.precision.least();
                let ends = is_rounded && *value != 0.0 && value.abs() < least;
                // Curves near zero may be zero in an engine, and so may averages of values that cancel.
                vanishes |= is_rounded && moved.abs() >= f64::from(value.abs());
                let moved = (f64::from(*value) + moved) as f32;
                // It may end in the least normal number as well, whose reciprocal is finite and large.
                *value = if ends && self.strength < 0.0 {
                    least.copysign(*value)
                } else if is_positive {
                    moved.abs()
                } else {
                    moved
                };
            }
            if vanishes && self.vanishing {
                *value = 0.0;
            }
            if self.precision == Precision::Half && value.abs() > HALF_MAX {
                *value = f32::INFINITY.copysign(*value);
            }
        }
    }
}

impl Operation<'_> {
    /// Sums of `terms` products of its first weights and values of each group of channels, and biases: at most the product
    /// of both sides' lengths.
    pub fn weighted_sums(&self, terms: usize, groups: u32, form: Form) -> Rounding {
        let values = self.input().data;
        let of_groups = values.chunks_exact(values.len() / groups as usize);
        let of_groups: Vec<f64> = of_groups.map(typical).collect();
        let bias = self.weights(1);
        let in_group = bias.len() / of_groups.len();
        let of_curve = if form == Form::Curve { 1.0 } else { 0.0 };
        let rows = self.weights(0).chunks_exact(terms).zip(bias);
        let size = |(channel, (row, bias)): (usize, (&[f32], &f32))| {
            let values = of_groups[channel / in_group];
            of_curve + f64::from(bias.abs()) + terms as f64 * typical(row) * values
        };
        Rounding {
            form,
            terms: terms as f64,
            sizes: rows.enumerate().map(size).collect(),
        }
    }
}

/// The root of the mean square of what is finite.
pub(crate) fn typical(values: &[f32]) -> f64 {
    let finite = values.iter().filter(|value| value.is_finite());
    let squares: f64 = finite.map(|&value| f64::from(value).powi(2)).sum();
    (squares / values.len().max(1) as f64).sqrt()
}
