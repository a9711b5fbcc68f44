//! Calibration: what each exit said of held-out samples, and whether it was right. Expected
//! accuracy comes from this, never from a guess.

mod reliability;
mod temperature;

use punctual_core::{ACCURACY_BINS, Confidence};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use reliability::{RELIABILITY_BINS, Reliability, ReliabilityBin};
pub use temperature::{
    Labelled, TEMPERATURE_MAX, TEMPERATURE_MIN, TemperatureError, fit_temperature,
};

/// Records of a held-out (tuning) set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub samples: Vec<CalibrationSample>,
}

/// One sample, run through all exits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationSample {
    pub exits: Vec<CalibrationExit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationExit {
    /// Largest softmax output in units of 1/65535.
    pub confidence: u16,
    /// Whether that class was the label.
    pub correct: bool,
}

/// Most samples that a calibration may have.
pub const SAMPLES_MAX: usize = 1 << 20;

/// Why calibration records cannot be used.
#[derive(Debug, Error)]
pub enum CalibrationError {
    /// Not the JSON of a calibration.
    #[error(
        "the calibration file cannot be read as {{\"samples\": [{{\"exits\": [{{\"confidence\": 0..65535, \"correct\": true or false}}, ...]}}, ...]}}: {0}"
    )]
    Json(#[from] serde_json::Error),
    /// A sample with another number of exits than the network.
    #[error(
        "sample {sample} has {found} exits, the network has {exits}; calibrate this network again"
    )]
    Exits {
        sample: usize,
        found: usize,
        exits: usize,
    },
    #[error("{found} samples; the limit is {SAMPLES_MAX}")]
    TooMany { found: usize },
}

/// What calibration says of one exit, in the form that `punctual_core::StageConfig` takes.
/// Accuracies are in units of 1/65535.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitAccuracy {
    /// Expected accuracy of this exit's answer, by the bin of its confidence.
    pub accuracy: [u16; ACCURACY_BINS],
    /// `deeper[k][bin]`: for samples whose confidence *at this exit* falls into `bin`, the
    /// accuracy at exit `this + 1 + k`.
    pub deeper: Vec<[u16; ACCURACY_BINS]>,
    /// `follows[a][b]`: of the samples whose confidence at the exit before falls into bin `a`, the
    /// share whose confidence at this one falls into bin `b`. The first exit's rows are all the
    /// same: the share of all samples. Without samples all zero.
    pub follows: [[u16; ACCURACY_BINS]; ACCURACY_BINS],
}

/// What a confidence threshold does to held-out samples.
#[derive(Clone, Debug, PartialEq)]
pub struct ThresholdEffect {
    /// Share of right answers, each sample leaving at its first exit that reaches the threshold, or at the last.
    pub accuracy: f64,
    /// Mean number of stages that were run, 1 to the number of exits.
    pub depth: f64,
    /// Samples that left at each exit.
    pub leaving: Vec<usize>,
}

/// How many samples the prior weighs in a bin: see [`Calibration::exit_accuracies`].
const PRIOR_SAMPLES: f64 = 4.0;

impl Calibration {
    /// Parses the JSON form of this structure.
    pub fn from_json(json: &str) -> Result<Self, CalibrationError> {
        Ok(serde_json::from_str(json)?)
    }

    /// The JSON form, one line a sample. Same records, same text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let line = |sample: &CalibrationSample| {
            serde_json::to_string(sample).expect("plain data always serialises")
        };
        let lines: Vec<String> = self.samples.iter().map(line).collect();
        format!("{{\"samples\":[\n{}\n]}}\n", lines.join(",\n"))
    }

    /// Whether every sample has `exits` exits.
    pub fn check_exits(&self, exits: usize) -> Result<(), CalibrationError> {
        if self.samples.len() > SAMPLES_MAX {
            return Err(CalibrationError::TooMany {
                found: self.samples.len(),
            });
        }
        let wrong = self
            .samples
            .iter()
            .position(|sample| sample.exits.len() != exits);
        match wrong {
            Some(sample) => {
                let found = self.samples[sample].exits.len();
                Err(CalibrationError::Exits {
                    sample,
                    found,
                    exits,
                })
            }
            None => Ok(()),
        }
    }

    /// The same with an entry for each stage, of which some end in an exit: one that does not says
    /// what the exit before did, and before the first exit nothing.
    #[must_use]
    pub fn by_stage(&self, answers: &[bool]) -> Self {
        let nothing = CalibrationExit {
            confidence: 0,
            correct: false,
        };
        let spread = |sample: &CalibrationSample| {
            let mut exits = sample.exits.iter();
            let mut said = nothing;
            let stages = answers.iter().map(|answers| {
                if *answers {
                    said = exits.next().copied().unwrap_or(said);
                }
                said
            });
            CalibrationSample {
                exits: stages.collect(),
            }
        };
        Self {
            samples: self.samples.iter().map(spread).collect(),
        }
    }

    /// Expected accuracies of a network with `exits` exits, one entry an exit.
    ///
    /// A bin's accuracy is `(right + 4 prior) / (samples + 4)`: with many samples the records
    /// speak, with few or none the prior does. The prior of an exit's own bin is the confidence
    /// at the bin's middle (what a perfectly calibrated network would score there); the prior of
    /// a deeper exit is that exit's accuracy over all samples or this exit's own bin, whichever
    /// is larger: depth is assumed to help unless the records of the bin say otherwise.
    #[must_use]
    pub fn exit_accuracies(&self, exits: usize) -> Vec<ExitAccuracy> {
        let overall: Vec<f64> = (0..exits)
            .map(|exit| {
                let right = self
                    .samples
                    .iter()
                    .filter(|sample| sample.exits[exit].correct);
                (right.count() as f64 + PRIOR_SAMPLES * 0.5)
                    / (self.samples.len() as f64 + PRIOR_SAMPLES)
            })
            .collect();
        (0..exits)
            .map(|exit| {
                let own: [f64; ACCURACY_BINS] = std::array::from_fn(|bin| {
                    self.binned(exit, bin, exit, (bin as f64 + 0.5) / ACCURACY_BINS as f64)
                });
                let deeper = (exit + 1..exits).map(|deep| {
                    std::array::from_fn(|bin| {
                        to_u16(self.binned(exit, bin, deep, overall[deep].max(own[bin])))
                    })
                });
                ExitAccuracy {
                    accuracy: own.map(to_u16),
                    deeper: deeper.collect(),
                    follows: self.follows(exit),
                }
            })
            .collect()
    }

    /// Where confidence at `exit` falls, by the bin at the exit before. A bin's row weighs as many
    /// samples of the whole set as its accuracy weighs of its prior.
    fn follows(&self, exit: usize) -> [[u16; ACCURACY_BINS]; ACCURACY_BINS] {
        let bin = |sample: &CalibrationSample, exit: usize| {
            bin_of(Confidence(sample.exits[exit].confidence))
        };
        let mut overall = [0.0; ACCURACY_BINS];
        let mut moves = [[0.0; ACCURACY_BINS]; ACCURACY_BINS];
        for sample in &self.samples {
            overall[bin(sample, exit)] += 1.0 / self.samples.len() as f64;
            if let Some(before) = exit.checked_sub(1) {
                moves[bin(sample, before)][bin(sample, exit)] += 1.0;
            }
        }
        moves.map(|row| {
            let samples: f64 = row.iter().sum();
            std::array::from_fn(|b| {
                to_u16((row[b] + PRIOR_SAMPLES * overall[b]) / (samples + PRIOR_SAMPLES))
            })
        })
    }

    /// Accuracy at exit `judged` of the samples whose confidence at exit `exit` is in `bin`.
    fn binned(&self, exit: usize, bin: usize, judged: usize, prior: f64) -> f64 {
        let inside = self
            .samples
            .iter()
            .filter(|s| bin_of(Confidence(s.exits[exit].confidence)) == bin);
        let (right, samples) = inside.fold((0, 0), |(right, samples), sample| {
            (right + u32::from(sample.exits[judged].correct), samples + 1)
        });
        (f64::from(right) + PRIOR_SAMPLES * prior) / (f64::from(samples) + PRIOR_SAMPLES)
    }

    /// What the samples do when each leaves at its first exit that reaches `threshold`; `None` without samples.
    #[must_use]
    pub fn threshold_effect(&self, threshold: Confidence) -> Option<ThresholdEffect> {
        let exits = self.samples.first()?.exits.len();
        let mut leaving = vec![0; exits];
        let (mut right, mut stages) = (0, 0);
        for sample in &self.samples {
            let confident = |exit: &CalibrationExit| exit.confidence >= threshold.0;
            let exit = sample.exits.iter().position(confident).unwrap_or(exits - 1);
            leaving[exit] += 1;
            stages += exit + 1;
            right += usize::from(sample.exits[exit].correct);
        }
        let samples = self.samples.len() as f64;
        Some(ThresholdEffect {
            accuracy: right as f64 / samples,
            depth: stages as f64 / samples,
            leaving,
        })
    }
}

/// The bin, of [`ACCURACY_BINS`] equal ones, that a confidence falls into.
#[must_use]
pub fn bin_of(confidence: Confidence) -> usize {
    usize::from(confidence.0) * ACCURACY_BINS / (usize::from(u16::MAX) + 1)
}

fn to_u16(share: f64) -> u16 {
    (share * f64::from(u16::MAX)).round() as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(exits: &[(u16, bool)]) -> CalibrationSample {
        let exits = exits.iter().map(|&(confidence, correct)| CalibrationExit {
            confidence,
            correct,
        });
        CalibrationSample {
            exits: exits.collect(),
        }
    }

    #[test]
    fn the_bins_are_equal_and_cover_all_confidences() {
        let mut counts = [0; ACCURACY_BINS];
        (0..=u16::MAX).for_each(|confidence| counts[bin_of(Confidence(confidence))] += 1);
        assert_eq!(counts, [65_536 / ACCURACY_BINS; ACCURACY_BINS]);
    }

    #[test]
    fn many_samples_outweigh_the_prior() {
        let samples = (0..1000)
            .map(|i| sample(&[(65_000, i % 2 == 0), (65_000, true)]))
            .collect();
        let table = Calibration { samples }.exit_accuracies(2);
        let last = ACCURACY_BINS - 1;
        assert!((f64::from(table[0].accuracy[last]) / 65_535.0 - 0.5).abs() < 0.01);
        assert!(f64::from(table[0].deeper[0][last]) / 65_535.0 > 0.99);
        assert_eq!(table[1].deeper.len(), 0);
    }

    #[test]
    fn an_empty_bin_gets_its_middle_and_no_loss_by_depth() {
        for table in Calibration::default().exit_accuracies(3) {
            assert!(table.accuracy.is_sorted(), "{table:?}");
            for deeper in &table.deeper {
                assert!(
                    deeper
                        .iter()
                        .zip(&table.accuracy)
                        .all(|(deep, own)| deep >= own)
                );
            }
        }
    }

    #[test]
    fn confidence_is_followed_from_exit_to_exit() {
        let low_to_high = sample(&[(0, true), (65_000, true)]);
        let stays_high = sample(&[(65_000, true), (65_000, true)]);
        let samples = [vec![low_to_high; 300], vec![stays_high; 100]].concat();
        let table = Calibration { samples }.exit_accuracies(2);
        let last = ACCURACY_BINS - 1;
        for row in table[0].follows {
            assert_eq!((row[0], row[last]), (to_u16(0.75), to_u16(0.25)));
        }
        assert_eq!(table[1].follows[0][last], u16::MAX);
        for row in table[1].follows {
            assert_eq!(
                row.iter().map(|&share| u32::from(share)).sum::<u32>(),
                65_535
            );
        }
        let unknown = Calibration::default().exit_accuracies(2);
        assert_eq!(unknown[1].follows, [[0; ACCURACY_BINS]; ACCURACY_BINS]);
    }

    #[test]
    fn a_threshold_trades_depth_for_accuracy() {
        let samples = vec![
            sample(&[(60_000, true), (60_000, true)]),
            sample(&[(40_000, false), (60_000, true)]),
            sample(&[(20_000, false), (30_000, false)]),
            sample(&[(50_000, true), (50_000, true)]),
        ];
        let calibration = Calibration { samples };
        let low = calibration.threshold_effect(Confidence(0)).unwrap();
        assert_eq!(
            (low.accuracy, low.depth, low.leaving),
            (0.5, 1.0, vec![4, 0])
        );
        let high = calibration.threshold_effect(Confidence(45_000)).unwrap();
        assert_eq!(
            (high.accuracy, high.depth, high.leaving),
            (0.75, 1.5, vec![2, 2])
        );
        assert_eq!(Calibration::default().threshold_effect(Confidence(0)), None);
    }

    #[test]
    fn malformed_json_is_refused_with_its_place() {
        for json in [
            "",
            "{}",
            r#"{"samples":[{"exits":[{"confidence":70000,"correct":true}]}]}"#,
        ] {
            assert!(
                matches!(Calibration::from_json(json), Err(CalibrationError::Json(_))),
                "{json}"
            );
        }
        let json = r#"{"samples":[{"exits":[{"confidence":7,"correct":true}]}]}"#;
        let calibration = Calibration::from_json(json).unwrap();
        assert!(calibration.check_exits(1).is_ok());
        let error = calibration.check_exits(2).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("sample 0 has 1 exits, the network has 2"),
            "{error}"
        );
    }
}
