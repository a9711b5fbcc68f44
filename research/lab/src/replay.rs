//! `punctual replay`: does the scheduler decide the same again?

use std::path::PathBuf;

use punctual_core::PolicySpec as _;
use punctual_plan::WrittenPolicyError;
use punctual_platform::output::{self, OutputError};
use punctual_platform::read;
use punctual_platform::termination::{Terminates, Termination};
use punctual_recording::replay::{ReplayError, Replayed, replay};
use punctual_recording::{End, ReadError, Recording};
use serde::Serialize;

/// Which recording.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual simulate robot --seconds 5 --record robot.mcap
  punctual replay robot.mcap
  punctual replay robot.mcap --json

Gives the recorded events to a scheduler of the recorded plan and compares every action. Each segment of a recording begins
with the scheduler's state, so that one whose beginning is missing is replayed from there.

TERMINATION CODES: 0 it decides the same; 1 it decides otherwise, at the step that is named; 3 the file is no recording, or
damaged; 4 it cannot be read.")]
pub struct Options {
    /// A recording: `punctual simulate --record` makes one.
    file: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The longest recording that is read: hours of a busy daemon.
const BYTES_MAX: u64 = 4 << 30;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {source}", path = path.display())]
    Read { path: PathBuf, source: ReadError },
    #[error("{path}: its scheduler: {source}", path = path.display())]
    Policy {
        path: PathBuf,
        source: WrittenPolicyError,
    },
    #[error("{path}: {source}", path = path.display())]
    Replay {
        path: PathBuf,
        source: Box<ReplayError>,
    },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::File { .. } => Termination::File,
            Self::Read { .. } | Self::Policy { .. } => Termination::BadInput,
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
}

pub fn run(options: &Options) -> Result<(), Error> {
    let path = &options.file;
    let file = |source| Error::File {
        path: path.clone(),
        source,
    };
    let bytes = read::bytes(path, BYTES_MAX).map_err(file)?;
    let unreadable = |source| Error::Read {
        path: path.clone(),
        source,
    };
    let recording = Recording::of(&bytes).map_err(unreadable)?;
    let setting = recording.setting().map_err(unreadable)?;
    let policy = punctual_baselines::all().written(&setting.policy);
    let policy = policy.map_err(|source| Error::Policy {
        path: path.clone(),
        source,
    })?;
    let mut entries = recording.entries();
    let done = replay(entries.by_ref(), &setting.config, &policy);
    let done = done.map_err(|source| Error::Replay {
        path: path.clone(),
        source: Box::new(source),
    })?;
    let cut = match entries.end() {
        Some(End::Cut { why }) => Some(why.clone()),
        _ => None,
    };
    let report = Report::of(policy.name(), done, cut);
    let text = if options.json {
        serde_json::to_string_pretty(&report).expect("numbers and text") + "\n"
    } else {
        report.text()
    };
    Ok(output::text(text)?)
}

impl Report {
    fn of(policy: &'static str, done: Replayed, cut: Option<String>) -> Self {
        Self {
            policy,
            segments: done.segments,
            steps: done.steps,
            actions: done.actions,
            skipped: done.skipped,
            lost: done.lost,
            cut,
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
        text
    }
}
