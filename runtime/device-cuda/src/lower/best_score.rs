//! The best score of each place.

use punctual_cuda_kernels::params::{BestScore, Kept};
use punctual_model::{self as model, Operator, OperatorKind, TensorId};

use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{HALF, Launch, Span, Traffic};

impl Pack for model::BestScore {}

impl Lower for model::BestScore {
    /// The scores are floats: halves tell few of those near 1 apart.
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let scoring = self.scoring;
        let scores = launches.read(operator.input);
        let objectness = operator.others.first();
        let objectness = objectness.map_or(0, |&tensor| launches.read(tensor).address);
        let best = BestScore {
            scores,
            output: launches.room(operator.output, Kept::Floats),
            objectness,
            images: u32::from(launches.batch),
            first: scoring.first,
            classes: scoring.classes,
            logits: u32::from(scoring.logits),
        };
        launches.push(of, "best_score", best);
        if launches.is_read_but_as_scores(operator.output) {
            launches.convert_kept(of, operator.output, Kept::Floats, Kept::Halves);
        }
        Ok(())
    }
}

impl Launches<'_> {
    /// Whether anything reads the tensor that does not read floats.
    fn is_read_but_as_scores(&self, tensor: TensorId) -> bool {
        let mut others = self.stage.operators.iter().filter(|operator| {
            let is_list = matches!(operator.kind, OperatorKind::Detections(_));
            !(is_list && operator.input == tensor)
        });
        let read = others.any(|operator| operator.reads().any(|read| read == tensor));
        read || self.stage.outputs.contains(&tensor)
    }
}

impl Launch for BestScore {
    fn traffic(&self) -> Traffic {
        let objectness = u64::from(self.images) * u64::from(self.output.pitch) * HALF;
        Traffic::new(
            [
                Span::tensor(Read(0), &self.scores, self.images),
                Span::at(Read(1), self.objectness, objectness),
            ],
            [Span::kept(
                Made,
                &self.output,
                self.images,
                Kept::Floats as u32,
            )],
        )
    }
}
