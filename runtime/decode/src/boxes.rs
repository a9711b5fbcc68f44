//! Heads whose boxes the network has decoded itself: what is left are thresholds and the suppression.

use punctual_types::Size;

use crate::detections::{Detections, Keep};
use crate::error::expect_input;
use crate::scores::{Activation, Layout, Scores, Table, check_classes};
use crate::{DecodeError, Detection, Rect};

/// What the four numbers of a box are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoxForm {
    /// Left, top, right, bottom.
    #[default]
    Corners,
    /// Centre's x and y, width, height.
    Centre,
}

impl BoxForm {
    pub(crate) fn rect(self, [a, b, c, d]: [f32; 4]) -> Rect {
        match self {
            Self::Corners => Rect {
                left: a,
                top: b,
                right: c,
                bottom: d,
            },
            Self::Centre => Rect::around(a, b, c, d),
        }
    }
}

/// A network that gives boxes in pixels of its input, and scores.
#[derive(Clone, Debug)]
pub struct BoxHead {
    /// How many boxes.
    pub places: usize,
    pub form: BoxForm,
    pub classes: usize,
    pub activation: Activation,
    pub background: Option<u16>,
    pub layout: Layout,
    /// The network's input, to which boxes are clipped.
    pub input: Size,
    pub keep: Keep,
}

impl BoxHead {
    /// `boxes` (places, 4) and `scores` (places, classes) of one frame, or (4, places) and (classes, places), as the layout
    /// says. All places are one level.
    ///
    /// # Errors
    /// If the input has a side of 0, or a tensor is not as long as places and classes say.
    pub fn decode(
        &self,
        boxes: &[f32],
        scores: &[f32],
        detections: &mut Detections,
    ) -> Result<(), DecodeError> {
        detections.clear();
        check_classes(self.classes)?;
        expect_input(self.input)?;
        let boxes = Table::new("boxes", boxes, self.places, 4, self.layout)?;
        let scores = Table::new("scores", scores, self.places, self.classes, self.layout)?;
        let threshold = self.keep.threshold;
        let scores = Scores::new(scores, self.activation, self.background, threshold);
        let bounds = Rect::whole(self.input);
        for place in 0..self.places {
            scores.each(place, !self.keep.several_classes, |class, score| {
                if score > self.keep.threshold {
                    let rect = self
                        .form
                        .rect(std::array::from_fn(|at| boxes.at(place, at)));
                    let rect = rect.clipped(&bounds);
                    detections.offer(Detection { rect, score, class }, place);
                }
            });
        }
        detections.end_level(0, &self.keep);
        detections.finish(&self.keep);
        Ok(())
    }
}
