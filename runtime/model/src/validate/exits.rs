//! What clients and devices may rely on of exits: that they can be read, and agree with each other.

use std::collections::BTreeSet;

use super::error::{ExitError, NetworkError};
use punctual_types::{AREA_BYTES_MAX, Element};

use crate::limits::{OUTPUT_RANK_MAX, OUTPUTS_MAX};
use crate::{AnswerKind, Exit, Network, Output, Scores, Tensor, TensorId};

/// Most digits of an output's view: a dimension rarely has more than two.
const DIGITS_MAX: usize = 16;

impl Network {
    /// An exit whose tensors must be `readable` where its stage ends.
    pub(super) fn check_exit(
        &self,
        exit: &Exit,
        readable: impl Fn(&TensorId) -> bool,
    ) -> Result<(), ExitError> {
        let inputs = 1 + self.vectors.len();
        if let Some(tensor) = exit.reads().find(|id| !readable(id) || id.index() < inputs) {
            return Err(ExitError::NotWritten(tensor));
        }
        let found = exit.outputs.len();
        if !(1..=OUTPUTS_MAX).contains(&found) {
            return Err(ExitError::OutputCount { found });
        }
        let mut names = BTreeSet::new();
        for output in &exit.outputs {
            if !names.insert(&output.name) {
                return Err(ExitError::OutputTwice(output.name.clone()));
            }
            self.check_output(output)?;
        }
        self.check_scores(exit.scores)?;
        let shape = |id: TensorId| self.tensors[id.index()];
        match exit.confidence.map(shape) {
            Some(shape) if shape != Tensor::features(1) => Err(ExitError::Confidence { shape }),
            _ => Ok(()),
        }
    }

    fn check_scores(&self, scores: Option<Scores>) -> Result<(), ExitError> {
        let kind = self.answer;
        let Some(scores) = scores else {
            return match kind {
                AnswerKind::Classes | AnswerKind::Labels => Err(ExitError::NoScores { kind }),
                AnswerKind::Detections | AnswerKind::None => Ok(()),
            };
        };
        let (shape, classes) = (self.tensors[scores.tensor.index()], self.classes.len());
        if !kind.has_class()
            || classes as u64 != shape.elements()
            || shape.channels as usize != classes
        {
            return Err(ExitError::Scores {
                kind,
                shape,
                classes,
            });
        }
        Ok(())
    }

    fn check_output(&self, output: &Output) -> Result<(), ExitError> {
        let wrong = || {
            let (name, shape) = (output.name.clone(), output.shape.clone());
            ExitError::Output { name, shape }
        };
        let tensor = self.tensors[output.tensor.index()];
        let sides = [tensor.channels, tensor.height, tensor.width];
        let elements = output.shape.iter().map(|&extent| u64::from(extent));
        let elements = elements.fold(1, u64::saturating_mul);
        if output.shape.len() > OUTPUT_RANK_MAX
            || output.view.digits.len() > DIGITS_MAX
            || !output.view.lies_in(sides)
            || output.elements() != elements
            || elements == 0
        {
            return Err(wrong());
        }
        if output.bytes() > u64::from(AREA_BYTES_MAX) {
            return Err(ExitError::TooLarge {
                name: output.name.clone(),
                shape: output.shape.clone(),
                bytes: output.bytes(),
            });
        }
        let bytes = self.quantisation(output.tensor);
        let fits = match output.element {
            Element::F32 | Element::I32 | Element::Bool => bytes.is_none(),
            Element::U8 { scale, zero } => {
                bytes.is_some_and(|q| q.scale == scale && q.zero == zero)
            }
            Element::I8 { scale, zero } => bytes
                .is_some_and(|q| q.scale == scale && i32::from(q.zero) == i32::from(zero) + 128),
        };
        if fits { Ok(()) } else { Err(wrong()) }
    }

    /// Exits have the same outputs, so that a client that reads one can read all; sizes may differ.
    pub(super) fn check_exits(&self) -> Result<(), NetworkError> {
        let described = |exit: &Exit| -> BTreeSet<(String, usize, &str)> {
            let outputs = exit.outputs.iter();
            let described = outputs.map(|output| {
                (
                    output.name.clone(),
                    output.shape.len(),
                    output.element.name(),
                )
            });
            described.collect()
        };
        let stages = self.stages.iter().enumerate();
        let mut exits = stages.filter_map(|(at, stage)| Some((at, stage.exit.as_ref()?)));
        let Some((_, first)) = exits.next() else {
            return Ok(());
        };
        let expected = described(first);
        for (stage, exit) in exits {
            let found = described(exit);
            if let Some((name, ..)) = expected.symmetric_difference(&found).next() {
                let problem = ExitError::Disagrees { name: name.clone() };
                return Err(NetworkError::Exit { stage, problem });
            }
        }
        Ok(())
    }
}
