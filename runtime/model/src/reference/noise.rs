//! What an engine's arithmetic may do to the results of operators: roundings, sums made in another order.
//!
//! Each value is moved up or down by about as much as an engine may be wrong. Whole numbers stay: counts, positions and
//! masks, which every engine has exactly; but not those that a curve ends in, as a sigmoid does in 1, nor averages. Operators
//! that move values, or that give bytes, are exact as well.

use punctual_types::{
    Activation, BinaryFunction, Filter, PoolKind, Random, Resampling, UnaryFunction,
};

use super::Operation;
use super::agreement::{HALF_MAX, Precision, SINGLE_UNIT};
use super::windows::Planar;
use crate::{OperatorKind, TensorId, WeightRange};

/// Noise of one run. The same seed and the strength with the other sign move each value the other way: a boundary that the
/// noise of a value can cross is crossed by one of both runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    pub precision: Precision,
    pub seed: u64,
    /// How many times as much as an engine may be wrong by; negative for the other way.
    pub strength: f64,
    /// Whether values that an engine may round to zero are zero. Not in each run: such a value never gets the other sign.
    pub vanishing: bool,
}

/// The sums that an operator's values are made of.
struct Sums {
    /// Terms of each.
    terms: f64,
    /// About the sum of the terms' absolute values: one for each channel of the result, or one for all.
    sizes: Vec<f64>,
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
    pub fn disturb(&self, operation: &Operation, result: &mut [f32]) {
        if operation.is_exact() {
            return;
        }
        let sums = operation.sums(result);
        let each = result.len() / sums.sizes.len();
        // Weights that are kept in halves are wrong by a unit each, independently.
        let of_weights = match self.precision {
            Precision::Single => 0.0,
            Precision::Half => self.precision.unit() / sums.terms.sqrt(),
        };
        let stored = self.precision.unit() + 4.0 * SINGLE_UNIT;
        let is_of_fractions = operation.is_of_fractions();
        let is_rounded = operation.is_curve() || operation.is_average() || is_of_fractions;
        self.displace(
            operation.operator.output,
            result,
            is_rounded,
            |at, value| {
                // What is clipped, or a sum of nothing but zeros, is nothing in every engine.
                if is_of_fractions && value == 0.0 {
                    return 0.0;
                }
                let (value, size) = (value.abs(), sums.sizes[at / each]);
                let of_sums = SINGLE_UNIT * (sums.terms.sqrt() * value + size);
                stored * value + of_sums + of_weights * size
            },
        );
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
    /// Whether every engine has the same results of the same values.
    fn is_exact(&self) -> bool {
        let moves = matches!(
            self.operator.kind,
            OperatorKind::Gather { .. }
                | OperatorKind::Copy { .. }
                | OperatorKind::Token { .. }
                | OperatorKind::TopK { .. }
                | OperatorKind::Take { .. }
                | OperatorKind::Pool {
                    kind: PoolKind::Max,
                    ..
                }
                | OperatorKind::Resize {
                    resampling: Resampling {
                        filter: Filter::Nearest(_),
                        ..
                    },
                    ..
                }
        );
        moves || self.quantisation(self.operator.output).is_some()
    }

    /// Whether the values are weighted means, whose weights are rounded.
    fn is_average(&self) -> bool {
        matches!(
            self.operator.kind,
            OperatorKind::Pool { .. }
                | OperatorKind::GlobalAveragePool
                | OperatorKind::Resize { .. }
                | OperatorKind::GridSample { .. }
        )
    }

    /// Whether the values are sums of products with fractions, as means over channels are, and nothing else.
    fn is_of_fractions(&self) -> bool {
        match self.operator.kind {
            _ if self.is_curve() => false,
            OperatorKind::Conv2d { weights, .. } | OperatorKind::Linear { weights, .. } => {
                let weights = self.weights(weights);
                weights.iter().any(|weight| weight.fract() != 0.0)
            }
            _ => false,
        }
    }

    /// Whether the values are of a curve that an engine may compute in another way.
    fn is_curve(&self) -> bool {
        match &self.operator.kind {
            OperatorKind::Unary { function } => !matches!(
                function,
                UnaryFunction::Absolute
                    | UnaryFunction::Sign
                    | UnaryFunction::Floor
                    | UnaryFunction::Ceiling
                    | UnaryFunction::Round
                    | UnaryFunction::Truncate
            ),
            OperatorKind::Softmax { .. }
            | OperatorKind::LayerNorm { .. }
            | OperatorKind::Recurrent { .. } => true,
            OperatorKind::Conv2d { activation, .. }
            | OperatorKind::Linear { activation, .. }
            | OperatorKind::Add { activation, .. }
            | OperatorKind::Multiply { activation, .. }
            | OperatorKind::Binary { activation, .. } => !activation.is_clip(),
            _ => false,
        }
    }

    fn sums(&self, result: &[f32]) -> Sums {
        let input = self.input();
        let of_all = |terms: usize, size: f64| Sums {
            terms: terms as f64,
            sizes: vec![size],
        };
        let length = |id: TensorId| typical(self.planar(id).data);
        let own = typical(result);
        match &self.operator.kind {
            &OperatorKind::Conv2d {
                weights,
                bias,
                window,
                groups,
                ..
            } => {
                let inputs = (input.shape.channels / groups) as usize;
                self.weighted_sums(weights, bias, inputs * window.kernel.area(), groups)
            }
            &OperatorKind::Linear { weights, bias, .. } => {
                self.weighted_sums(weights, bias, input.data.len(), 1)
            }
            OperatorKind::Pool { kernel, .. } => of_all(kernel.area(), typical(input.data)),
            OperatorKind::GlobalAveragePool => {
                let pixels = input.shape.height * input.shape.width;
                of_all(pixels as usize, typical(input.data))
            }
            &OperatorKind::LayerNorm { scale, epsilon, .. } => {
                let factor = typical(self.weights(scale)) * steepest(&input, epsilon);
                of_all(input.shape.channels as usize, 4.0 * own + factor)
            }
            OperatorKind::Attention {
                others,
                heads,
                scale,
                ..
            } => {
                let terms = (input.shape.channels / heads) as usize;
                let products = f64::from(scale.abs()) * terms as f64;
                let products = products * typical(input.data) * length(others[0]);
                let keys = self.network.tensors[others[0].index()];
                of_all(
                    (keys.height * keys.width) as usize,
                    (4.0 + products) * length(others[1]),
                )
            }
            &OperatorKind::Product { other } => {
                let terms = input.shape.channels as usize;
                of_all(terms, terms as f64 * typical(input.data) * length(other))
            }
            OperatorKind::Recurrent { .. } => {
                let steps = self.output().width as usize;
                let terms = self.output().channels as usize * steps;
                // Its curves are as wrong as others.
                of_all(terms, 4.0 * (steps as f64).sqrt() * own.max(1.0))
            }
            OperatorKind::Resize { .. } | OperatorKind::GridSample { .. } => {
                of_all(4, typical(input.data))
            }
            OperatorKind::Unary { .. } if self.is_curve() => of_all(1, own.max(1.0)),
            OperatorKind::Softmax { .. } => {
                // An exponential is as wrong as its argument, which is rounded.
                let finite = input.data.iter().copied().filter(|value| value.is_finite());
                let largest = finite.fold(0.0, |most: f32, value| most.max(value.abs()));
                let terms = (2.0 * largest).powi(2).min(1e6);
                of_all(1 + terms as usize, own)
            }
            OperatorKind::Unary { .. } | OperatorKind::BestScore { .. } => of_all(1, own),
            // A value that is rounded once, unless a curve follows.
            OperatorKind::Binary {
                function: BinaryFunction::Power,
                ..
            } => of_all(1, own),
            OperatorKind::Add { activation, .. }
            | OperatorKind::Multiply { activation, .. }
            | OperatorKind::Binary { activation, .. } => of_all(1, curved(*activation, own)),
            _ => of_all(1, 0.0),
        }
    }

    /// Sums of `terms` products of weights and values of each group of channels: at most the product of both sides' lengths.
    fn weighted_sums(
        &self,
        weights: WeightRange,
        bias: WeightRange,
        terms: usize,
        groups: u32,
    ) -> Sums {
        let values = self.input().data;
        let of_groups = values.chunks_exact(values.len() / groups as usize);
        let of_groups: Vec<f64> = of_groups.map(typical).collect();
        let bias = self.weights(bias);
        let in_group = bias.len() / of_groups.len();
        let of_curve = if self.is_curve() { 1.0 } else { 0.0 };
        let rows = self.weights(weights).chunks_exact(terms).zip(bias);
        let size = |(channel, (row, bias)): (usize, (&[f32], &f32))| {
            let values = of_groups[channel / in_group];
            of_curve + f64::from(bias.abs()) + terms as f64 * typical(row) * values
        };
        Sums {
            terms: terms as f64,
            sizes: rows.enumerate().map(size).collect(),
        }
    }
}

/// The error of curves that are made of exponentials is in relation to 1, near 0 as well.
fn curved(activation: Activation, own: f64) -> f64 {
    if activation.is_clip() {
        0.0
    } else {
        own.max(1.0)
    }
}

/// The largest share that a pixel's values have of their own deviation: what a normalisation makes of a rounded mean is as
/// many times as large. Of equal values it takes the differences that rounding makes.
fn steepest(input: &Planar<'_>, epsilon: f32) -> f64 {
    let pixels = (input.shape.height * input.shape.width) as usize;
    let channels = f64::from(input.shape.channels);
    let share = |pixel: usize| {
        let values = || input.data.iter().skip(pixel).step_by(pixels);
        let mean = values().copied().map(f64::from).sum::<f64>() / channels;
        let squares = |from: f64| values().map(move |&v| (f64::from(v) - from).powi(2));
        let variance = squares(mean).sum::<f64>() / channels;
        let size = (squares(0.0).sum::<f64>() / channels).sqrt();
        size / (variance + f64::from(epsilon)).sqrt()
    };
    let finite = (0..pixels).map(share).filter(|share| share.is_finite());
    finite.fold(0.0, f64::max)
}

/// The root of the mean square of what is finite.
fn typical(values: &[f32]) -> f64 {
    let finite = values.iter().filter(|value| value.is_finite());
    let squares: f64 = finite.map(|&value| f64::from(value).powi(2)).sum();
    (squares / values.len().max(1) as f64).sqrt()
}
