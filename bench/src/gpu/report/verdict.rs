//! The verdict on a step: on what it claims, what the clocks did meanwhile, and whether there is a GPU at all.

use serde::{Deserialize, Serialize};

use super::super::clocks::Moved;
use super::super::folder::{Outcome, Record};
use super::super::result::Claim;

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
pub fn judge(record: &Record, of_time: bool) -> (Verdict, String) {
    let result = match &record.outcome {
        Outcome::Measured(result) => result,
        Outcome::NotMeasured { why } => return (Verdict::NotMeasured, why.clone()),
        Outcome::Failed { why } => return (Verdict::Failed, why.clone()),
    };
    let found = result.found.clone();
    match result.claim {
        // Whatever the clocks did: a wrong byte is wrong.
        Claim::Refuted => (Verdict::Refuted, found),
        Claim::Open => (Verdict::Open, found),
        Claim::Proven if !of_time => (Verdict::Proven, found),
        Claim::Measured if !of_time => (Verdict::Measured, found),
        _ if record.machine.emulated => (Verdict::NoTime, found),
        claim => match Moved::between(&record.clocks) {
            Some(moved) => (Verdict::Rejected, format!("{moved}; it said: {found}")),
            None if claim == Claim::Proven => (Verdict::Proven, found),
            None => (Verdict::Measured, found),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::clocks::{Phase, Reading};
    use super::super::super::fixtures::record;
    use super::super::super::machine::Machine;
    use super::super::super::result::StepResult;
    use super::*;

    fn ended(claim: Claim, mhz: [f64; 2], emulated: bool) -> Record {
        let reading = |phase, gpu_mhz| Reading {
            phase,
            gpu_mhz: Some(gpu_mhz),
            ..Reading::default()
        };
        let record = record(StepResult {
            claim,
            found: "5 us".to_owned(),
            ..StepResult::default()
        });
        Record {
            clocks: vec![
                reading(Phase::Before, mhz[0]),
                reading(Phase::During, mhz[1]),
            ],
            machine: Machine {
                emulated,
                ..record.machine.clone()
            },
            ..record
        }
    }

    fn verdict(claim: Claim, mhz: [f64; 2], of_time: bool, emulated: bool) -> Verdict {
        judge(&ended(claim, mhz, emulated), of_time).0
    }

    #[test]
    fn a_step_whose_clock_moved_is_rejected_and_says_from_what_to_what() {
        let (verdict, found) = judge(&ended(Claim::Measured, [1300.0, 306.0], false), true);
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
