//! Bounded lists of objects.

use punctual_cuda_kernels::params::{Detections, Kept};
use punctual_cuda_kernels::{TensorView, padded};
use punctual_model::{self as model, Operator, TensorId};
use punctual_types::{BoxForm, DETECTION_VALUES};

use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{FLOAT, Launch, Span, Traffic};

impl Pack for model::Detections {}

impl Lower for model::Detections {
    /// The list is floats, as a half holds few pixels exactly.
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let &model::Detections { scoring, decoder } = self;
        let [boxes, scores] = [operator.others[0], operator.others[1]];
        let (best, kept) = launches.floats_or_halves(operator.input);
        let (boxes, boxes_kept) = launches.floats_or_halves(boxes);
        let [width, height] = decoder.size.map(|side| side as f32);
        let list = Detections {
            best,
            boxes,
            scores: launches.read(scores),
            output: launches.room(operator.output, Kept::Floats).address,
            images: u32::from(launches.batch),
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
        launches.push(of, "detections", list);
        if launches.is_read(operator.output) {
            launches.convert_kept(of, operator.output, Kept::Floats, Kept::Halves);
        }
        Ok(())
    }
}

impl Launches<'_> {
    fn floats_or_halves(&mut self, tensor: TensorId) -> (TensorView, Kept) {
        match self.floats_here(tensor) {
            Some(floats) => (floats, Kept::Floats),
            None => (self.read(tensor), Kept::Halves),
        }
    }
}

impl Launch for Detections {
    fn traffic(&self) -> Traffic {
        let row = u64::from(padded(DETECTION_VALUES)) * FLOAT;
        let rows = u64::from(self.images) * (u64::from(self.rows) + 1);
        Traffic::new(
            [
                Span::kept(Read(0), &self.best, self.images, self.kept),
                Span::kept(Read(1), &self.boxes, self.images, self.boxes_kept),
                Span::tensor(Read(2), &self.scores, self.images),
            ],
            [Span::at(Made, self.output, rows * row)],
        )
    }
}
