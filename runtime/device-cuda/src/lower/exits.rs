//! The end of a stage: answers, and outputs as clients read them.

use punctual_cuda_kernels::params::{Answers, Form, Kept, Output as OutputParams, Type};
use punctual_model::{Exit, Output, PlacedExit, ScoreForm, TensorId};
use punctual_types::AREA_BYTES_MAX;

use super::digits::{digits_of, start_of};
use super::error::LowerError;
use super::list::Of;
use super::place::Place;
use super::program::StagedOutputs;
use super::stage::Launches;

/// Where the outputs of an exit lie in the memory for them.
pub(super) fn staged(placed: &PlacedExit) -> StagedOutputs {
    let range = placed.range();
    StagedOutputs {
        offset: range.start as usize,
        bytes: (range.end - range.start) as usize,
        pitch: placed.pitch() as usize,
        not_finite: placed.not_finite(),
    }
}

impl Launches<'_> {
    /// Whether the stage's exit answers with the tensor, or has it as a requested output.
    pub(super) fn is_of_exit(&self, tensor: TensorId) -> bool {
        let Some(exit) = &self.stage.exit else {
            return false;
        };
        let mut outputs = self.outputs().into_iter().map(|(output, _)| output.tensor);
        exit.scores.is_some_and(|scores| scores.tensor == tensor)
            || exit.confidence == Some(tensor)
            || outputs.any(|output| output == tensor)
    }

    /// The requested outputs, each with its offset from the first.
    fn outputs(&self) -> Vec<(&Output, u64)> {
        let stage = self.stage;
        let (Some(placed), Some(exit)) = (self.placed, &stage.exit) else {
            return Vec::new();
        };
        let first = staged(placed).offset as u64;
        let outputs = placed.outputs.iter();
        outputs
            .map(|placed| (&exit.outputs[placed.output], placed.offset - first))
            .collect()
    }

    /// Pushes the stage's last launches: those of its outputs, then `answers`.
    pub(super) fn exit(&mut self) -> Result<(), LowerError> {
        let mut answers = Answers {
            answers: Place::Answers.encode(),
            done: Place::Done.encode(),
            images: u32::from(self.batch),
            ..Answers::default()
        };
        if let Some(exit) = &self.stage.exit {
            self.score(Of::device("scores"), exit, &mut answers);
            (answers.counts, answers.all_counts) = self.give_back()?;
        }
        self.push(Of::device("answers"), "answers", answers);
        Ok(())
    }

    fn score(&mut self, of: Of<'_>, exit: &Exit, answers: &mut Answers) {
        if let Some(scores) = exit.scores {
            let floats = self.floats(of, scores.tensor);
            answers.scores = floats.address;
            (answers.classes, answers.pitch) = (floats.channels, floats.pitch);
            answers.form = match scores.form {
                ScoreForm::Softmax => Form::Softmax,
                ScoreForm::Sigmoid => Form::Sigmoid,
                ScoreForm::Probability => Form::Probability,
            } as u32;
        }
        if let Some(confidence) = exit.confidence {
            answers.confidence = self.floats(of, confidence).address;
        }
    }

    /// Pushes launches that write the outputs. Returns the address of the counts of values that are not finite, and how
    /// many counts an image has.
    fn give_back(&mut self) -> Result<(u64, u32), LowerError> {
        let outputs: Vec<(Output, u64)> = self
            .outputs()
            .into_iter()
            .map(|(output, offset)| (output.clone(), offset))
            .collect();
        let Some(pitch) = self.placed.map(|placed| staged(placed).pitch) else {
            return Ok((0, 0));
        };
        if let Some((output, _)) = outputs
            .iter()
            .find(|(output, _)| output.bytes() > u64::from(AREA_BYTES_MAX))
        {
            return Err(LowerError::Output {
                model: self.lowering.network.name.clone(),
                output: output.name.clone(),
                elements: output.elements(),
            });
        }
        let blocks = |output: &Output| OutputParams::blocks(output.elements() as u32);
        let all_counts: u32 = outputs.iter().map(|(output, _)| blocks(output)).sum();
        let counts = self.draft.buffer().encode();
        let mut first_count = 0;
        for (output, offset) in &outputs {
            let of = Of::device(&output.name);
            let (source, from) = match self.numbers(output.tensor)? {
                Some(floats) => (floats, Kept::Floats),
                None => (self.read(output.tensor), self.kept(output.tensor)),
            };
            let digits = digits_of(&source, &output.view.digits);
            let digits = digits.map_err(|digits| LowerError::Digits {
                model: self.lowering.network.name.clone(),
                operator: output.name.clone(),
                digits,
            })?;
            let params = OutputParams {
                source: source.address,
                target: Place::Outputs { offset: *offset }.encode(),
                counts,
                target_image: pitch as u64,
                source_image: source.image() as u32,
                start: start_of(&source, &output.view),
                elements: output.elements() as u32,
                digits,
                from: from as u32,
                to: Type::from(output.element) as u32,
                first_count,
                all_counts,
                images: u32::from(self.batch),
            };
            first_count += blocks(output);
            self.push(of, "output", params);
        }
        Ok((counts, all_counts))
    }
}
