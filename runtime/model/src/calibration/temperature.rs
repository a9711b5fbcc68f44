//! Temperature scaling: scores divided by one number an exit, so that confidence means what it says
//! (Guo et al., 2017, section 4.2). It changes no answer, only how sure it is.
//!
//! The division costs nothing when running: it is folded into the weights of the exit's last layer.

use std::collections::BTreeSet;

use punctual_types::Activation;
use thiserror::Error;

use crate::{Network, Operator, OperatorKind, ScoreForm, TensorId, WeightRange};

/// Temperatures are sought between these: beyond, confidence is 0 or 1 whatever the scores.
pub const TEMPERATURE_MIN: f64 = 0.05;
/// See [`TEMPERATURE_MIN`].
pub const TEMPERATURE_MAX: f64 = 20.0;

/// One sample's scores at an exit, and its class.
#[derive(Clone, Copy, Debug)]
pub struct Labelled<'a> {
    /// Before softmax, one a class.
    pub scores: &'a [f32],
    pub label: usize,
}

/// Why an exit's scores cannot be divided.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TemperatureError {
    /// The exit's last operator has no weights to fold it into.
    #[error(
        "exit {exit} ends with `{operator}`, which has no weights or an activation behind them: \
         a temperature cannot be folded into it"
    )]
    NoWeights { exit: usize, operator: String },
    /// The exit's confidence is no softmax of scores that its stage computes.
    #[error("exit {exit} has no confidence that is a softmax of its scores: it has no temperature")]
    NoSoftmax { exit: usize },
    #[error("temperature {0} is not between {TEMPERATURE_MIN} and {TEMPERATURE_MAX}")]
    Range(f64),
}

/// The temperature that makes the right classes most likely: the least mean negative logarithm of
/// their probability. That is a convex function of `1 / T`, so it has one minimum; 1 without samples.
///
/// # Panics
/// If a label is not a class.
#[must_use]
pub fn fit_temperature(samples: &[Labelled<'_>]) -> f64 {
    if samples.is_empty() {
        return 1.0;
    }
    // Golden-section search over ln T.
    let ratio = (5_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (TEMPERATURE_MIN.ln(), TEMPERATURE_MAX.ln());
    let loss = |ln: f64| mean_loss(samples, ln.exp());
    let inner = |low: f64, high: f64| (high - ratio * (high - low), low + ratio * (high - low));
    let (mut left, mut right) = inner(low, high);
    let (mut at_left, mut at_right) = (loss(left), loss(right));
    while high - low > 1e-4 {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = inner(low, high).0;
            at_left = loss(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = inner(low, high).1;
            at_right = loss(right);
        }
    }
    ((low + high) / 2.0).exp()
}

/// Mean negative logarithm of the right class's probability.
fn mean_loss(samples: &[Labelled<'_>], temperature: f64) -> f64 {
    let loss = |sample: &Labelled<'_>| {
        let scaled = |&score: &f32| f64::from(score) / temperature;
        let largest = sample.scores.iter().map(scaled).fold(f64::MIN, f64::max);
        let sum: f64 = sample
            .scores
            .iter()
            .map(|s| (scaled(s) - largest).exp())
            .sum();
        largest + sum.ln() - scaled(&sample.scores[sample.label])
    };
    samples.iter().map(loss).sum::<f64>() / samples.len() as f64
}

impl Network {
    /// Divides an exit's scores by `temperature`, in the weights of the operator that makes them. What a client reads of
    /// them is divided, too.
    ///
    /// # Panics
    /// If there is no such exit.
    pub fn divide_scores(&mut self, exit: usize, temperature: f64) -> Result<(), TemperatureError> {
        if !(TEMPERATURE_MIN..=TEMPERATURE_MAX).contains(&temperature) {
            return Err(TemperatureError::Range(temperature));
        }
        let (stage, answer) = self.exits().nth(exit).expect("there is such an exit");
        let scores = answer
            .scores
            .filter(|scores| scores.form == ScoreForm::Softmax);
        let operator = scores.and_then(|scores| {
            let mut operators = stage.operators.iter();
            operators.find(|operator| operator.output == scores.tensor)
        });
        let Some(operator) = operator else {
            return Err(TemperatureError::NoSoftmax { exit });
        };
        let plain = match operator.kind {
            OperatorKind::Linear(_) | OperatorKind::Conv2d(_) => {
                operator.others.is_empty() && operator.kind.activation() == Some(Activation::None)
            }
            _ => false,
        };
        let read_elsewhere = stage
            .operators
            .iter()
            .any(|other| other.reads().any(|id| id == operator.output))
            || stage.outputs.contains(&operator.output);
        if !plain || read_elsewhere {
            return Err(TemperatureError::NoWeights {
                exit,
                operator: operator.name.clone(),
            });
        }
        let output = operator.output;
        for range in self.own_weights(output) {
            for weight in &mut self.weights.to_mut()[range.start as usize..][..range.len as usize] {
                *weight = (f64::from(*weight) / temperature) as f32;
            }
        }
        Ok(())
    }

    /// The weights of the operator that writes a tensor, which are floats, as ranges that no other operator has: copied, if
    /// they are shared.
    fn own_weights(&mut self, output: TensorId) -> Vec<WeightRange> {
        let operators = self.stages.iter().flat_map(|stage| &stage.operators);
        let others = operators.filter(|operator| operator.output != output);
        let mut shared: BTreeSet<WeightRange> =
            others.flat_map(Operator::floats).copied().collect();
        let mut stages = self.stages.iter_mut();
        let operator = stages.find_map(|stage| {
            let mut operators = stage.operators.iter_mut();
            operators.find(|operator| operator.output == output)
        });
        let operator = operator.expect("somebody writes it");
        for range in &mut operator.weights {
            if shared.iter().any(|other| other.overlaps(*range)) {
                let weights = self.weights.to_mut();
                let start = weights.len() as u32;
                weights
                    .extend_from_within(range.start as usize..(range.start + range.len) as usize);
                range.start = start;
            }
            // Its own lists may be equal as well.
            shared.insert(*range);
        }
        operator.weights.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two classes whose scores differ by `margin`; three of four are right.
    fn samples(margin: f32) -> Vec<([f32; 2], usize)> {
        (0..400)
            .map(|i| ([margin, 0.0], usize::from(i % 4 == 0)))
            .collect()
    }

    fn fitted(samples: &[([f32; 2], usize)]) -> f64 {
        let labelled: Vec<_> = samples
            .iter()
            .map(|(scores, label)| Labelled {
                scores,
                label: *label,
            })
            .collect();
        fit_temperature(&labelled)
    }

    #[test]
    fn the_fitted_temperature_makes_confidence_equal_accuracy() {
        for margin in [0.3, 1.0, 3.0, 9.0] {
            let temperature = fitted(&samples(margin));
            let confidence = 1.0 / (1.0 + (-f64::from(margin) / temperature).exp());
            assert!((confidence - 0.75).abs() < 1e-3, "{margin}: {temperature}");
        }
    }

    #[test]
    fn answers_that_are_always_right_or_always_wrong_end_at_the_bounds() {
        let right: Vec<_> = (0..10).map(|_| ([1.0, 0.0], 0)).collect();
        assert!((fitted(&right) - TEMPERATURE_MIN).abs() < 1e-3);
        let wrong: Vec<_> = (0..10).map(|_| ([1.0, 0.0], 1)).collect();
        assert!((fitted(&wrong) - TEMPERATURE_MAX).abs() < 1e-1);
        assert_eq!(fit_temperature(&[]), 1.0);
    }
}
