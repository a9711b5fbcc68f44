//! What a detector's places become.

use punctual_types::{Decoder, Scoring, clean};

use super::windows::Planar;

/// The best score of each pixel.
pub(super) fn best_score(scores: Planar, objectness: Option<&[f32]>, scoring: Scoring) -> Vec<f32> {
    let places = (scores.shape.height * scores.shape.width) as usize;
    let best = |place: usize| {
        let classes = scoring.first..scoring.first + scoring.classes;
        let values = classes.map(|class| scores.data[class as usize * places + place]);
        let best = values.fold(f32::NAN, f32::max);
        let factor = objectness.map_or(1.0, |values| scoring.probability(values[place]));
        scoring.probability(best) * factor
    };
    (0..places).map(best).collect()
}

/// What there is of each place.
pub(super) struct Places<'a> {
    pub best: &'a [f32],
    /// `[number][place]`.
    pub boxes: &'a [f32],
    /// `[class][place]`.
    pub scores: &'a [f32],
    pub scoring: Scoring,
}

struct Detection {
    corners: [f32; 4],
    score: f32,
    class: u32,
}

impl Places<'_> {
    /// The list as `[value][row]`, one row more for the count and the mean of the best scores.
    pub fn detections(&self, decoder: &Decoder) -> Vec<f32> {
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
