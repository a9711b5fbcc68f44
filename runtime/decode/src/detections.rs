//! A frame's detections, and how they are chosen out of candidates.

use std::ops::{Deref, DerefMut};

use crate::Detection;
use crate::suppression::{Candidate, Suppression};

/// Which of a network's candidates become detections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keep {
    /// Scores must be higher; 0 to 1.
    pub threshold: f32,
    /// How many of them go on at most.
    pub candidates: Candidates,
    /// Whether a place may be of several classes; otherwise only its best class is a candidate.
    pub several_classes: bool,
    pub suppression: Suppression,
    /// Most detections of a frame.
    pub limit: usize,
}

/// How many candidates go on to the suppression at most: the best of each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// As SSD does.
    OfEachClass(usize),
    /// As RetinaNet and FCOS do.
    OfEachLevel(usize),
}

impl Default for Keep {
    /// Scores above 0.25, the 1,000 best of each level, one class for each place, suppression per class at an overlap of 0.5, at most
    /// 100 detections.
    fn default() -> Self {
        Self {
            threshold: 0.25,
            candidates: Candidates::OfEachLevel(1000),
            several_classes: false,
            suppression: Suppression::PerClass { overlap: 0.5 },
            limit: 100,
        }
    }
}

/// The detections of one frame, the best first. To be reused from frame to frame: its memory is kept.
///
/// It dereferences to `[Detection]`.
#[derive(Clone, Debug, Default)]
pub struct Detections {
    found: Vec<Detection>,
    places: Vec<u32>,
    candidates: Vec<Candidate>,
}

impl Deref for Detections {
    type Target = [Detection];

    fn deref(&self) -> &[Detection] {
        &self.found
    }
}

impl DerefMut for Detections {
    fn deref_mut(&mut self) -> &mut [Detection] {
        &mut self.found
    }
}

impl Detections {
    /// For each detection, the number of its anchor, cell, query or row: where further tensors, such as the coefficients of
    /// masks, have its values. Cells and anchors of all levels are counted on.
    #[must_use]
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// Forgets the frame before.
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.places.clear();
        self.candidates.clear();
    }

    /// How many candidates there are: the start of a level's.
    pub(crate) fn candidates(&self) -> usize {
        self.candidates.len()
    }

    /// A candidate, unless its score or its rectangle is not finite.
    pub(crate) fn offer(&mut self, detection: Detection, place: usize) {
        let rect = &detection.rect;
        let sides = [rect.left, rect.top, rect.right, rect.bottom];
        if detection.score.is_finite() && sides.iter().all(|side| side.is_finite()) {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            self.candidates.push(Candidate { detection, place });
        }
    }

    /// Ends a level whose candidates are those from `start` on.
    pub(crate) fn end_level(&mut self, start: usize, keep: &Keep) {
        if let Candidates::OfEachLevel(most) = keep.candidates {
            self.best_since(start, most);
        }
    }

    /// Sorts the candidates from `start` on, and keeps the best `most` of them.
    pub(crate) fn best_since(&mut self, start: usize, most: usize) {
        self.candidates[start..].sort_by(Candidate::better);
        self.candidates.truncate(start.saturating_add(most));
    }

    /// Makes detections of all candidates.
    pub(crate) fn finish(&mut self, keep: &Keep) {
        if let Candidates::OfEachClass(most) = keep.candidates {
            self.best_of_each_class(most);
        }
        self.publish(keep.suppression, keep.limit);
    }

    /// Makes detections of all candidates, without a limit for their groups.
    pub(crate) fn publish(&mut self, suppression: Suppression, limit: usize) {
        self.candidates.sort_by(Candidate::better);
        suppression.apply(&mut self.candidates, limit);
        let candidates = self.candidates.iter();
        self.found.extend(candidates.clone().map(|it| it.detection));
        self.places.extend(candidates.map(|it| it.place));
    }

    fn best_of_each_class(&mut self, most: usize) {
        let class = |candidate: &Candidate| candidate.detection.class;
        self.candidates
            .sort_by(|one, other| class(one).cmp(&class(other)).then(one.better(other)));
        let (mut of, mut count) = (0, 0);
        self.candidates.retain(|candidate| {
            if class(candidate) != of {
                (of, count) = (class(candidate), 0);
            }
            count += 1;
            count <= most
        });
    }
}
