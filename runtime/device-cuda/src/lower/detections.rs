//! What a detector's places become.

use punctual_kernels::cuda::params::{BestScore, Detections, Kept};
use punctual_kernels::cuda::{Arguments, TensorView};
use punctual_model::{Operator, OperatorKind, TensorId};
use punctual_types::BoxForm;

use super::list::Of;
use super::stage::{Launches, known};

impl Launches<'_> {
    /// The scores are floats: halves tell few of those near 1 apart.
    pub(super) fn best_score(&mut self, of: Of<'_>, operator: &Operator) {
        let OperatorKind::BestScore {
            objectness,
            scoring,
        } = operator.kind
        else {
            return;
        };
        let scores = self.read(operator.input);
        let objectness = objectness.map_or(0, |tensor| self.read(tensor).address);
        let best = BestScore {
            scores,
            output: self.room(operator.output, Kept::Floats),
            objectness,
            images: u32::from(self.batch),
            first: scoring.first,
            classes: scoring.classes,
            logits: u32::from(scoring.logits),
        };
        self.draft
            .push(of, known("best_score"), Arguments::BestScore(best));
        if self.is_read_but_as_scores(operator.output) {
            self.convert_kept(of, operator.output, (Kept::Floats, Kept::Halves));
        }
    }

    /// Whether anything reads the tensor that does not read floats.
    fn is_read_but_as_scores(&self, tensor: TensorId) -> bool {
        let mut others = self.stage.operators.iter().filter(|operator| {
            let is_list = matches!(operator.kind, OperatorKind::Detections { .. });
            !(is_list && operator.input == tensor)
        });
        let read = others.any(|operator| operator.reads().any(|read| read == tensor));
        read || self.stage.outputs.contains(&tensor)
    }

    /// The list is floats, as a half holds few pixels exactly.
    pub(super) fn detections(&mut self, of: Of<'_>, operator: &Operator) {
        let OperatorKind::Detections {
            others: [boxes, scores],
            scoring,
            decoder,
        } = operator.kind
        else {
            return;
        };
        let (best, kept) = self.floats_or_halves(operator.input);
        let (boxes, boxes_kept) = self.floats_or_halves(boxes);
        let [width, height] = decoder.size.map(|side| side as f32);
        let list = Detections {
            best,
            boxes,
            scores: self.read(scores),
            output: self.room(operator.output, Kept::Floats).address,
            images: u32::from(self.batch),
            kept: kept as u32,
            boxes_kept: boxes_kept as u32,
            first: scoring.first,
            classes: scoring.classes,
            form: match decoder.form {
                BoxForm::Corners => 0,
                BoxForm::CornerAndSize => 1,
                BoxForm::CentreAndSize => 2,
            },
            unit_x: decoder.unit[0],
            unit_y: decoder.unit[1],
            width,
            height,
            threshold: decoder.threshold,
            overlap: decoder.overlap.unwrap_or(0.0),
            suppresses: u32::from(decoder.overlap.is_some()),
            by_class: u32::from(decoder.by_class),
            averaged: decoder.averaged,
            rows: decoder.rows,
            candidates: decoder.candidates,
            gap: 0,
        };
        self.draft
            .push(of, known("detections"), Arguments::Detections(list));
        if self.is_read(operator.output) {
            self.convert_kept(of, operator.output, (Kept::Floats, Kept::Halves));
        }
    }

    fn floats_or_halves(&mut self, tensor: TensorId) -> (TensorView, Kept) {
        match self.floats_here(tensor) {
            Some(floats) => (floats, Kept::Floats),
            None => (self.read(tensor), Kept::Halves),
        }
    }
}
