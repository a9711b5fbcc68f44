//! All samples through all exits.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_core::Confidence;
use punctual_device_cpu::Evaluator;
use punctual_kernels::{Isa, softmax_top1};
use punctual_model::{
    Calibration, CalibrationExit, CalibrationSample, Labelled, Network, fit_temperature,
};

use super::pictures::{PictureError, Pictures};
use super::samples::Sample;

const BATCH: usize = 8;

/// What each exit says of each sample.
pub struct Scores {
    /// `scores[exit][sample][class]`, before softmax.
    scores: Vec<Vec<Vec<f32>>>,
    labels: Vec<usize>,
}

/// Runs the samples, and shows on standard error how far it is.
pub fn run(
    network: &Network,
    evaluator: &mut Evaluator,
    pictures: &mut Pictures,
    samples: &[Sample],
) -> Result<Scores, PictureError> {
    let bar = ProgressBar::new(samples.len() as u64).with_style(
        ProgressStyle::with_template("calibrating {bar:32} {pos}/{len} samples, {eta} left")
            .expect("the template is valid"),
    );
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let mut scores = vec![Vec::with_capacity(samples.len()); network.exits().count()];
    for batch in samples.chunks(BATCH) {
        let planes = batch
            .iter()
            .map(|sample| pictures.planes(&sample.path))
            .collect::<Result<Vec<_>, _>>()?;
        let images: Vec<&[f32]> = planes.iter().map(Vec::as_slice).collect();
        let found = evaluator.scores(&images).into_iter().zip(&network.stages);
        let found = found.filter(|(_, stage)| stage.exit.is_some());
        for (all, (found, _)) in scores.iter_mut().zip(found) {
            all.extend(found);
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    let labels = samples.iter().map(|sample| sample.label).collect();
    Ok(Scores { scores, labels })
}

/// An evaluator with the best kernels of this machine.
pub fn evaluator(network: &Network) -> Result<Evaluator, punctual_device_cpu::StartError> {
    Evaluator::new(Isa::detect(), network, BATCH)
}

impl Scores {
    pub fn exits(&self) -> usize {
        self.scores.len()
    }

    /// The temperature of each exit at which the right classes are most likely.
    pub fn temperatures(&self) -> Vec<f64> {
        let fitted = |scores: &Vec<Vec<f32>>| {
            let labelled = scores.iter().zip(&self.labels);
            let labelled: Vec<_> = labelled
                .map(|(scores, &label)| Labelled { scores, label })
                .collect();
            fit_temperature(&labelled)
        };
        self.scores.iter().map(fitted).collect()
    }

    /// The records, with each exit's scores divided by its temperature.
    pub fn records(&self, temperatures: &[f64]) -> Calibration {
        let exit = |exit: usize, sample: usize| {
            let scores = &self.scores[exit][sample];
            let divided: Vec<f32> = scores
                .iter()
                .map(|&score| (f64::from(score) / temperatures[exit]) as f32)
                .collect();
            let top = softmax_top1(&divided);
            CalibrationExit {
                confidence: Confidence::from_probability(top.confidence).0,
                correct: usize::from(top.class) == self.labels[sample],
            }
        };
        let sample = |sample: usize| CalibrationSample {
            exits: (0..self.exits()).map(|e| exit(e, sample)).collect(),
        };
        Calibration {
            samples: (0..self.labels.len()).map(sample).collect(),
        }
    }
}
