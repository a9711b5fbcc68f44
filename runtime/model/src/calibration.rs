//! Calibration: what each exit answered for held-out samples, and how good that was. Expected
//! accuracy comes from this, never from a guess.

mod json;
mod record;
mod reliability;
mod temperature;

use punctual_core::{ACCURACY_BINS, Confidence};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use record::CalibrationExit;
pub use reliability::{RELIABILITY_BINS, Reliability, ReliabilityBin};
pub use temperature::{
    Labelled, TEMPERATURE_MAX, TEMPERATURE_MIN, TemperatureError, fit_temperature,
};

/// Records of a held-out (tuning) set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    pub samples: Vec<CalibrationSample>,
}

/// One sample, run through all exits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibrationSample {
    pub exits: Vec<CalibrationExit>,
}

/// Most samples that a calibration may have.
pub const SAMPLES_MAX: usize = 1 << 20;

/// Why calibration records cannot be used.
#[derive(Debug, Error)]
pub enum CalibrationError {
    /// Not the JSON of a calibration.
    #[error(
        "the calibration file cannot be read as {{\"samples\": [{{\"exits\": [{{\"confidence\": 0..65535, \"correct\": true or false, or \"quality\": 0..65535}}, ...]}}, ...]}}: {0}"
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

/// What calibration gives for one exit, in the form that `punctual_core::StageConfig` takes.
/// An accuracy is the mean quality of answers, in units of 1/65535.
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
    /// Mean quality, each sample leaving at its first exit that reaches the threshold, or at the last.
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
        Ok(json::read(json)?)
    }

    /// The JSON form, one line a sample. Same records, same text.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::written(self)
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
        let nothing = CalibrationExit::judged(0, false);
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
    /// A bin's accuracy is `(sum of qualities + 4 prior) / (samples + 4)`: with many samples the records
    /// speak, with few or none the prior does. The prior of an exit's own bin is the confidence
    /// at the bin's middle (what a perfectly calibrated network would score there); the prior of
    /// a deeper exit is that exit's accuracy over all samples or this exit's own bin, whichever
    /// is larger: depth is assumed to help unless the records of the bin say otherwise.
    #[must_use]
    pub fn exit_accuracies(&self, exits: usize) -> Vec<ExitAccuracy> {
        let overall: Vec<f64> = (0..exits)
            .map(|exit| {
                let quality = total(self.samples.iter().map(|sample| sample.exits[exit].quality));
                (quality + PRIOR_SAMPLES * 0.5) / (self.samples.len() as f64 + PRIOR_SAMPLES)
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
        let qualities: Vec<u16> = inside.map(|sample| sample.exits[judged].quality).collect();
        let samples = qualities.len() as f64;
        (total(qualities) + PRIOR_SAMPLES * prior) / (samples + PRIOR_SAMPLES)
    }

    /// The exit at which each sample leaves: the first that reaches `threshold`, or the last.
    ///
    /// # Panics
    /// If a sample has no exits.
    pub fn leaving(&self, threshold: Confidence) -> impl Iterator<Item = usize> + '_ {
        self.samples.iter().map(move |sample| {
            let confident = |exit: &CalibrationExit| exit.confidence >= threshold.0;
            let first = sample.exits.iter().position(confident);
            first.unwrap_or(sample.exits.len() - 1)
        })
    }

    /// The mean quality at an exit; `None` without samples.
    ///
    /// # Panics
    /// If a sample has no such exit.
    #[must_use]
    pub fn mean_quality(&self, exit: usize) -> Option<f64> {
        let qualities = self.samples.iter().map(|sample| sample.exits[exit].quality);
        (!self.samples.is_empty()).then(|| total(qualities) / self.samples.len() as f64)
    }

    /// What the samples do when each leaves at its first exit that reaches `threshold`; `None` without samples.
    #[must_use]
    pub fn threshold_effect(&self, threshold: Confidence) -> Option<ThresholdEffect> {
        let exits = self.samples.first()?.exits.len();
        let mut leaving = vec![0; exits];
        let mut stages = 0;
        let qualities = self.samples.iter().zip(self.leaving(threshold));
        let qualities = qualities.map(|(sample, exit)| {
            leaving[exit] += 1;
            stages += exit + 1;
            sample.exits[exit].quality
        });
        let quality = total(qualities);
        let samples = self.samples.len() as f64;
        Some(ThresholdEffect {
            accuracy: quality / samples,
            depth: stages as f64 / samples,
            leaving,
        })
    }

    /// The reliability of an exit's confidence.
    ///
    /// # Panics
    /// If a sample has no such exit.
    #[must_use]
    pub fn reliability(&self, exit: usize) -> Reliability {
        Reliability::of(self.samples.iter().map(|sample| {
            let answer = sample.exits[exit];
            let share = |of: u16| f64::from(of) / f64::from(u16::MAX);
            (share(answer.confidence), share(answer.quality))
        }))
    }
}

/// The bin, of [`ACCURACY_BINS`] equal ones, that a confidence falls into.
#[must_use]
pub fn bin_of(confidence: Confidence) -> usize {
    usize::from(confidence.0) * ACCURACY_BINS / (usize::from(u16::MAX) + 1)
}

/// The sum of qualities; exactly the number of right answers where each is right or wrong.
fn total(qualities: impl IntoIterator<Item = u16>) -> f64 {
    let sum: u64 = qualities.into_iter().map(u64::from).sum();
    sum as f64 / f64::from(u16::MAX)
}

fn to_u16(share: f64) -> u16 {
    (share * f64::from(u16::MAX)).round() as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(exits: &[(u16, bool)]) -> CalibrationSample {
        let exits = exits.iter();
        let exits =
            exits.map(|&(confidence, correct)| CalibrationExit::judged(confidence, correct));
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
    fn accuracy_is_the_mean_quality_where_answers_are_neither_right_nor_wrong() {
        let exits = |quality| {
            vec![CalibrationExit {
                confidence: 65_000,
                quality,
            }]
        };
        let samples = (0..1000).map(|i| CalibrationSample {
            exits: exits(if i % 2 == 0 { 13_107 } else { 39_321 }),
        });
        let calibration = Calibration {
            samples: samples.collect(),
        };
        assert!((calibration.mean_quality(0).unwrap() - 0.4).abs() < 1e-12);
        let effect = calibration.threshold_effect(Confidence(0)).unwrap();
        assert!((effect.accuracy - 0.4).abs() < 1e-12);
        let accuracy = calibration.exit_accuracies(1)[0].accuracy[ACCURACY_BINS - 1];
        assert!((f64::from(accuracy) / 65_535.0 - 0.4).abs() < 0.01);
        assert_eq!(Calibration::default().mean_quality(0), None);
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
