//! All samples through all exits.

use std::io::IsTerminal;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_core::Confidence;
use punctual_device_cpu::{Evaluator, StartError};
use punctual_kernels::{Isa, softmax_top1};
use punctual_model::{
    Calibration, CalibrationExit, CalibrationSample, Labelled, Network, fit_temperature,
};

use super::classes::{Classes, JudgedClass};
use super::kind::{Answered, Kind, TruthError};
use super::pictures::{PictureError, Pictures};

const BATCH: usize = 8;

/// Why the samples were not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The network cannot be run here.
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Picture(#[from] PictureError),
    #[error(transparent)]
    Truth(#[from] TruthError),
}

/// What each exit answers for each sample: `[exit][sample]`.
pub struct Answers<J> {
    pub judged: Vec<Vec<J>>,
    confidences: Vec<Vec<Confidence>>,
}

/// Runs the samples, and shows on standard error how far it is.
pub fn run<K: Kind>(
    network: &Network,
    pictures: &mut Pictures,
    samples: &[PathBuf],
    kind: &mut K,
) -> Result<Answers<K::Judged>, RunError> {
    let mut evaluator = Evaluator::new(Isa::detect(), network, BATCH)?;
    let bar = ProgressBar::new(samples.len() as u64).with_style(
        ProgressStyle::with_template("calibrating {bar:32} {pos}/{len} samples, {eta} left")
            .expect("the template is valid"),
    );
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let exits = network.exits().count();
    let empty = |_| Vec::with_capacity(samples.len());
    let mut judged: Vec<Vec<K::Judged>> = (0..exits).map(empty).collect();
    let mut confidences = vec![Vec::with_capacity(samples.len()); exits];
    for (first, batch) in (0..).step_by(BATCH).zip(samples.chunks(BATCH)) {
        let prepared = batch.iter().map(|path| pictures.prepared(path));
        let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
        let images: Vec<&[f32]> = prepared.iter().map(|p| p.planes.as_slice()).collect();
        evaluator.load(&images);
        for at in 0..batch.len() {
            evaluator.load_vectors(at, &kind.vectors(first + at));
        }
        let results = evaluator.exits(batch.len());
        // A stage without an exit has none.
        let results: Vec<_> = results
            .into_iter()
            .filter(|exit| !exit.is_empty())
            .collect();
        for (at, prepared) in prepared.iter().enumerate() {
            for (exit, results) in results.iter().enumerate() {
                let answered = Answered {
                    sample: first + at,
                    exit,
                    result: &results[at],
                    placement: prepared.placement,
                };
                judged[exit].push(kind.judge(&answered)?);
                confidences[exit].push(results[at].answer.confidence);
            }
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    kind.settle(judged.last().expect("a network has an exit"));
    Ok(Answers {
        judged,
        confidences,
    })
}

impl<J> Answers<J> {
    /// The records, with the confidences of the network.
    pub fn records(&self, kind: &impl Kind<Judged = J>) -> Calibration {
        self.records_with(kind, |exit, sample| self.confidences[exit][sample])
    }

    fn records_with(
        &self,
        kind: &impl Kind<Judged = J>,
        confidence: impl Fn(usize, usize) -> Confidence,
    ) -> Calibration {
        let exit = |exit: usize, sample: usize| CalibrationExit {
            confidence: confidence(exit, sample).0,
            quality: Confidence::from_probability(kind.quality(&self.judged[exit][sample]) as f32)
                .0,
        };
        let sample = |sample: usize| CalibrationSample {
            exits: (0..self.judged.len()).map(|e| exit(e, sample)).collect(),
        };
        Calibration {
            samples: (0..self.judged[0].len()).map(sample).collect(),
        }
    }
}

impl Answers<JudgedClass> {
    /// The temperature of each exit at which the right classes are most likely.
    pub fn temperatures(&self, classes: &Classes) -> Vec<f64> {
        let fitted = |judged: &Vec<JudgedClass>| {
            let labelled = judged.iter().zip(&classes.truth);
            let labelled: Vec<_> = labelled
                .map(|(judged, &label)| Labelled {
                    scores: &judged.scores,
                    label,
                })
                .collect();
            fit_temperature(&labelled)
        };
        self.judged.iter().map(fitted).collect()
    }

    /// The records, with each exit's scores divided by its temperature.
    pub fn divided(&self, classes: &Classes, temperatures: &[f64]) -> Calibration {
        self.records_with(classes, |exit, sample| {
            let scores = self.judged[exit][sample].scores.iter();
            let divide = |&score: &f32| (f64::from(score) / temperatures[exit]) as f32;
            let divided: Vec<f32> = scores.map(divide).collect();
            Confidence::from_probability(softmax_top1(&divided).confidence)
        })
    }
}
