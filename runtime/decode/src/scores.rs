//! Scores of classes, in the two orders that heads give them in.

use crate::DecodeError;
use crate::error::{expect, expect_most, expect_some};

/// Classes are named by 16 bits.
const CLASSES_MAX: usize = 1 << 16;

/// In which order a head gives its values. A *place* is an anchor, a cell or a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Place after place, each with all of its values: (places, channels).
    #[default]
    Places,
    /// Channel after channel, each with all places: (channels, places) or (channels, rows, columns).
    Channels,
}

/// What makes scores of 0 to 1 out of the network's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// Over all classes of a place, background included.
    Softmax,
    /// The logistic function, each class by itself.
    #[default]
    Sigmoid,
    /// The network gives 0 to 1.
    None,
}

/// Values of all places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    values: &'a [f32],
    places: usize,
    channels: usize,
    layout: Layout,
}

impl<'a> Table<'a> {
    pub(crate) fn new(
        what: &'static str,
        values: &'a [f32],
        places: usize,
        channels: usize,
        layout: Layout,
    ) -> Result<Self, DecodeError> {
        expect(what, values, &[places, channels])?;
        Ok(Self {
            values,
            places,
            channels,
            layout,
        })
    }

    pub(crate) fn at(&self, place: usize, channel: usize) -> f32 {
        match self.layout {
            Layout::Places => self.values[place * self.channels + channel],
            Layout::Channels => self.values[channel * self.places + place],
        }
    }
}

/// Scores of all places: how they are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scores<'a> {
    table: Table<'a>,
    activation: Activation,
    background: Option<u16>,
    /// Below this no logit has a score that is high enough: for most of them the exponential is spared.
    floor: f32,
}

impl<'a> Scores<'a> {
    /// `background`: the class that means that there is nothing. Only scores above `threshold` matter.
    pub(crate) fn new(
        table: Table<'a>,
        activation: Activation,
        background: Option<u16>,
        threshold: f32,
    ) -> Self {
        let floor = match activation {
            // Less by more than rounding can be, which is much near 1. What is no number excludes nothing.
            Activation::Sigmoid if threshold < 0.999 => (threshold / (1.0 - threshold)).ln() - 0.01,
            _ => f32::NAN,
        };
        Self {
            table,
            activation,
            background,
            floor,
        }
    }

    /// Calls `take` with each class of a place, or with the best one only, and its score; perhaps without those below the
    /// threshold, and never with the background, nor with a score that is no number.
    pub(crate) fn each(&self, place: usize, best_only: bool, mut take: impl FnMut(u16, f32)) {
        let logits = (0..self.table.channels).map(|class| self.table.at(place, class));
        let (largest, sum) = match self.activation {
            Activation::Softmax => softmax_terms(logits.clone()),
            Activation::Sigmoid | Activation::None => (0.0, 1.0),
        };
        let mut best: Option<(u16, f32)> = None;
        for (class, logit) in (0_u16..=u16::MAX).zip(logits) {
            if logit < self.floor {
                continue;
            }
            let score = match self.activation {
                Activation::Softmax => (logit - largest).exp() / sum,
                Activation::Sigmoid => sigmoid(logit),
                Activation::None => logit,
            };
            if score.is_nan() || self.background == Some(class) {
                continue;
            }
            if !best_only {
                take(class, score);
            } else if best.is_none_or(|(_, so_far)| score > so_far) {
                best = Some((class, score));
            }
        }
        if let Some((class, score)) = best {
            take(class, score);
        }
    }
}

pub(crate) fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// The largest value, and the sum of all exponentials relative to it.
pub(crate) fn softmax_terms(logits: impl Iterator<Item = f32> + Clone) -> (f32, f32) {
    let largest = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    let sum = logits.map(|logit| (logit - largest).exp()).sum();
    (largest, sum)
}

/// Whether classes can be numbered.
pub(crate) fn check_classes(classes: usize) -> Result<(), DecodeError> {
    expect_some("the number of classes", classes)?;
    expect_most("the number of classes", classes, CLASSES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_spared_only_where_the_score_is_too_low() {
        let logits: Vec<f32> = (-40_000..40_000).map(|at| at as f32 / 2000.0).collect();
        for threshold in [
            -0.5,
            0.0,
            1e-6,
            0.05,
            0.5,
            0.9,
            0.998,
            0.9999,
            1.0,
            2.0,
            f32::NAN,
        ] {
            let table = Table::new("scores", &logits, logits.len(), 1, Layout::Places).unwrap();
            let scores = Scores::new(table, Activation::Sigmoid, None, threshold);
            let mut higher = 0;
            for place in 0..logits.len() {
                scores.each(place, false, |_, score| {
                    higher += usize::from(score > threshold);
                });
            }
            let all = logits.iter().filter(|logit| sigmoid(**logit) > threshold);
            assert_eq!(higher, all.count(), "{threshold}");
        }
    }

    #[test]
    fn the_best_class_is_the_first_of_the_highest_and_never_the_background() {
        let values = [9.0, f32::NAN, 2.0, 3.0, 3.0];
        let table = Table::new("scores", &values, 1, 5, Layout::Places).unwrap();
        let scores = Scores::new(table, Activation::None, Some(0), 0.0);
        let mut found = Vec::new();
        scores.each(0, true, |class, score| found.push((class, score)));
        assert_eq!(found, [(3, 3.0)]);
    }
}
