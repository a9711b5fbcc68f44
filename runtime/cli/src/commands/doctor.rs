//! `punctual doctor`: everything on the machine that will cost latency, and what corrects it.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use punctual_plan::{Board, Files, Policies};
use punctual_platform::files::write_whole;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};

use super::check::plan;
use crate::host::{self, Cores, Finding, Machine, Reference};

/// Which machine to look at, and how to say it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual doctor                        # settings of this machine that cost latency
  punctual doctor manifest.toml          # the same, for the cores of that plan
  punctual doctor --json | jq '.findings[] | select(.gravity == \"grave\")'
  punctual doctor --record machine.txt   # record it, and look at it on another machine:
  punctual doctor --root machine.txt
  punctual doctor --board jetson-agx-orin-64gb                      # what that board is to be set to, with sources
  punctual doctor --board jetson-agx-orin-64gb --power-mode MAXN --json

Reads the kernel's files and changes nothing: what was found, why it matters, its source, and the command that corrects it.
Without a manifest the first core counts as the daemon's and the others as the partitions'.

TERMINATION CODES: 0 nothing is grave; 1 something is; 3 the manifest or its plan is invalid; 4 a file is missing, unreadable or
cannot be written; 5 this process, or its control group, may not have the memory that the plan takes.")]
pub struct Options {
    /// The manifest (TOML) whose cores matter.
    manifest: Option<PathBuf>,
    /// Look at the machine whose files are in this folder, or in a file written by --record.
    #[arg(long, value_name = "PATH", default_value = "/")]
    root: PathBuf,
    /// Write the files that were read to this file.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// A profile made by `punctual profile`, as for `punctual check`.
    #[arg(long = "profile", value_name = "FILE", requires = "manifest")]
    profiles: Vec<PathBuf>,
    /// Show the settings that are published for a board, and look at no machine.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["manifest", "root", "record"])]
    board: Option<String>,
    /// The board's power mode [default: its first].
    #[arg(long, value_name = "NAME", requires = "board")]
    power_mode: Option<String>,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints what was found.
pub fn run(options: &Options, policies: &Policies) -> Termination {
    let done = match &options.board {
        Some(board) => reference(options, board).map(|()| Termination::Done),
        None => examine(options, policies),
    };
    match done {
        Ok(termination) => termination,
        Err(error) => Termination::of("doctor", Err(error)),
    }
}

/// Why a machine could not be looked at.
#[derive(Debug, thiserror::Error)]
enum HostError {
    #[error("the machine's files at {path} cannot be read: {source}")]
    Root {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the record cannot be written to {path}: {source}")]
    Record {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "there is no board {board:?}: the program has {}, and boards/{board}.toml cannot be read here",
        names()
    )]
    NoBoard { board: String },
    #[error("board {board:?} has no power mode {mode:?}, only {known}")]
    NoMode {
        board: String,
        mode: String,
        known: String,
    },
    #[error(transparent)]
    Plan(#[from] punctual_daemon::StartupError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for HostError {
    fn termination(&self) -> Termination {
        match self {
            Self::Root { .. } | Self::Record { .. } | Self::NoBoard { .. } => Termination::File,
            Self::NoMode { .. } => Termination::BadInput,
            Self::Plan(error) => Termination::Code(error.termination().code()),
            Self::Output(error) => error.termination(),
        }
    }
}

/// The boards of the program.
fn names() -> String {
    let names: Vec<&str> = Board::builtin_names().collect();
    names.join(", ")
}

fn reference(options: &Options, name: &str) -> Result<(), HostError> {
    let board = Board::named(name, &Files::of(Path::new("")));
    let board = board.ok_or_else(|| HostError::NoBoard {
        board: name.to_owned(),
    })?;
    let mode = options.power_mode.as_deref();
    let mode = mode.unwrap_or_else(|| board.default_power_mode());
    let power_mode = board.power_mode(mode).ok_or_else(|| HostError::NoMode {
        board: name.to_owned(),
        mode: mode.to_owned(),
        known: board.power_mode_names(),
    })?;
    let here = Machine::at(Path::new("/")).map(|machine| Cores::of_machine(&machine));
    let reference = Reference::of(&board, power_mode, here.unwrap_or_default());
    output::text(if options.json {
        serde_json::to_string_pretty(&reference).expect("plain data serialises") + "\n"
    } else {
        format!("{}\n{}", reference.heading(), reference.lines())
    })?;
    Ok(())
}

/// What `--json` prints.
#[derive(serde::Serialize)]
struct HostReport<'a> {
    partition_cores: &'a [u16],
    daemon_cores: &'a [u16],
    grave: bool,
    findings: Vec<FindingReport<'a>>,
}

/// A finding, with what is known of its subject.
#[derive(serde::Serialize)]
struct FindingReport<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    why: &'static str,
    source: &'static str,
}

fn examine(options: &Options, policies: &Policies) -> Result<Termination, HostError> {
    let machine = Machine::at(&options.root).map_err(|source| HostError::Root {
        path: options.root.clone(),
        source,
    })?;
    let cores = match &options.manifest {
        Some(_) => {
            let plan = plan(options.manifest.as_ref(), &options.profiles, policies)?;
            Cores::of(&plan)
        }
        None => Cores::of_machine(&machine),
    };
    let findings = host::examine(&machine, &cores);
    if let Some(path) = &options.record {
        record(&machine, path)?;
    }
    let grave = host::any_grave(&findings);
    let text = if options.json {
        json(&cores, grave, &findings)
    } else {
        let (partitions, daemon) = (host::shown(&cores.partitions), host::shown(&cores.daemon));
        let table = host::table(&findings, std::io::stdout().is_terminal());
        format!("partitions on cores {partitions}, the daemon's other threads on {daemon}\n{table}")
    };
    output::text(text)?;
    Ok(if grave {
        Termination::BadResult
    } else {
        Termination::Done
    })
}

fn record(machine: &Machine, path: &Path) -> Result<(), HostError> {
    write_whole(path, machine.record().as_bytes()).map_err(|source| HostError::Record {
        path: path.to_owned(),
        source,
    })
}

fn json(cores: &Cores, grave: bool, findings: &[Finding]) -> String {
    let findings = findings.iter().map(|finding| FindingReport {
        finding,
        why: finding.subject.why(),
        source: finding.subject.source(),
    });
    let report = HostReport {
        partition_cores: &cores.partitions,
        daemon_cores: &cores.daemon,
        grave,
        findings: findings.collect(),
    };
    serde_json::to_string_pretty(&report).expect("plain data serialises") + "\n"
}
