//! Masks of classes: intersection over union of regions.

use std::collections::BTreeMap;

/// What a pixel of the truth has that belongs to no class: it does not count.
pub const IGNORED: u8 = 255;

/// How many pixels of each class truth and answers have, together and each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PixelCounts {
    classes: BTreeMap<u32, ClassPixels>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPixels {
    /// Where both have the class.
    pub both: u64,
    /// Where the truth has it.
    pub truth: u64,
    /// Where the answer has it.
    pub answer: u64,
}

impl ClassPixels {
    /// Intersection over union, 0 to 1; 0 where neither has the class.
    #[must_use]
    pub fn iou(&self) -> f64 {
        let union = self.truth + self.answer - self.both;
        self.both as f64 / union.max(1) as f64
    }
}

impl PixelCounts {
    /// Counts pixels given as their class in the truth and in the answer; those [`IGNORED`] by the truth do not count.
    #[must_use]
    pub fn of(pixels: impl IntoIterator<Item = (u8, u32)>) -> Self {
        let mut counts = Self::default();
        let counted = pixels.into_iter().filter(|(truth, _)| *truth != IGNORED);
        let mut counted = counted.peekable();
        while let Some(pixel) = counted.next() {
            // A region's pixels follow each other: one look-up for all of them.
            let mut run = 1;
            while counted.next_if_eq(&pixel).is_some() {
                run += 1;
            }
            let (truth, answer) = (u32::from(pixel.0), pixel.1);
            let of_truth = counts.classes.entry(truth).or_default();
            of_truth.truth += run;
            of_truth.both += if truth == answer { run } else { 0 };
            counts.classes.entry(answer).or_default().answer += run;
        }
        counts
    }

    /// Adds the pixels of another frame.
    pub fn add(&mut self, other: &Self) {
        for (&class, pixels) in &other.classes {
            let sum = self.classes.entry(class).or_default();
            sum.both += pixels.both;
            sum.truth += pixels.truth;
            sum.answer += pixels.answer;
        }
    }

    /// The classes that truth or answers have.
    pub fn classes(&self) -> impl Iterator<Item = (u32, ClassPixels)> + '_ {
        self.classes.iter().map(|(&class, &pixels)| (class, pixels))
    }

    /// The mean of [`ClassPixels::iou`] over the classes that truth or answers have; 1 if no pixel counts.
    #[must_use]
    pub fn mean_iou(&self) -> f64 {
        if self.classes.is_empty() {
            return 1.0;
        }
        let sum: f64 = self.classes.values().map(ClassPixels::iou).sum();
        sum / self.classes.len() as f64
    }

    /// The share of pixels whose class is right; 1 if no pixel counts.
    #[must_use]
    pub fn right(&self) -> f64 {
        let sum = |of: fn(&ClassPixels) -> u64| self.classes.values().map(of).sum::<u64>();
        match sum(|class| class.truth) {
            0 => 1.0,
            pixels => sum(|class| class.both) as f64 / pixels as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_as_good_as_its_intersection_over_union() {
        // Class 0: 2 of 3; class 1: 1 of 3; class 2 only in the answer.
        let pixels = [(0, 0), (0, 0), (0, 1), (1, 1), (1, 2), (IGNORED, 7)];
        let counts = PixelCounts::of(pixels);
        let ious: Vec<_> = counts
            .classes()
            .map(|(class, of)| (class, of.iou()))
            .collect();
        assert_eq!(ious, [(0, 2.0 / 3.0), (1, 1.0 / 3.0), (2, 0.0)]);
        assert!((counts.mean_iou() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(counts.right(), 3.0 / 5.0);
    }

    #[test]
    fn frames_add_up_by_pixels_and_not_by_frames() {
        let mut all = PixelCounts::of([(0, 0); 8]);
        all.add(&PixelCounts::of([(0, 1), (1, 1)]));
        let ious: Vec<_> = all.classes().map(|(_, of)| of.iou()).collect();
        assert_eq!(ious, [8.0 / 9.0, 1.0 / 2.0]);
    }

    #[test]
    fn where_nothing_counts_nothing_is_wrong() {
        let counts = PixelCounts::of([(IGNORED, 3)]);
        assert_eq!((counts.mean_iou(), counts.right()), (1.0, 1.0));
    }
}
