//! Class scores and answers of the GPU against the CPU device's.

use punctual_cuda_measuring::scores;
use punctual_device_cpu::Evaluator;
use punctual_device_cuda::driver::Context;
use punctual_kernels::Isa;
use punctual_model::{Network, reference};
use punctual_roofline::structures::Structure;

use super::super::result::{Sheet, StepResult};
use super::super::rig;
use super::super::step::{Session, Step, StepError};
use super::networks;

pub struct Numerics;

/// How the two compare at one exit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Compared {
    images: u32,
    /// The same class, or one whose score is within the tolerance of the largest.
    agree: u32,
    same_class: u32,
    /// The largest difference of a score over the tolerance.
    worst: f64,
    /// The largest difference of a confidence.
    confidence: f64,
}

impl Step for Numerics {
    fn name(&self) -> &'static str {
        "numerics"
    }

    fn about(&self) -> &'static str {
        "class scores and answers of every exit against the CPU device's"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let context = Context::retain(gpu)?;
        let side = session.size(224, 32);
        let all = Structure::ALL;
        let headings = [
            "network",
            "exit",
            "images",
            "same class",
            "agree",
            "worst / tolerance",
            "confidence differs by",
        ];
        let mut sheet = Sheet::new("Every exit of every network", &headings, 1);
        let mut result = StepResult::default();
        for network in networks::of(session, &all, side) {
            let batch = 2;
            let direct = scores::direct(&context, &network, batch)?;
            let mut evaluator = Evaluator::new(Isa::detect(), &network, usize::from(batch))?;
            let mut exits = vec![Compared::default(); network.stages.len()];
            for (round, ()) in session.rounds(16, 1, 900 / all.len() as u64).enumerate() {
                let first = round as u16 * u16::from(batch);
                let images: Vec<Vec<f32>> = (first..first + u16::from(batch))
                    .map(|seed| rig::picture(&network, seed))
                    .collect();
                let images: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
                let found = scores::of_every_exit(&direct, &images)?;
                let expected = evaluator.scores(&images);
                add(&network, &mut exits, &found, &expected);
            }
            rows(&mut sheet, &network, &exits);
            let sum = |of: fn(&Compared) -> u32| f64::from(exits.iter().map(of).sum::<u32>());
            result.figure(
                "exits",
                &network.name,
                sum(|exit| exit.agree) / sum(|exit| exit.images),
            );
            let worst = exits.iter().map(|exit| exit.worst).fold(0.0, f64::max);
            result.figure("logits", &network.name, worst);
        }
        result.tables.push(sheet);
        result.note(
            "The tolerance of an exit behind L operators is 4 * sqrt(2 L) * 2^-11 of the largest score: each operator \
             rounds its weights and its result to halves, which is off by 2^-11 at most; errors add up like the root of \
             their number. Weights are drawn, so scores lie closer together than a trained network's.",
        );
        Ok(result)
    }
}

/// `4 * sqrt(2 L) / 2048`.
fn tolerance(operators: usize, largest: f32) -> f64 {
    4.0 * (2.0 * operators as f64).sqrt() / 2048.0 * f64::from(largest)
}

fn add(
    network: &Network,
    exits: &mut [Compared],
    found: &[Vec<Vec<f32>>],
    expected: &[Vec<Vec<f32>>],
) {
    let mut operators = 0;
    for (stage, exit) in exits.iter_mut().enumerate() {
        operators += network.stages[stage].operators.len();
        for (found, expected) in found[stage].iter().zip(&expected[stage]) {
            if !expected.is_empty() {
                exit.add(found, expected, operators);
            }
        }
    }
}

impl Compared {
    fn add(&mut self, found: &[f32], expected: &[f32], operators: usize) {
        let largest = expected
            .iter()
            .fold(0.0_f32, |most, score| most.max(score.abs()));
        let tolerance = tolerance(operators, largest).max(f64::MIN_POSITIVE);
        let differs = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
        let most = found.iter().zip(expected).map(differs);
        // What is no number differs by everything.
        let most = most.fold(0.0_f64, |most, each| {
            if each >= 0.0 {
                most.max(each)
            } else {
                f64::MAX
            }
        });
        let (class, confidence) = reference::classify(expected);
        let (other, own) = reference::classify(found);
        let behind = f64::from(expected[class] - expected[other]);
        self.images += 1;
        self.same_class += u32::from(class == other);
        self.agree += u32::from(class == other || behind <= tolerance);
        self.worst = self.worst.max(most / tolerance);
        self.confidence = self.confidence.max(f64::from((own - confidence).abs()));
    }
}

fn rows(sheet: &mut Sheet, network: &Network, exits: &[Compared]) {
    for (exit, compared) in exits.iter().enumerate().filter(|(_, exit)| exit.images > 0) {
        sheet.row([
            network.name.clone(),
            exit.to_string(),
            compared.images.to_string(),
            compared.same_class.to_string(),
            compared.agree.to_string(),
            format!("{:.3}", compared.worst),
            format!("{:.5}", compared.confidence),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_agree_and_differ_by_nothing() {
        let mut compared = Compared::default();
        compared.add(&[1.0, 3.0, 2.0], &[1.0, 3.0, 2.0], 10);
        let expected = Compared {
            images: 1,
            agree: 1,
            same_class: 1,
            ..Compared::default()
        };
        assert_eq!(compared, expected);
    }

    #[test]
    fn another_class_agrees_only_within_the_tolerance() {
        let mut close = Compared::default();
        close.add(&[3.001, 3.0], &[3.0, 3.001], 10);
        assert_eq!((close.same_class, close.agree), (0, 1));
        let mut far = Compared::default();
        far.add(&[3.0, 1.0], &[1.0, 3.0], 10);
        assert_eq!((far.same_class, far.agree), (0, 0));
        assert!(far.worst > 1.0);
    }

    #[test]
    fn a_score_that_is_no_number_is_outside_of_any_tolerance() {
        let mut compared = Compared::default();
        compared.add(&[f32::NAN, 3.0], &[1.0, 3.0], 10);
        assert!(compared.worst > 1.0);
    }
}
