//! From what a detector computes at each of its places to a bounded list of objects: what a score is, what a box is,
//! which of them count.
//!
//! Neither depends on how many objects there are, so that a device does the same work for every picture.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Most rows of a list of detections.
pub const DETECTIONS_MAX: u32 = 1000;
/// Most places of which detections are made.
pub const CANDIDATES_MAX: u32 = 2048;
/// Left, top, right, bottom, score, class.
pub const DETECTION_VALUES: u32 = 6;

/// Which classes of a place count, and what their scores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scoring {
    /// The first class that counts: 1 where class 0 is the background.
    pub first: u32,
    /// How many classes count, at least 1.
    pub classes: u32,
    /// Whether scores are logits, whose logistic function is taken. Otherwise they are probabilities.
    pub logits: bool,
}

impl Scoring {
    /// Whether all classes that count are among the first `classes` classes.
    #[must_use]
    pub fn fits(self, classes: u32) -> bool {
        let end = u64::from(self.first) + u64::from(self.classes);
        self.classes > 0 && end <= u64::from(classes)
    }

    /// A score in 0 to 1; 0 of what is no number.
    #[must_use]
    pub fn probability(self, value: f32) -> f32 {
        if !self.logits {
            clean(value)
        } else if value > f32::NEG_INFINITY {
            (1.0 / (1.0 + libm::exp(-f64::from(value)))) as f32
        } else {
            0.0
        }
    }
}

/// Clamped to 0 to 1; 0 of what is no number.
#[must_use]
#[inline(always)]
pub fn clean(score: f32) -> f32 {
    let positive = if score > 0.0 { score } else { 0.0 };
    if positive < 1.0 { positive } else { 1.0 }
}

/// What the four numbers of a box are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoxForm {
    /// Left, top, right, bottom.
    Corners,
    /// Left, top, width, height.
    CornerAndSize,
    /// The middle's x and y, width, height.
    CentreAndSize,
}

/// How detections are made of the candidates, which are the places with the best scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decoder {
    pub form: BoxForm,
    /// What 1 of a box's x and of its y is in pixels of the network's input.
    pub unit: [f32; 2],
    /// Columns and rows of the network's input, to which boxes are clipped.
    pub size: [u32; 2],
    /// A detection's score is above it: 0 to below 1.
    pub threshold: f32,
    /// Most detections: 1 to [`DETECTIONS_MAX`].
    pub rows: u32,
    /// How many places are candidates: 1 to [`CANDIDATES_MAX`], and no more than there are.
    pub candidates: u32,
    /// A box that overlaps a better one by more than this share of their union is left out: 0 to 1. None: all stay.
    pub overlap: Option<f32>,
    /// Whether only boxes of the same class are compared.
    pub by_class: bool,
    /// The mean of this number of the best scores is the confidence: 1 to the candidates.
    pub averaged: u32,
}

impl Decoder {
    /// What is out of range, if anything is, with its value and its bounds in words. `places` is how many there are.
    #[must_use]
    pub fn problem(&self, places: u64) -> Option<(&'static str, f64, &'static str)> {
        let whole = |what, value: u32, most: u64, bounds| {
            let fits = (1..=most).contains(&u64::from(value));
            (!fits).then_some((what, f64::from(value), bounds))
        };
        let figure = |what, value: f32, fits: bool, bounds| {
            (!fits).then_some((what, f64::from(value), bounds))
        };
        let candidates = u64::from(CANDIDATES_MAX).min(places);
        let unit = |unit: f32| figure("unit", unit, unit.is_normal() && unit > 0.0, "above 0");
        let side = |side: u32| whole("side of the picture", side, 1 << 20, "1 to 2^20");
        let threshold = self.threshold;
        let overlap = self.overlap.unwrap_or(0.0);
        whole("rows", self.rows, DETECTIONS_MAX.into(), "1 to 1000")
            .or(whole(
                "candidates",
                self.candidates,
                candidates,
                "1 to 2048, and at most the places",
            ))
            .or(whole(
                "scores of the confidence",
                self.averaged,
                self.candidates.into(),
                "1 to the candidates",
            ))
            .or(figure(
                "threshold",
                threshold,
                (0.0..1.0).contains(&threshold),
                "0 to below 1",
            ))
            .or(figure(
                "overlap",
                overlap,
                (0.0..=1.0).contains(&overlap),
                "0 to 1",
            ))
            .or(unit(self.unit[0]))
            .or(unit(self.unit[1]))
            .or(side(self.size[0]))
            .or(side(self.size[1]))
    }

    /// The corners of a box in pixels, clipped to the picture: left, top, right, bottom. `None` for what is no box: a
    /// number is not finite, or nothing of it lies in the picture.
    #[must_use]
    #[inline]
    pub fn corners(&self, [a, b, c, d]: [f32; 4]) -> Option<[f32; 4]> {
        let [left, top, right, bottom] = match self.form {
            BoxForm::Corners => [a, b, c, d],
            BoxForm::CornerAndSize => [a, b, a + c, b + d],
            BoxForm::CentreAndSize => [a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d],
        };
        let [x, y] = self.unit;
        let (left, top, right, bottom) = (left * x, top * y, right * x, bottom * y);
        let finite = [left, top, right, bottom].map(f32::is_finite) == [true; 4];
        let [width, height] = self.size.map(|side| side as f32);
        let corners = [
            left.max(0.0),
            top.max(0.0),
            right.min(width),
            bottom.min(height),
        ];
        let [left, top, right, bottom] = corners;
        (finite && left < right && top < bottom).then_some(corners)
    }
}

/// For people: what is listed.
impl fmt::Display for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rows,
            candidates,
            threshold,
            ..
        } = self;
        write!(
            f,
            "at most {rows} detections of {candidates} candidates, scores above {threshold}"
        )?;
        match (self.overlap, self.by_class) {
            (None, _) => Ok(()),
            (Some(overlap), true) => write!(f, ", overlap within a class at most {overlap}"),
            (Some(overlap), false) => write!(f, ", overlap at most {overlap}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder() -> Decoder {
        Decoder {
            form: BoxForm::Corners,
            unit: [1.0, 1.0],
            size: [100, 50],
            threshold: 0.5,
            rows: 10,
            candidates: 20,
            overlap: Some(0.5),
            by_class: true,
            averaged: 1,
        }
    }

    #[test]
    fn the_same_box_in_each_form() {
        let of = |form, numbers| Decoder { form, ..decoder() }.corners(numbers);
        let corners = Some([10.0, 20.0, 30.0, 26.0]);
        assert_eq!(of(BoxForm::Corners, [10.0, 20.0, 30.0, 26.0]), corners);
        assert_eq!(of(BoxForm::CornerAndSize, [10.0, 20.0, 20.0, 6.0]), corners);
        assert_eq!(of(BoxForm::CentreAndSize, [20.0, 23.0, 20.0, 6.0]), corners);
        let shares = Decoder {
            unit: [100.0, 50.0],
            ..decoder()
        };
        let whole = Some([0.0, 0.0, 100.0, 50.0]);
        assert_eq!(
            shares.corners([-1.0, 0.0, 1.0, 2.0]),
            whole,
            "it is clipped"
        );
    }

    #[test]
    fn what_is_no_box_has_no_corners() {
        for numbers in [
            [f32::NAN, 0.0, 1.0, 1.0],
            [0.0, 0.0, f32::INFINITY, 1.0],
            [0.0, f32::NEG_INFINITY, 1.0, 1.0],
            [5.0, 0.0, 5.0, 1.0],
            [6.0, 0.0, 5.0, 1.0],
            [101.0, 0.0, 102.0, 1.0],
            [0.0, -9.0, 1.0, -1.0],
        ] {
            assert_eq!(decoder().corners(numbers), None, "{numbers:?}");
        }
        let doubled = Decoder {
            unit: [2.0, 1.0],
            ..decoder()
        };
        assert_eq!(doubled.corners([0.0, 0.0, f32::MAX, 1.0]), None);
    }

    #[test]
    fn scores_are_probabilities() {
        let scoring = |logits| Scoring {
            first: 1,
            classes: 2,
            logits,
        };
        assert_eq!(
            [0.25, 2.0, -1.0, f32::NAN].map(clean),
            [0.25, 1.0, 0.0, 0.0]
        );
        assert_eq!(scoring(true).probability(0.0), 0.5);
        for nothing in [f32::NAN, f32::NEG_INFINITY] {
            assert_eq!(scoring(true).probability(nothing), 0.0);
        }
        assert!(scoring(true).fits(3) && !scoring(true).fits(2));
    }

    #[test]
    fn figures_out_of_range_are_named() {
        let with = |change: fn(&mut Decoder)| {
            let mut decoder = decoder();
            change(&mut decoder);
            decoder.problem(30).map(|(what, ..)| what)
        };
        assert_eq!(with(|_| ()), None);
        let text = decoder().to_string();
        let expected = "at most 10 detections of 20 candidates, scores above 0.5, overlap within a class at most 0.5";
        assert_eq!(text, expected);
        assert_eq!(with(|it| it.rows = 1001), Some("rows"));
        assert_eq!(with(|it| it.candidates = 31), Some("candidates"));
        assert_eq!(
            with(|it| it.averaged = 21),
            Some("scores of the confidence")
        );
        assert_eq!(with(|it| it.threshold = 1.0), Some("threshold"));
        assert_eq!(with(|it| it.threshold = f32::NAN), Some("threshold"));
        assert_eq!(with(|it| it.overlap = Some(1.5)), Some("overlap"));
        assert_eq!(with(|it| it.unit[1] = f32::INFINITY), Some("unit"));
        assert_eq!(with(|it| it.size[0] = 0), Some("side of the picture"));
    }
}
