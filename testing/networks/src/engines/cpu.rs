//! The CPU device's kernels and memory, on the calling thread.

use punctual_device_cpu::{Evaluator, ExitResult};
use punctual_kernels::Isa;
use punctual_model::reference::{Exited, classify};
use punctual_model::{Exit, ScoreForm};

use super::run::{Answers, Run, RunError, Subject, exits};
use crate::requests::Request;

pub(super) struct Cpu<'a> {
    evaluator: Evaluator,
    exits: Vec<&'a Exit>,
}

impl<'a> Cpu<'a> {
    pub fn start(isa: Isa, subject: &'a Subject<'_>, batch_max: usize) -> Result<Self, RunError> {
        Ok(Self {
            evaluator: Evaluator::new(isa, subject.network(), batch_max)?,
            exits: exits(subject.compiled).map(|(_, exit)| exit).collect(),
        })
    }
}

impl Run for Cpu<'_> {
    fn run(&mut self, requests: &[&Request]) -> Result<Answers, RunError> {
        let first: Vec<&[f32]> = requests.iter().map(|inputs| inputs[0].as_slice()).collect();
        self.evaluator.load(&first);
        for (at, inputs) in requests.iter().enumerate() {
            let vectors: Vec<&[f32]> = inputs[1..].iter().map(Vec::as_slice).collect();
            self.evaluator.load_vectors(at, &vectors);
        }
        let mut answers = vec![Vec::new(); requests.len()];
        let found = self.evaluator.exits(requests.len()).into_iter();
        let found = found.filter(|exit| !exit.is_empty());
        for (exit, found) in self.exits.iter().zip(found) {
            for (answers, found) in answers.iter_mut().zip(found) {
                answers.push(exited(exit, found)?);
            }
        }
        Ok(answers)
    }
}

fn exited(exit: &Exit, found: ExitResult) -> Result<Exited, RunError> {
    let is_softmax = exit
        .scores
        .is_some_and(|scores| scores.form == ScoreForm::Softmax);
    if is_softmax && found.scores.iter().all(|score| score.is_finite()) {
        let (expected, _) = classify(&found.scores);
        if usize::from(found.answer.class) != expected {
            let found = found.answer.class;
            return Err(RunError::Class { found, expected });
        }
    }
    let outputs = exit.outputs.iter().zip(&found.outputs);
    Ok(Exited {
        outputs: outputs
            .map(|(output, bytes)| output.element.read(bytes).collect())
            .collect(),
        scores: found.scores,
        confidence: found.confidence,
    })
}
