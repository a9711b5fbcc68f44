//! Heads without anchors: distances from a cell's centre to the four sides of a box, as numbers or as distributions.
//!
//! A level with stride *s* has a cell for each *s* x *s* pixels; the distances are in strides. With several bins a distance
//! is the mean of a softmax over 0, 1, ... bins - 1. Sources: FCOS (Tian et al., 2019; the same as torchvision's
//! `postprocess_detections`), Generalized Focal Loss (Li et al., 2020) for distributions, YOLOX (Ge et al., 2021) for
//! the head.

use punctual_types::Size;

use crate::detections::{Detections, Keep};
use crate::error::{expect, expect_count, expect_input, expect_some};
use crate::scores::{Activation, Layout, Scores, Table, check_classes, sigmoid, softmax_terms};
use crate::{DecodeError, Detection, Rect};

/// One of the resolutions at which a network looks for objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    pub rows: usize,
    pub columns: usize,
    /// Pixels of the input from one cell to the next.
    pub stride: f32,
}

/// A head that gives distances.
#[derive(Clone, Debug)]
pub struct DistributionHead {
    /// In the order of the network's outputs.
    pub levels: Vec<Level>,
    /// How many values a distance has; 1: it is the distance itself, at least 0.
    pub bins: usize,
    pub classes: usize,
    pub activation: Activation,
    pub layout: Layout,
    /// Where a cell's centre is, in strides from its corner: 0.5; of torchvision's FCOS 0.
    pub centre: f32,
    /// The network's input, to which boxes are clipped.
    pub input: Size,
    pub keep: Keep,
}

/// What a head gives for a level.
#[derive(Clone, Copy, Debug)]
pub struct LevelTensors<'a> {
    /// Left, top, right, bottom, each of all bins: (4 bins, rows, columns) or (rows, columns, 4 bins), as the layout says.
    pub boxes: &'a [f32],
    /// (classes, rows, columns) or (rows, columns, classes).
    pub scores: &'a [f32],
    /// (rows, columns), if the network has it: how much in the middle of its object a cell is, before the logistic function.
    /// A score is then the root of its product with the class's.
    pub centerness: Option<&'a [f32]>,
}

impl DistributionHead {
    /// Levels of an input: one for each stride. A part of a cell at the right or lower side counts as one.
    #[must_use]
    pub fn levels(input: Size, strides: &[u32]) -> Vec<Level> {
        let cells = |side: u32, stride: u32| side.div_ceil(stride.max(1)) as usize;
        let level = |stride: &u32| Level {
            rows: cells(input.height, *stride),
            columns: cells(input.width, *stride),
            stride: *stride as f32,
        };
        strides.iter().map(level).collect()
    }

    /// The tensors of one frame: of each level, or of all levels in one, behind each other along their places. Boxes come in
    /// pixels of the input, clipped to it.
    ///
    /// # Errors
    /// If the input has a side of 0, or a tensor is not as long as levels, bins and classes say.
    pub fn decode(
        &self,
        tensors: &[LevelTensors<'_>],
        detections: &mut Detections,
    ) -> Result<(), DecodeError> {
        detections.clear();
        check_classes(self.classes)?;
        expect_input(self.input)?;
        expect_some("the number of bins", self.bins)?;
        let cells = |level: &Level| level.rows.saturating_mul(level.columns);
        if let [all] = tensors {
            let places = self.levels.iter().map(cells);
            let places = places.fold(0, usize::saturating_add);
            let tables = Tables::new(self, all, places)?;
            let mut first = 0;
            for level in &self.levels {
                self.level(level, &tables, first, first, detections);
                first += cells(level);
            }
        } else {
            expect_count("levels", tensors.len(), self.levels.len())?;
            let mut before = 0;
            for (level, tensors) in self.levels.iter().zip(tensors) {
                let tables = Tables::new(self, tensors, cells(level));
                let tables = tables.inspect_err(|_| detections.clear())?;
                self.level(level, &tables, 0, before, detections);
                before += cells(level);
            }
        }
        detections.finish(&self.keep);
        Ok(())
    }

    /// The candidates of a level: its first cell is `first` in its tables, and has the number `number` among all levels'.
    fn level(
        &self,
        level: &Level,
        tables: &Tables<'_>,
        first: usize,
        number: usize,
        detections: &mut Detections,
    ) {
        let start = detections.candidates();
        let bounds = Rect::whole(self.input);
        for cell in 0..level.rows * level.columns {
            let place = first + cell;
            let best_only = !self.keep.several_classes;
            tables.scores.each(place, best_only, |class, score| {
                let score = match tables.centerness {
                    Some(centerness) => (score * sigmoid(centerness[place])).sqrt(),
                    None => score,
                };
                if score > self.keep.threshold {
                    let rect = self.rect(level, cell, &tables.boxes, place);
                    let rect = rect.clipped(&bounds);
                    detections.offer(Detection { rect, score, class }, number + cell);
                }
            });
        }
        detections.end_level(start, &self.keep);
    }

    fn rect(&self, level: &Level, cell: usize, boxes: &Table<'_>, place: usize) -> Rect {
        let x = ((cell % level.columns) as f32 + self.centre) * level.stride;
        let y = ((cell / level.columns) as f32 + self.centre) * level.stride;
        let [left, top, right, bottom] =
            std::array::from_fn(|side| self.distance(side, boxes, place) * level.stride);
        Rect {
            left: x - left,
            top: y - top,
            right: x + right,
            bottom: y + bottom,
        }
    }

    /// To a side, in strides.
    fn distance(&self, side: usize, boxes: &Table<'_>, place: usize) -> f32 {
        if self.bins == 1 {
            return boxes.at(place, side);
        }
        let bins = (0..self.bins).map(|bin| boxes.at(place, side * self.bins + bin));
        let (largest, sum) = softmax_terms(bins.clone());
        let terms = bins.enumerate();
        let weighted = terms.map(|(bin, logit)| bin as f32 * ((logit - largest).exp() / sum));
        weighted.sum()
    }
}

/// The tensors of one level or of all, with their lengths checked.
struct Tables<'a> {
    boxes: Table<'a>,
    scores: Scores<'a>,
    centerness: Option<&'a [f32]>,
}

impl<'a> Tables<'a> {
    fn new(
        head: &DistributionHead,
        tensors: &LevelTensors<'a>,
        places: usize,
    ) -> Result<Self, DecodeError> {
        let channels = head.bins.saturating_mul(4);
        if let Some(centerness) = tensors.centerness {
            expect("centerness", centerness, &[places])?;
        }
        let scores = Table::new("scores", tensors.scores, places, head.classes, head.layout)?;
        // The root of the product with a centerness is at most the score's own root.
        let threshold = match tensors.centerness {
            Some(_) => head.keep.threshold.max(0.0).powi(2),
            None => head.keep.threshold,
        };
        Ok(Self {
            boxes: Table::new("boxes", tensors.boxes, places, channels, head.layout)?,
            scores: Scores::new(scores, head.activation, None, threshold),
            centerness: tensors.centerness,
        })
    }
}
