//! What came of a case, and of a run.

use serde::Serialize;

use crate::bounds::Bound;
use crate::facts::Facts;
use crate::records::Latencies;
use crate::target::TargetError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Passed,
    /// It did not, as its findings say.
    Failed,
    /// It was not run, as its reason says.
    Skipped,
}

#[derive(Debug, Serialize)]
pub struct CaseReport {
    pub suite: &'static str,
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    pub outcome: Outcome,
    pub skipped_because: Option<String>,
    pub seconds: f64,
    /// What went wrong, in words.
    pub findings: Vec<String>,
    pub measures: Vec<Measured>,
    /// What a fault or load did, counted.
    pub effects: Vec<Effect>,
    /// Latencies, for the pictures.
    pub histograms: Vec<Pictured>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Its key below the suite's.
    pub key: &'static str,
    pub unit: &'static str,
    pub value: f64,
    /// What the board's file says, if anything.
    pub bound: Option<Bound>,
    /// Whether it was kept.
    pub held: bool,
}

/// A count and what it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    pub count: u64,
    /// What, and why it is as it should be.
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pictured {
    pub name: String,
    /// In microseconds.
    pub latencies: Latencies,
}

#[derive(Debug, Serialize)]
pub struct RunReport {
    /// Form of this report; raised when a field changes its meaning.
    pub format: u32,
    pub version: &'static str,
    pub target: String,
    /// Which board's bounds.
    pub board: String,
    pub bounds: String,
    /// What the daemon under test calls itself.
    pub daemon: String,
    /// When it began, in UTC, as the target's clock says.
    pub began: String,
    pub seed: u64,
    pub facts: Facts,
    /// In the order of their running.
    pub cases: Vec<CaseReport>,
}

impl RunReport {
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.cases
            .iter()
            .filter(|case| case.outcome == outcome)
            .count()
    }
}

/// A figure that its board's file does not allow.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{suite}.{key} is {value} {unit}; {file} says {bound} ({})", bound.why)]
pub struct MissedBound {
    pub suite: &'static str,
    pub key: &'static str,
    pub value: f64,
    pub unit: &'static str,
    pub file: String,
    pub bound: Bound,
}

/// The last lines of what a process said, in one.
fn ends(words: &str) -> String {
    let lines: Vec<_> = words
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines[lines.len().saturating_sub(8)..].join("; ")
}

/// Why a case did not hold.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The target, or the case's time.
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Bound(Box<MissedBound>),
    /// A daemon that did not get ready.
    #[error(
        "the daemon was not ready after {seconds} s; its last messages: {}",
        ends(words)
    )]
    NotReady { seconds: u64, words: String },
    /// A process that ended in another way than expected.
    #[error(
        "{who} ended with {found}, not with {wanted}; its last messages: {}",
        ends(words)
    )]
    Ending {
        who: String,
        found: String,
        wanted: &'static str,
        words: String,
    },
    /// A process that did not end.
    #[error("{who} had not ended {seconds} s after it should have")]
    NotEnding { who: String, seconds: u64 },
    #[error("task {task}: {lost} of {submitted} frames have no verdict")]
    Lost {
        task: String,
        lost: u64,
        submitted: u64,
    },
    #[error(
        "one of {steps} recorded steps was decided otherwise by a second scheduler that was told the same"
    )]
    DecidesOtherwise { steps: u64 },
    #[error("task {task}: {unasked} verdicts for frames that had one already or never were")]
    Unasked { task: String, unasked: u64 },
    /// Two accounts of the same frames.
    #[error("task {task}: {what}: the cameras count {cameras}, the daemon {daemon}")]
    Disagree {
        task: String,
        what: &'static str,
        cameras: u64,
        daemon: u64,
    },
    /// Something that should have happened did not.
    #[error("there is no evidence that {what}")]
    Missing { what: &'static str },
    /// Something else than expected was said.
    #[error("{who} printed `{}`, which does not contain `{wanted}`", said.trim())]
    Words {
        who: &'static str,
        said: String,
        wanted: String,
    },
    /// Output that is not in its form.
    #[error("{who} printed output in an unexpected format: {}", said.trim())]
    Form { who: String, said: String },
    #[error("process {pid} still runs after the case: {command}")]
    LeftOver { pid: u32, command: String },
}
