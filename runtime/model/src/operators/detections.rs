//! Bounded lists of objects.

use punctual_types::{DETECTION_VALUES, Decoder, Scoring, clean};
use serde::{Deserialize, Serialize};

use super::best_score::check_classes;
use super::meaning::{Meaning, Operands, Site};
use crate::reference::Operation;
use crate::reference::noise::{Form, Rounding};
use crate::{OperatorError, ShapeError, Tensor};

/// A bounded list of objects, of the pixels whose scores in the input, a vector, are the best. The result is a row of
/// pixels with the channels left, top, right, bottom (in pixels of the network's input), score and class, the best score
/// first. Those behind the last object are zero. One pixel more has their count and the mean of the best scores. Devices do
/// the same work whatever the values are.
///
/// Its other operands: boxes, of four channels, and scores, of one a class, both with as many pixels as the input has
/// features.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detections {
    pub scoring: Scoring,
    pub decoder: Decoder,
}

impl Meaning for Detections {
    fn label(&self, _input: Tensor) -> String {
        "detections".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let &[boxes, scores] = of.others else {
            return Err(of.not(2));
        };
        let places = of.input;
        let of_places = |tensor: Tensor| tensor.pixels() == u64::from(places.channels);
        let wrong = |other| Err(ShapeError::Places { places, other });
        if places != Tensor::features(places.channels) {
            return wrong(places);
        }
        if boxes.channels != 4 || !of_places(boxes) {
            return wrong(boxes);
        }
        if !of_places(scores) {
            return wrong(scores);
        }
        check_classes(scores, self.scoring)?;
        let columns = self.decoder.rows.saturating_add(1);
        Ok(Tensor::of_sides([DETECTION_VALUES, 1, columns]))
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        site.has_floats()?;
        match self.decoder.problem(u64::from(site.input().channels)) {
            Some((what, value, bounds)) => Err(OperatorError::Decoder {
                what,
                value,
                bounds,
            }),
            None => Ok(()),
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let mut others = of.others().map(|other| other.data);
        let [boxes, scores] = [others.next(), others.next()].map(|each| each.expect("two"));
        let places = Places {
            best: of.input().data,
            boxes,
            scores,
            scoring: self.scoring,
        };
        places.detections(&self.decoder)
    }

    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::once(Form::Plain, 0.0)
    }
}

/// What there is of each place.
struct Places<'a> {
    best: &'a [f32],
    /// `[number][place]`.
    boxes: &'a [f32],
    /// `[class][place]`.
    scores: &'a [f32],
    scoring: Scoring,
}

struct Detection {
    corners: [f32; 4],
    score: f32,
    class: u32,
}

impl Places<'_> {
    /// The list as `[value][row]`, one row more for the count and the mean of the best scores.
    fn detections(&self, decoder: &Decoder) -> Vec<f32> {
        let score = |place: usize| clean(self.best[place]);
        let mut candidates: Vec<usize> = (0..self.best.len()).collect();
        candidates.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
        candidates.truncate(decoder.candidates as usize);
        let mut kept: Vec<Detection> = Vec::new();
        for &place in &candidates {
            let found = self.detection(place, decoder);
            let found = found.filter(|found| found.score > decoder.threshold);
            let overlaps = |other: &Detection, found: &Detection| {
                let compared = !decoder.by_class || other.class == found.class;
                compared
                    && decoder
                        .overlap
                        .is_some_and(|most| other.overlaps(found, most))
            };
            kept.extend(found.filter(|found| !kept.iter().any(|other| overlaps(other, found))));
        }
        kept.truncate(decoder.rows as usize);
        let averaged = &candidates[..decoder.averaged as usize];
        let sum: f32 = averaged.iter().map(|&place| score(place)).sum();
        let columns = decoder.rows as usize + 1;
        let mut list = vec![0.0; 6 * columns];
        for (row, found) in kept.iter().enumerate() {
            let values = found
                .corners
                .into_iter()
                .chain([found.score, found.class as f32]);
            for (at, value) in values.enumerate() {
                list[at * columns + row] = value;
            }
        }
        list[columns - 1] = kept.len() as f32;
        list[2 * columns - 1] = clean(sum / decoder.averaged as f32);
        list
    }

    /// What is at a place; nothing if its box is none.
    fn detection(&self, place: usize, decoder: &Decoder) -> Option<Detection> {
        let places = self.best.len();
        let corners = decoder.corners([0, 1, 2, 3].map(|at| self.boxes[at * places + place]))?;
        let (mut class, mut best) = (self.scoring.first, f32::NEG_INFINITY);
        for other in self.scoring.first..self.scoring.first + self.scoring.classes {
            let value = self.scores[other as usize * places + place];
            if value > best {
                (class, best) = (other, value);
            }
        }
        Some(Detection {
            corners,
            score: clean(self.best[place]),
            class,
        })
    }
}

impl Detection {
    /// Whether what both have in common is more than this share of their union.
    fn overlaps(&self, other: &Self, most: f32) -> bool {
        let area = |[left, top, right, bottom]: [f32; 4]| (right - left) * (bottom - top);
        let ([left, top, right, bottom], of) = (self.corners, other.corners);
        let width = (right.min(of[2]) - left.max(of[0])).max(0.0);
        let height = (bottom.min(of[3]) - top.max(of[1])).max(0.0);
        let common = width * height;
        common > most * (area(self.corners) + area(of) - common)
    }
}
