//! Which pixels of an image a grid samples, as ONNX and onnxruntime define it.

use serde::{Deserialize, Serialize};

/// How computed positions become pixels. A position goes from -1 at one edge of the image to 1 at the other, or from
/// the centre of the first pixel to that of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    pub interpolation: Interpolation,
    pub outside: Outside,
    /// Whether -1 and 1 are the centres of the outer pixels rather than the image's edges.
    pub align_corners: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Interpolation {
    /// The pixel at the rounded position; halves to the even one.
    Nearest,
    /// The two neighbours in each direction, weighted by how near they are.
    Linear,
}

/// What is sampled outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outside {
    Zeros,
    /// The nearest pixel of the image.
    Border,
    /// The image reflected at its edges, or at the centres of its outer pixels if these are -1 and 1.
    Reflection,
}

/// Two neighbouring rows or columns of an image, both inside of it, and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taps {
    pub first: u32,
    pub second: u32,
    /// 0 for what lies outside. Both are NaN at a NaN position.
    pub weights: [f32; 2],
}

/// A position so far outside that it may stand for infinity, and small enough to stay finite on any image.
const FAR: f32 = 1e30;

impl Sampling {
    /// The rows or columns at a position, of an image of `size`, at least 1 and at most 2^20. For the nearest pixel
    /// only the first counts.
    ///
    /// Any position is safe: an infinite one is far outside, and at a NaN the weights are NaN.
    #[must_use]
    #[inline(always)]
    pub fn taps(&self, position: f32, size: u32) -> Taps {
        let length = size as f32;
        let last = length - 1.0;
        // A NaN passes each clamp unchanged.
        let position = position.clamp(-FAR, FAR);
        // In f32 and in this order, as onnxruntime computes it: rounding decides which pixel is nearest.
        let mut place = if self.align_corners {
            (position + 1.0) / 2.0 * last
        } else {
            ((position + 1.0) * length - 1.0) / 2.0
        };
        if self.interpolation == Interpolation::Nearest {
            place = place.round_ties_even();
        }
        place = match self.outside {
            Outside::Zeros => place.clamp(-2.0, length + 1.0),
            Outside::Border => place.clamp(0.0, last),
            Outside::Reflection => self.reflected(place, length).clamp(0.0, last),
        };
        let floor = place.floor();
        let share = place - floor;
        let inside = |at: f32, weight: f32| if at < 0.0 || at > last { 0.0 } else { weight };
        // A cast of a float saturates, and turns a NaN into 0.
        Taps {
            first: (floor as u32).min(size - 1),
            second: ((floor + 1.0) as u32).min(size - 1),
            weights: [inside(floor, 1.0 - share), inside(floor + 1.0, share)],
        }
    }

    /// The place inside of the image that `place` falls on when the image is reflected, again and again.
    #[inline(always)]
    fn reflected(&self, place: f32, length: f32) -> f32 {
        let (low, high) = if self.align_corners {
            (0.0, length - 1.0)
        } else {
            (-0.5, length - 0.5)
        };
        if (low..=high).contains(&place) || place.is_nan() {
            return place;
        }
        if high <= low {
            return low;
        }
        let over = (low - place).max(place - high);
        let turns = (over / (high - low)).trunc();
        let rest = over - turns * (high - low);
        let is_odd = (turns / 2.0).floor() * 2.0 != turns;
        if (place < low) != is_odd {
            low + rest
        } else {
            high - rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(interpolation: Interpolation, outside: Outside, align_corners: bool) -> Sampling {
        Sampling {
            interpolation,
            outside,
            align_corners,
        }
    }

    /// The place that the taps blend, where none of them is outside.
    fn place(sampling: Sampling, position: f32, size: u32) -> f32 {
        let taps = sampling.taps(position, size);
        taps.first as f32 * taps.weights[0] + taps.second as f32 * taps.weights[1]
    }

    #[test]
    fn corners_are_edges_or_centres() {
        let linear = |align| sampling(Interpolation::Linear, Outside::Zeros, align);
        assert_eq!(place(linear(true), -1.0, 5), 0.0);
        assert_eq!(place(linear(true), 1.0, 5), 4.0);
        assert_eq!(place(linear(true), 0.25, 5), 2.5);
        // Half of the outer pixel lies at the edge, and half of what is outside.
        assert_eq!(linear(false).taps(-1.0, 5).weights, [0.0, 0.5]);
        assert_eq!(linear(false).taps(1.0, 5).weights, [0.5, 0.0]);
        assert_eq!(place(linear(false), 0.0, 5), 2.0);
    }

    #[test]
    fn what_is_outside_is_nothing_the_border_or_a_mirror() {
        let at = |outside, align, position| {
            place(sampling(Interpolation::Linear, outside, align), position, 5)
        };
        assert_eq!(at(Outside::Zeros, true, 1.5), 0.0);
        assert_eq!(at(Outside::Border, true, 1.5), 4.0);
        assert_eq!(at(Outside::Border, false, -7.0), 0.0);
        // 5 is reflected at 4 in one way, and at 4.5 in the other.
        assert_eq!(at(Outside::Reflection, true, 1.5), 3.0);
        assert_eq!(at(Outside::Reflection, false, 1.2), 4.0);
        // Two widths away it is the image again.
        for position in [-4.4, -3.6, -0.4, 0.4, 3.6, 4.4, 8.4] {
            let turned = at(Outside::Reflection, false, position + 4.0);
            let found = at(Outside::Reflection, false, position);
            assert!(
                (turned - found).abs() < 1e-5,
                "{position}: {turned} {found}"
            );
        }
    }

    #[test]
    fn the_nearest_of_halves_is_the_even_one() {
        let nearest = sampling(Interpolation::Nearest, Outside::Zeros, true);
        let at = |position| nearest.taps(position, 5);
        assert_eq!((at(0.25).first, at(0.25).weights), (2, [1.0, 0.0]));
        assert_eq!((at(0.75).first, at(0.75).weights), (4, [1.0, 0.0]));
        assert_eq!(at(-1.25).weights[0], 1.0, "-0.5 is 0");
        assert_eq!(at(-1.3).weights[0], 0.0);
    }

    #[test]
    fn no_position_leaves_the_image() {
        let hostile = [
            0.0,
            1.0,
            -1.0,
            1e30,
            -1e30,
            f32::MAX,
            f32::MIN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            f32::MIN_POSITIVE,
            1.000_000_1,
        ];
        for interpolation in [Interpolation::Nearest, Interpolation::Linear] {
            for outside in [Outside::Zeros, Outside::Border, Outside::Reflection] {
                for align in [false, true] {
                    let sampling = sampling(interpolation, outside, align);
                    for size in [1, 2, 3, 1 << 20] {
                        for position in hostile {
                            let taps = sampling.taps(position, size);
                            assert!(taps.first < size && taps.second < size);
                            let no_number = position.is_nan();
                            let sum = taps.weights[0] + taps.weights[1];
                            let what = format!("{sampling:?} {position} of {size}: {taps:?}");
                            assert_eq!(sum.is_nan(), no_number, "{what}");
                            assert!(no_number || (0.0..=1.0001).contains(&sum), "{what}");
                        }
                    }
                }
            }
        }
    }
}
