//! `punctual replay`: does the scheduler decide the same again, and what would another have done?

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use punctual_core::{Event, PolicySpec as _};
use punctual_evaluation::recorded::{self, File, Opened};
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_recording::replay::{ReplayError, Replayed, replay};
use punctual_recording::{End, Entry};
use punctual_simulator::audit::{Auditor, Findings};
use serde::Serialize;

use crate::{what_if, workload};

/// Which recording.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual simulate robot --seconds 5 --record robot.mcap
  punctual replay robot.mcap
  punctual replay robot.mcap --audit
  punctual replay robot.mcap --policy clockwork
  punctual replay robot.mcap --manifest examples/workload.toml --json

Gives the recorded events to a scheduler of the recorded plan and compares every action. Each segment of a recording begins
with the scheduler's state, so that one whose beginning is missing is replayed from there.

With --audit, the auditor of the simulator checks every step against the scheduler's contract. It knows nothing of what was
before, so the recording must begin where its scheduler began.

With --policy, --manifest, or both, it plays the recorded frames in virtual time instead, and shows what would have become of
them beside what became of them: the same captures, deadlines and clients. Tasks and models of the manifest are those of the
same names. A stage takes what was measured for the same frame, batch size and number of compute units; else what was measured so
for another frame; else what it took otherwise, scaled as the budgets say; else the plan's budget. Answers of exits that a frame
did not reach, and whether answers are right, are drawn by the calibration. Failures of a device are not repeated.

TERMINATION CODES: 0 it decides the same; 1 it decides otherwise, at the step that is named, or the auditor found something;
3 the file is no recording, or damaged, or cannot be played so; 4 it cannot be read.")]
pub struct Options {
    /// A recording: `punctual simulate --record` makes one.
    pub file: PathBuf,
    /// Check every step against the scheduler's contract.
    #[arg(long)]
    pub audit: bool,
    /// What if: under this policy.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// What if: under the plan of this manifest, or of this workload file.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// With --manifest: a profile made by `punctual profile`; once for each model.
    #[arg(long = "profile", value_name = "FILE", requires = "manifest")]
    pub profiles: Vec<PathBuf>,
    /// What if: seed of the times that are drawn.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Recorded(#[from] recorded::Error),
    /// What was asked for besides the recording.
    #[error(transparent)]
    Workload(#[from] workload::Error),
    #[error("{path}: {source}", path = path.display())]
    Replay {
        path: PathBuf,
        source: Box<ReplayError>,
    },
    #[error(
        "{path}: --audit needs a recording that begins where its scheduler began: what this one was told before is unknown",
        path = path.display()
    )]
    NotFromTheBeginning { path: PathBuf },
    #[error("{path}: the auditor breaks at it: the recording is damaged, or this is a defect of Punctual", path = path.display())]
    AuditorBroken { path: PathBuf },
    #[error("the auditor found {0} violations")]
    Violations(u64),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Recorded(error) => error.termination(),
            Self::Workload(error) => error.termination(),
            Self::NotFromTheBeginning { .. } | Self::AuditorBroken { .. } => Termination::BadInput,
            Self::Violations(_) => Termination::BadResult,
            Self::Replay { source, .. } => match **source {
                ReplayError::Differs { .. } | ReplayError::OtherState { .. } => {
                    Termination::BadResult
                }
                _ => Termination::BadInput,
            },
        }
    }
}

#[derive(Serialize)]
struct Report {
    policy: &'static str,
    segments: u64,
    steps: u64,
    actions: u64,
    skipped: u64,
    lost: u64,
    /// Why the file ends before its writer ended it.
    cut: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<Audit>,
}

/// What the auditor was shown, and what it found.
#[derive(Serialize)]
struct Audit {
    steps: u64,
    violations: u64,
    /// The first hundred.
    findings: Vec<String>,
}

pub fn run(options: &Options) -> Result<(), Error> {
    let file = File::read(&options.file)?;
    let opened = file.open()?;
    if options.policy.is_some() || options.manifest.is_some() {
        return what_if::run(options, &opened);
    }
    let path = opened.path.to_owned();
    let mut entries = opened.recording.entries();
    let done = replay(entries.by_ref(), &opened.setting.config, &opened.policy);
    let done = done.map_err(|source| Error::Replay {
        path,
        source: Box::new(source),
    })?;
    let cut = match entries.end() {
        Some(End::Cut { why }) => Some(why.clone()),
        _ => None,
    };
    let audit = options.audit.then(|| audit(&opened)).transpose()?;
    let report = Report::of(opened.policy.name(), done, cut, audit);
    let text = if options.json {
        serde_json::to_string_pretty(&report).expect("numbers and text") + "\n"
    } else {
        report.text()
    };
    output::text(text)?;
    match report.audit.map_or(0, |audit| audit.violations) {
        0 => Ok(()),
        violations => Err(Error::Violations(violations)),
    }
}

/// Shows a recording that was replayed to the auditor.
fn audit(opened: &Opened<'_>) -> Result<Audit, Error> {
    let path = || opened.path.to_owned();
    // A damaged recording may break what the auditor relies upon, as it may with the scheduler.
    let audited = catch_unwind(AssertUnwindSafe(|| shown(opened)));
    let audited = audited.map_err(|_| Error::AuditorBroken { path: path() })?;
    let (steps, findings) = audited.ok_or_else(|| Error::NotFromTheBeginning { path: path() })?;
    Ok(Audit {
        steps,
        violations: findings.total(),
        findings: findings.list().iter().map(ToString::to_string).collect(),
    })
}

/// How many steps the auditor saw, up to the first that is lost, and what it found; none if the recording begins later than its
/// scheduler.
fn shown(opened: &Opened<'_>) -> Option<(u64, Findings)> {
    let mut auditor = Auditor::new(&opened.setting.config, opened.policy.contract());
    let (mut begun, mut lost) = (false, false);
    let mut drained = None;
    let mut steps = 0;
    let mut entries = opened.recording.entries();
    for entry in entries.by_ref().map_while(Result::ok) {
        match entry {
            Entry::Segment {
                number: 0,
                state: None,
            } => begun = true,
            Entry::Segment { .. } if begun => {}
            Entry::Step(step) if begun => {
                let _ = auditor.step(step.now, &step.event, &step.actions);
                steps += 1;
                let ends = drained.is_some() || step.event == Event::Drain;
                drained = ends.then_some(step.now);
            }
            Entry::Lost { .. } if begun => {
                lost = true;
                break;
            }
            Entry::Sent(_) => {}
            Entry::Segment { .. } | Entry::Step(_) | Entry::Lost { .. } => return None,
        }
    }
    // Only at the end of a scheduler that was drained has every frame its verdict.
    if let Some(last) = drained
        && !lost
        && entries.end() == Some(&End::Whole)
    {
        auditor.finish(last);
    }
    begun.then(|| (steps, auditor.findings().clone()))
}

impl Report {
    fn of(policy: &'static str, done: Replayed, cut: Option<String>, audit: Option<Audit>) -> Self {
        Self {
            policy,
            segments: done.segments,
            steps: done.steps,
            actions: done.actions,
            skipped: done.skipped,
            lost: done.lost,
            cut,
            audit,
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "`{}` decides the same: {} actions in {} steps of {} segments\n",
            self.policy, self.actions, self.steps, self.segments
        );
        if self.skipped + self.lost > 0 {
            text += &format!(
                "{} steps are lost, and {} behind them have no known state\n",
                self.lost, self.skipped
            );
        }
        if let Some(why) = &self.cut {
            text += &format!("the file was cut off ({why}): what lies behind is lost\n");
        }
        if let Some(audit) = &self.audit {
            text += &audit.text();
        }
        text
    }
}

impl Audit {
    fn text(&self) -> String {
        let mut text = match self.violations {
            0 => format!("the auditor found nothing in {} steps\n", self.steps),
            found => format!(
                "the auditor found {found} violations in {} steps:\n",
                self.steps
            ),
        };
        for finding in &self.findings {
            text += &format!("  {finding}\n");
        }
        text
    }
}
