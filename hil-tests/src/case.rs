//! A case: what it is, what it needs, how long it may take, and what it does; and how it is played.

use punctual_client::now_ns;

use crate::bed::{Setting, TestBed};
use crate::facts::Need;
use crate::outcome::{CaseReport, Failure, Outcome};

/// What clearing away may take, beyond the case's own limit.
const CLEAR_NS: u64 = 60_000_000_000;

pub struct Case {
    pub suite: &'static str,
    /// Its name, unique in the suite.
    pub name: &'static str,
    /// What it does and what must come of it, in a sentence.
    pub about: &'static str,
    /// What it needs of the target.
    pub needs: &'static [Need],
    /// How long it may take, in seconds.
    pub limit_s: u64,
    /// Keys and units of what it measures.
    pub measures: &'static [(&'static str, &'static str)],
    pub body: fn(&mut TestBed<'_>) -> Result<(), Failure>,
}

impl Case {
    /// `SUITE/NAME`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.suite, self.name)
    }

    /// Runs the case: resets, acts, looks for what was left over, resets.
    #[must_use]
    pub fn play(&self, setting: Setting<'_>) -> CaseReport {
        let began_ns = now_ns();
        // Only a soak takes as long as the caller says.
        let extra_s = if self.suite == "soak" {
            setting.hours * 3600.0
        } else {
            0.0
        };
        let limit_ns = self.limit_s * 1_000_000_000 + (extra_s * 1e9) as u64;
        let mut bed = TestBed::new(setting, self.suite, self.measures, began_ns + limit_ns);
        let mut failures = self.act(&mut bed);
        failures.extend(bed.missed());
        CaseReport {
            suite: self.suite,
            name: self.name,
            about: self.about,
            outcome: if failures.is_empty() {
                Outcome::Passed
            } else {
                Outcome::Failed
            },
            skipped_because: None,
            seconds: (now_ns() - began_ns) as f64 / 1e9,
            findings: failures.iter().map(Failure::to_string).collect(),
            measures: bed.measures,
            effects: bed.effects,
            histograms: bed.histograms,
        }
    }

    /// The whole of it, and all that went wrong.
    fn act(&self, bed: &mut TestBed<'_>) -> Vec<Failure> {
        let (target, stage) = (bed.target, bed.stage);
        let reset = || target.reset(&stage.mark, &stage.case, now_ns() + CLEAR_NS);
        if let Err(error) = reset() {
            return vec![error.into()];
        }
        let held = (self.body)(bed);
        let mut failures = Vec::new();
        let failed = held.is_err();
        failures.extend(held.err());
        // What a failed case left behind is no finding of its own.
        if !failed {
            match target.marked(&stage.mark, now_ns() + CLEAR_NS) {
                Ok(left) => failures.extend(left.into_iter().map(|process| Failure::LeftOver {
                    pid: process.pid,
                    command: process.command,
                })),
                Err(error) => failures.push(error.into()),
            }
        }
        failures.extend(reset().err().map(Failure::from));
        failures
    }
}
