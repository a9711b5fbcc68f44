//! What calibration found, as tables and as JSON.

use punctual_core::Confidence;
use punctual_model::{Calibration, Reliability};
use punctual_report::{Table, percent};
use serde::Serialize;

/// Thresholds that are reported, in percent: every fifth, and the highest finely.
const THRESHOLDS: [u32; 23] = [
    0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 93, 95, 97, 99,
];
/// Those of them that the terminal shows.
const SHOWN: [u32; 7] = [30, 50, 60, 70, 80, 90, 95];

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The network's name.
    pub network: String,
    pub samples: usize,
    /// Whether the exits' scores were divided by their temperatures.
    pub scaled: bool,
    pub exits: Vec<ExitReport>,
    pub thresholds: Vec<ThresholdReport>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ExitReport {
    pub exit: usize,
    /// Share of right answers.
    pub accuracy: f64,
    /// Mean confidence as the network is.
    pub confidence: f64,
    /// Expected calibration error as the network is.
    pub expected_error: f64,
    /// What its scores would best be divided by.
    pub temperature: f64,
    /// Expected calibration error once they are.
    pub expected_error_scaled: f64,
    /// `[confidence, accuracy, answers]` of each bin that has answers, as the network is.
    pub reliability: Vec<(f64, f64, usize)>,
    /// The same once the scores are divided.
    pub reliability_scaled: Vec<(f64, f64, usize)>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ThresholdReport {
    /// Confidence at which a sample leaves, 0 to 1.
    pub threshold: f64,
    /// Share of right answers.
    pub accuracy: f64,
    pub depth: f64,
    /// Share of samples that leave at each exit.
    pub leaving: Vec<f64>,
}

impl Report {
    /// Of the records as the network is and with temperatures; `scaled` says which of the two the thresholds are for.
    pub fn new(
        network: &str,
        plain: &Calibration,
        divided: &Calibration,
        temperatures: &[f64],
        scaled: bool,
    ) -> Self {
        let exits = temperatures.iter().enumerate();
        let exits =
            exits.map(|(exit, &temperature)| ExitReport::new(exit, temperature, plain, divided));
        let chosen = if scaled { divided } else { plain };
        let thresholds = THRESHOLDS.iter().filter_map(|&percent| {
            let threshold = f64::from(percent) / 100.0;
            let effect = chosen.threshold_effect(Confidence::from_probability(threshold as f32))?;
            let share = |&count: &usize| count as f64 / chosen.samples.len() as f64;
            Some(ThresholdReport {
                threshold,
                accuracy: effect.accuracy,
                depth: effect.depth,
                leaving: effect.leaving.iter().map(share).collect(),
            })
        });
        Self {
            network: network.to_owned(),
            samples: plain.samples.len(),
            scaled,
            exits: exits.collect(),
            thresholds: thresholds.collect(),
        }
    }

    pub fn exits_table(&self) -> Table {
        let mut table = Table::new(
            &[
                "exit",
                "right",
                "mean confidence",
                "calibration error",
                "temperature",
                "error at that temperature",
            ],
            0,
        );
        for exit in &self.exits {
            table.row([
                exit.exit.to_string(),
                percent(exit.accuracy),
                percent(exit.confidence),
                percent(exit.expected_error),
                format!("{:.2}", exit.temperature),
                percent(exit.expected_error_scaled),
            ]);
        }
        table
    }

    /// What thresholds do: those of the terminal, or all.
    pub fn thresholds_table(&self, all: bool) -> Table {
        let mut table = Table::new(
            &["threshold", "right", "stages run", "leaving at each exit"],
            0,
        );
        let shown = |report: &&ThresholdReport| {
            all || SHOWN.contains(&((report.threshold * 100.0).round() as u32))
        };
        for report in self.thresholds.iter().filter(shown) {
            let leaving: Vec<String> = report.leaving.iter().map(|share| percent(*share)).collect();
            table.row([
                format!("{:.2}", report.threshold),
                percent(report.accuracy),
                format!("{:.2}", report.depth),
                leaving.join(" "),
            ]);
        }
        table
    }

    /// What the figures suggest, a sentence each.
    pub fn advice(&self) -> Vec<String> {
        const BADLY_CALIBRATED: f64 = 0.05;
        const FEW: usize = 500;
        let mut advice = Vec::new();
        if self.samples < FEW {
            advice.push(format!(
                "{} samples are few: a bin of confidence needs some dozens; take {FEW} or more",
                self.samples
            ));
        }
        for exit in &self.exits {
            if !self.scaled
                && exit.expected_error > BADLY_CALIBRATED
                && exit.expected_error_scaled < exit.expected_error / 2.0
            {
                advice.push(format!(
                    "exit {} is {} than it is right: --temperature mends that",
                    exit.exit,
                    if exit.temperature > 1.0 {
                        "surer"
                    } else {
                        "less sure"
                    }
                ));
            }
        }
        for pair in self.exits.windows(2) {
            if pair[1].accuracy <= pair[0].accuracy {
                advice.push(format!(
                    "exit {} is right no more often than exit {}: its stage costs time and gains \
                     nothing on these samples",
                    pair[1].exit, pair[0].exit
                ));
            }
        }
        advice
    }
}

impl ExitReport {
    fn new(exit: usize, temperature: f64, plain: &Calibration, divided: &Calibration) -> Self {
        let (as_is, scaled) = (plain.reliability(exit), divided.reliability(exit));
        let samples = plain.samples.len() as f64;
        let right = plain
            .samples
            .iter()
            .filter(|sample| sample.exits[exit].correct)
            .count();
        let confidence = as_is
            .bins
            .iter()
            .map(|bin| bin.confidence * bin.answers as f64);
        Self {
            exit,
            accuracy: right as f64 / samples,
            confidence: confidence.sum::<f64>() / samples,
            expected_error: as_is.expected_error,
            temperature,
            expected_error_scaled: scaled.expected_error,
            reliability: points(&as_is),
            reliability_scaled: points(&scaled),
        }
    }
}

fn points(reliability: &Reliability) -> Vec<(f64, f64, usize)> {
    let bins = reliability.bins.iter().filter(|bin| bin.answers > 0);
    bins.map(|bin| (bin.confidence, bin.accuracy, bin.answers))
        .collect()
}
