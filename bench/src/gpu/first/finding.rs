//! What a step of first light found, and the verdict on it.

use punctual_device_cuda::partition::search::FoundPlace;
use serde::{Deserialize, Serialize};

use super::super::folder::Outcome;
use super::super::result::Sheet;
use super::super::roofline::Compared;
use super::clocks::{Moved, Reading};

/// What a step claims about its own result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// What had to be shown is so.
    Proven,
    /// What had to be shown is not so.
    Refuted,
    /// It has figures, and nothing to be right or wrong about.
    #[default]
    Measured,
    /// It ran, and what had to be shown stays open.
    Open,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub claim: Claim,
    /// For a person, in a sentence without a full stop.
    pub found: String,
    /// Every single value that was measured.
    pub samples: Vec<Samples>,
    pub tables: Vec<Sheet>,
    /// Measured times next to predicted ones.
    pub compared: Vec<Compared>,
    /// Which multiprocessors each bit of a mask governs.
    pub map: Vec<MaskBit>,
    /// Where this driver keeps masks, if that was found here by trying.
    #[serde(default)]
    pub found_places: Vec<FoundPlace>,
    /// What one must know to read it.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    pub of: String,
    pub unit: String,
    /// In the order in which they were measured.
    pub values: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskBit {
    /// Of green contexts the number of a group.
    pub bit: u8,
    /// As `%smid` numbers them.
    pub multiprocessors: Vec<u32>,
}

impl Finding {
    pub fn nanoseconds(&mut self, of: impl Into<String>, values: Vec<u64>) {
        self.samples.push(Samples {
            of: of.into(),
            unit: "ns".to_owned(),
            values,
        });
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// A finding, with what the clocks were meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    pub finding: Finding,
    pub clocks: Vec<Reading>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Proven,
    Measured,
    /// It ran, and what had to be shown stays open.
    Open,
    /// Measured while a clock moved or the device throttled: the figures say nothing.
    Rejected,
    /// Of time, on an emulated driver.
    NoTime,
    /// What it needs is not there.
    NotMeasured,
    Refuted,
    /// It did not come to its end.
    Failed,
}

impl Verdict {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Measured => "measured",
            Self::Open => "open",
            Self::Rejected => "REJECTED",
            Self::NoTime => "no time",
            Self::NotMeasured => "not measured",
            Self::Refuted => "REFUTED",
            Self::Failed => "FAILED",
        }
    }

    /// Whether something is wrong with the device or with us.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Rejected | Self::Refuted | Self::Failed)
    }
}

/// The verdict on a step, and what a person is told. `of_time`: its figures are times.
pub fn judge(outcome: &Outcome<Watched>, of_time: bool, emulated: bool) -> (Verdict, String) {
    let watched = match outcome {
        Outcome::Measured(watched) => watched,
        Outcome::NotMeasured { why } => return (Verdict::NotMeasured, why.clone()),
        Outcome::Failed { why } => return (Verdict::Failed, why.clone()),
    };
    let finding = &watched.finding;
    let found = finding.found.clone();
    match finding.claim {
        // Whatever the clocks did: a wrong byte is wrong.
        Claim::Refuted => (Verdict::Refuted, found),
        Claim::Open => (Verdict::Open, found),
        Claim::Proven if !of_time => (Verdict::Proven, found),
        Claim::Measured if !of_time => (Verdict::Measured, found),
        _ if emulated => (Verdict::NoTime, found),
        claim => match Moved::between(&watched.clocks) {
            Some(moved) => (Verdict::Rejected, format!("{moved}; it said: {found}")),
            None if claim == Claim::Proven => (Verdict::Proven, found),
            None => (Verdict::Measured, found),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::clocks::Phase;
    use super::*;

    fn outcome(claim: Claim, mhz: [f64; 2]) -> Outcome<Watched> {
        let reading = |phase, gpu_mhz| Reading {
            phase,
            gpu_mhz: Some(gpu_mhz),
            ..Reading::default()
        };
        Outcome::Measured(Watched {
            finding: Finding {
                claim,
                found: "5 us".to_owned(),
                ..Finding::default()
            },
            clocks: vec![
                reading(Phase::Before, mhz[0]),
                reading(Phase::During, mhz[1]),
            ],
        })
    }

    fn verdict(claim: Claim, mhz: [f64; 2], of_time: bool, emulated: bool) -> Verdict {
        judge(&outcome(claim, mhz), of_time, emulated).0
    }

    #[test]
    fn a_step_whose_clock_moved_is_rejected_and_says_from_what_to_what() {
        let (verdict, found) = judge(&outcome(Claim::Measured, [1300.0, 306.0]), true, false);
        assert_eq!(verdict, Verdict::Rejected);
        assert!(
            found.contains("1300") && found.contains("306") && found.contains("5 us"),
            "{found}"
        );
        let steady = self::verdict(Claim::Measured, [1300.0, 1300.0], true, false);
        assert_eq!(steady, Verdict::Measured);
    }

    #[test]
    fn right_and_wrong_bytes_do_not_depend_on_clocks() {
        let moved = [1300.0, 306.0];
        assert_eq!(verdict(Claim::Proven, moved, false, false), Verdict::Proven);
        assert_eq!(
            verdict(Claim::Refuted, moved, true, false),
            Verdict::Refuted
        );
    }

    #[test]
    fn an_emulated_driver_proves_bytes_and_says_nothing_of_time() {
        let steady = [1300.0, 1300.0];
        assert_eq!(verdict(Claim::Proven, steady, false, true), Verdict::Proven);
        assert_eq!(
            verdict(Claim::Measured, steady, true, true),
            Verdict::NoTime
        );
        assert_eq!(
            verdict(Claim::Refuted, steady, true, true),
            Verdict::Refuted
        );
    }
}
