//! Sets of queries: each query is one object or none, without anchors and without suppression.
//!
//! Sources: DETR (Carion et al., 2020), Deformable DETR (Zhu et al., 2021), RT-DETR (Zhao et al., 2024); the same as
//! `post_process_object_detection` of transformers, but the best come first.

use punctual_types::Size;

use crate::boxes::BoxForm;
use crate::detections::Detections;
use crate::error::expect_input;
use crate::scores::{Activation, Layout, Scores, Table, check_classes};
use crate::{DecodeError, Detection, Rect, Suppression};

/// What the scores of a set mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetScores {
    /// A softmax over all classes, the last of which means that there is no object. A query is its best other class. DETR.
    Softmax,
    /// A logistic function for each class; the best `most` of all queries and classes stay, so that a query can be
    /// of several classes. RT-DETR: as many as queries. Deformable DETR: 100.
    Sigmoid { most: usize },
}

/// A head that gives a set.
#[derive(Clone, Debug)]
pub struct SetHead {
    pub queries: usize,
    /// With the one for no object, if there is one.
    pub classes: usize,
    pub scores: SetScores,
    /// Scores must be higher; 0 to 1.
    pub threshold: f32,
    /// The network's input.
    pub input: Size,
}

impl SetHead {
    /// `boxes` (queries, 4): centre's x and y, width, height, 0 to 1 of the input's sides. `logits` (queries, classes). The boxes
    /// come in pixels of the input, and are not clipped.
    ///
    /// # Errors
    /// If the input has a side of 0, or a tensor is not as long as queries and classes say.
    pub fn decode(
        &self,
        boxes: &[f32],
        logits: &[f32],
        detections: &mut Detections,
    ) -> Result<(), DecodeError> {
        detections.clear();
        check_classes(self.classes)?;
        expect_input(self.input)?;
        let boxes = Table::new("boxes", boxes, self.queries, 4, Layout::Places)?;
        let last = u16::try_from(self.classes - 1).ok();
        let (activation, background, most) = match self.scores {
            SetScores::Softmax => (Activation::Softmax, last, self.queries),
            SetScores::Sigmoid { most } => (Activation::Sigmoid, None, most),
        };
        let logits = Table::new("logits", logits, self.queries, self.classes, Layout::Places)?;
        let scores = Scores::new(logits, activation, background, self.threshold);
        let best_only = self.scores == SetScores::Softmax;
        for query in 0..self.queries {
            scores.each(query, best_only, |class, score| {
                if score > self.threshold {
                    let rect = self.rect(std::array::from_fn(|at| boxes.at(query, at)));
                    detections.offer(Detection { rect, score, class }, query);
                }
            });
        }
        detections.publish(Suppression::None, most);
        Ok(())
    }

    fn rect(&self, values: [f32; 4]) -> Rect {
        let (width, height) = (self.input.width as f32, self.input.height as f32);
        let part = BoxForm::Centre.rect(values);
        Rect {
            left: part.left * width,
            top: part.top * height,
            right: part.right * width,
            bottom: part.bottom * height,
        }
    }
}
