//! Heads with anchors: SSD, RetinaNet and their descendants.
//!
//! A box is coded relative to its anchor: the centre moves by `code / weight` of the anchor's sides, and the sides grow by
//! `exp(code / weight)`. Sources: SSD (Liu et al., 2016), RetinaNet (Lin et al., 2017); the same as torchvision's
//! `postprocess_detections`.

use punctual_types::Size;

use crate::detections::{Detections, Keep};
use crate::error::{expect_count, expect_input, expect_most};
use crate::scores::{Activation, Layout, Scores, Table, check_classes};
use crate::{DecodeError, Detection, Rect};

/// Most anchors of a network: more than any has.
const ANCHORS_MAX: usize = 1 << 24;

/// The rectangles that a network's boxes are relative to, in the order of its places: level after level, row after row, column
/// after column, all anchors of a cell together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Anchors {
    rects: Vec<Rect>,
    /// How many anchors the levels have.
    levels: Vec<usize>,
}

/// Anchors as SSD has them (torchvision's `DefaultBoxGenerator`): sides relative to the input's.
#[derive(Clone, Copy, Debug)]
pub struct DefaultBoxes<'a> {
    /// The network's input.
    pub input: Size,
    /// The feature maps, the finest first.
    pub maps: &'a [Size],
    /// Of each map: ratios of width to height, without 1. Each stands for itself and its inverse.
    pub aspect_ratios: &'a [&'a [f64]],
    /// The side of each map's anchors relative to the input's, and one more.
    pub scales: &'a [f64],
    /// Pixels of the input from one cell to the next; none: the input's side divided by the map's.
    pub steps: Option<&'a [f64]>,
    /// Whether sides are limited to the input's.
    pub clip: bool,
}

/// Anchors as RetinaNet has them (torchvision's `AnchorGenerator`): sides in pixels, rounded.
#[derive(Clone, Copy, Debug)]
pub struct GridAnchors<'a> {
    /// The network's input.
    pub input: Size,
    /// The feature maps, the finest first.
    pub maps: &'a [Size],
    /// Of each map: sides in pixels.
    pub sizes: &'a [&'a [f64]],
    /// Ratios of height to width, of all maps.
    pub aspect_ratios: &'a [f64],
}

/// A head whose boxes are relative to anchors.
#[derive(Clone, Copy, Debug)]
pub struct AnchorHead<'a> {
    pub anchors: &'a Anchors,
    /// With the background.
    pub classes: usize,
    /// What codes of x, y, width and height are divided by: [`Self::SSD_WEIGHTS`], or 1.
    pub weights: [f32; 4],
    pub activation: Activation,
    /// The class that means that nothing is there: 0 of SSD, none of RetinaNet.
    pub background: Option<u16>,
    /// The order of both tensors' values.
    pub layout: Layout,
    /// The network's input, to which boxes are clipped.
    pub input: Size,
    pub keep: Keep,
}

impl Anchors {
    /// Any anchors, with the number of each level's.
    ///
    /// # Errors
    /// If the levels have more or fewer anchors than there are.
    pub fn new(rects: Vec<Rect>, levels: Vec<usize>) -> Result<Self, DecodeError> {
        let of_levels = levels.iter().fold(0_usize, |sum, n| sum.saturating_add(*n));
        expect_count("the levels' anchors", of_levels, rects.len())?;
        Ok(Self { rects, levels })
    }

    #[must_use]
    pub fn rects(&self) -> &[Rect] {
        &self.rects
    }

    /// Adds a level: of each cell the rectangles that `of_cell` gives for its column and row.
    fn add_level(
        &mut self,
        map: Size,
        in_cell: usize,
        mut of_cell: impl FnMut(f32, f32, &mut Vec<Rect>),
    ) -> Result<(), DecodeError> {
        let cells = (map.width as usize).saturating_mul(map.height as usize);
        let before = self.rects.len();
        let count = cells.saturating_mul(in_cell);
        let all = before.saturating_add(count);
        expect_most("the number of anchors", all, ANCHORS_MAX)?;
        for row in 0..map.height {
            for column in 0..map.width {
                of_cell(column as f32, row as f32, &mut self.rects);
            }
        }
        self.levels.push(count);
        Ok(())
    }
}

impl DefaultBoxes<'_> {
    /// Scales in equal steps from `least` to `most`, then 1: what SSD uses unless it is told others.
    #[must_use]
    pub fn scales(least: f64, most: f64, maps: usize) -> Vec<f64> {
        if maps < 2 {
            return vec![least, most];
        }
        let step = |map: usize| least + (most - least) * map as f64 / (maps - 1) as f64;
        (0..maps).map(step).chain([1.0]).collect()
    }

    /// The anchors of all maps.
    ///
    /// # Errors
    /// If the lists do not go together, or there are more than 2^24 anchors.
    pub fn anchors(&self) -> Result<Anchors, DecodeError> {
        let maps = self.maps.len();
        expect_count("aspect ratios of maps", self.aspect_ratios.len(), maps)?;
        expect_count("scales of maps, and one more", self.scales.len(), maps + 1)?;
        if let Some(steps) = self.steps {
            expect_count("steps of maps", steps.len(), maps)?;
        }
        let (width, height) = (self.input.width as f32, self.input.height as f32);
        let mut anchors = Anchors::default();
        for (at, map) in self.maps.iter().enumerate() {
            let sides = self.sides(at);
            let (columns, rows) = match self.steps {
                Some(steps) => (
                    f64::from(self.input.width) / steps[at],
                    f64::from(self.input.height) / steps[at],
                ),
                None => (f64::from(map.width), f64::from(map.height)),
            };
            anchors.add_level(*map, sides.len(), |column, row, rects| {
                let (x, y) = ((column + 0.5) / columns as f32, (row + 0.5) / rows as f32);
                rects.extend(sides.iter().map(|(w, h)| Rect {
                    left: (x - 0.5 * w) * width,
                    top: (y - 0.5 * h) * height,
                    right: (x + 0.5 * w) * width,
                    bottom: (y + 0.5 * h) * height,
                }));
            })?;
        }
        Ok(anchors)
    }

    /// Widths and heights of the anchors of a cell, relative to the input's.
    fn sides(&self, map: usize) -> Vec<(f32, f32)> {
        let (scale, next) = (self.scales[map], self.scales[map + 1]);
        let between = (scale * next).sqrt();
        let mut sides = vec![(scale, scale), (between, between)];
        for ratio in self.aspect_ratios[map] {
            let root = ratio.sqrt();
            let (long, short) = (scale * root, scale / root);
            sides.extend([(long, short), (short, long)]);
        }
        let limit = |side: f64| {
            if self.clip {
                (side as f32).clamp(0.0, 1.0)
            } else {
                side as f32
            }
        };
        let sides = sides.into_iter();
        sides.map(|(w, h)| (limit(w), limit(h))).collect()
    }
}

impl GridAnchors<'_> {
    /// The anchors of all maps.
    ///
    /// # Errors
    /// If the lists do not go together, a map is empty, or there are more than 2^24 anchors.
    pub fn anchors(&self) -> Result<Anchors, DecodeError> {
        expect_count("sizes of maps", self.sizes.len(), self.maps.len())?;
        let mut anchors = Anchors::default();
        for (map, sizes) in self.maps.iter().zip(self.sizes) {
            let step = |input: u32, map: u32| {
                let step = input.checked_div(map);
                step.map(|step| step as f32).ok_or(DecodeError::Zero {
                    what: "a side of a feature map",
                })
            };
            let across = step(self.input.width, map.width)?;
            let down = step(self.input.height, map.height)?;
            let sides = self.half_sides(sizes);
            anchors.add_level(*map, sides.len(), |column, row, rects| {
                let (x, y) = (column * across, row * down);
                rects.extend(sides.iter().map(|(w, h)| Rect {
                    left: x - w,
                    top: y - h,
                    right: x + w,
                    bottom: y + h,
                }));
            })?;
        }
        Ok(anchors)
    }

    fn half_sides(&self, sizes: &[f64]) -> Vec<(f32, f32)> {
        let mut sides = Vec::new();
        for ratio in self.aspect_ratios {
            let root = (*ratio as f32).sqrt();
            sides.extend(sizes.iter().map(|size| {
                let size = *size as f32;
                let half = |side: f32| (side / 2.0).round_ties_even();
                (half(1.0 / root * size), half(root * size))
            }));
        }
        sides
    }
}

impl AnchorHead<'_> {
    /// The weights of SSD's codes.
    pub const SSD_WEIGHTS: [f32; 4] = [10.0, 10.0, 5.0, 5.0];
    /// The most that a side grows: the exponential's argument is limited.
    const GROWTH_MAX: f32 = 4.135_166_6; // ln(1000 / 16)

    /// `boxes` (anchors, 4) and `scores` (anchors, classes) of one frame, before softmax or logistic function unless the
    /// [activation](Self::activation) is none. The boxes come in pixels of the input, clipped to it.
    ///
    /// # Errors
    /// If the input has a side of 0, or a tensor is not as long as the anchors and classes say.
    pub fn decode(
        &self,
        boxes: &[f32],
        scores: &[f32],
        detections: &mut Detections,
    ) -> Result<(), DecodeError> {
        detections.clear();
        check_classes(self.classes)?;
        expect_input(self.input)?;
        let anchors = self.anchors.rects.len();
        let boxes = Table::new("boxes", boxes, anchors, 4, self.layout)?;
        let scores = Table::new("scores", scores, anchors, self.classes, self.layout)?;
        let threshold = self.keep.threshold;
        let scores = Scores::new(scores, self.activation, self.background, threshold);
        let bounds = Rect::whole(self.input);
        let mut first = 0;
        for level in &self.anchors.levels {
            let start = detections.candidates();
            for place in first..first + level {
                scores.each(place, !self.keep.several_classes, |class, score| {
                    if score > self.keep.threshold {
                        let rect = self.rect(place, &boxes).clipped(&bounds);
                        detections.offer(Detection { rect, score, class }, place);
                    }
                });
            }
            first += level;
            detections.end_level(start, &self.keep);
        }
        detections.finish(&self.keep);
        Ok(())
    }

    fn rect(&self, place: usize, boxes: &Table<'_>) -> Rect {
        let anchor = &self.anchors.rects[place];
        let (width, height) = (anchor.right - anchor.left, anchor.bottom - anchor.top);
        let [x, y, w, h] = std::array::from_fn(|at| boxes.at(place, at) / self.weights[at]);
        // `min` would take the limit for what is no number.
        let grown = |side: f32, code: f32| {
            if code > Self::GROWTH_MAX {
                Self::GROWTH_MAX.exp() * side
            } else {
                code.exp() * side
            }
        };
        Rect::around(
            x * width + (anchor.left + 0.5 * width),
            y * height + (anchor.top + 0.5 * height),
            grown(width, w),
            grown(height, h),
        )
    }
}
