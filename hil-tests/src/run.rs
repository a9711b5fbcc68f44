//! A run: the target is looked at and prepared, cases are chosen, played and reported.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use punctual_client::now_ns;
use punctual_platform::output::{self, OutputError};
use punctual_report::Table;

use crate::bed::Setting;
use crate::bounds::{Bounds, BoundsError};
use crate::case::Case;
use crate::facts::{Facts, Leave};
use crate::outcome::{CaseReport, Outcome, RunReport};
use crate::report::{self, WriteError};
use crate::stage::{Binaries, Stage, StageError};
use crate::suites;
use crate::target::{Place, Script, Target, TargetError};
use crate::termination::Termination;

/// Form of the JSON report.
const FORMAT: u32 = 1;

/// How long the first look at the target may take.
const PROBE_NS: u64 = 60_000_000_000;

/// Command line of a run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// `local`, or `ssh:HOST` for a machine that `ssh` reaches without a password.
    #[arg(long, default_value = "local")]
    target: Place,
    /// The board, with bounds in `hil-tests/bounds/NAME.toml`.
    #[arg(long, default_value = "host")]
    board: String,
    /// A file of bounds, instead of the board's.
    #[arg(long, value_name = "FILE")]
    bounds: Option<PathBuf>,
    /// Only these suites, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    suite: Vec<String>,
    /// Only this case, `SUITE/NAME`; once for each.
    #[arg(long, value_name = "SUITE/NAME")]
    case: Vec<String>,
    /// Folder of `punctuald` and `punctual` on the target, relative to where its shell starts; otherwise those in its PATH.
    #[arg(long, value_name = "DIR")]
    bin: Option<String>,
    /// Folder of another version's programs on the target, for the upgrade case.
    #[arg(long, value_name = "DIR")]
    old_bin: Option<String>,
    /// `channel-torture`, on the target, for the case that uses it.
    #[arg(long, value_name = "FILE")]
    torture: Option<String>,
    /// This program built for the target, if the target's architecture differs from this machine's.
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Seed of all random choices: moments of kills, bytes of the hostile client.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of a soak, in hours.
    #[arg(long, default_value_t = 0.1, value_parser = hours)]
    hours: f64,
    /// How long a daemon may take to get ready, and to give its last verdicts, in seconds.
    #[arg(long, default_value_t = 30, value_name = "S")]
    patience: u64,
    /// Allow cases that disturb the whole machine: its clock, its processors, its power mode.
    #[arg(long)]
    disruptive: bool,
    /// Measure the network for minutes rather than seconds first.
    #[arg(long)]
    thorough_profile: bool,
    /// Write `report.json`, `report.html` and `junit.xml` here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// List the cases that would be run, and do nothing.
    #[arg(long)]
    list: bool,
}

fn hours(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(hours) if (0.001..=10_000.0).contains(&hours) => Ok(hours),
        _ => Err("must be a number from 0.001 to 10000"),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A suite or case that there is not.
    #[error("there is no {kind} `{name}`; there are: {}", known.join(", "))]
    NoSuch {
        kind: &'static str,
        name: String,
        known: Vec<String>,
    },
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl RunError {
    fn termination(&self) -> Termination {
        match self {
            Self::NoSuch { .. } => Termination::BadInput,
            Self::Output(OutputError::ReaderGone) => Termination::ReaderGone,
            Self::Bounds(BoundsError::Read { .. }) | Self::Write(_) | Self::Output(_) => {
                Termination::File
            }
            Self::Bounds(_) => Termination::BadInput,
            Self::Target(TargetError::Interrupted { .. })
            | Self::Stage(StageError::Target(TargetError::Interrupted { .. })) => {
                Termination::Interrupted
            }
            Self::Signals(_) | Self::Target(_) | Self::Stage(_) => Termination::Target,
        }
    }
}

/// Runs, and says on standard error why it could not.
#[must_use]
pub fn run(options: &Options) -> Termination {
    go(options).unwrap_or_else(|error| {
        let termination = error.termination();
        if termination != Termination::ReaderGone {
            output::note(format_args!("punctual-hil: {error}"));
        }
        termination
    })
}

fn go(options: &Options) -> Result<Termination, RunError> {
    let cases = chosen(options)?;
    if options.list {
        list(&cases)?;
        return Ok(Termination::Passed);
    }
    let measures = suites::measures();
    let bounds = match &options.bounds {
        Some(path) => Bounds::of_file(path, &measures)?,
        None => Bounds::of_board(&options.board, &measures)?,
    };
    let target = Target::new(options.target.clone())
        .interruptible()
        .map_err(RunError::Signals)?;
    let facts = Facts::probe(&target, now_ns() + PROBE_NS)?;
    let here = said(&target, "pwd", "")?;
    let binaries = Binaries {
        folder: options.bin.as_ref().map(|path| absolute(&here, path)),
        old_folder: options.old_bin.as_ref().map(|path| absolute(&here, path)),
        agent: options.agent.clone(),
        torture: options.torture.as_ref().map(|path| absolute(&here, path)),
        thorough: options.thorough_profile,
    };
    // Unique among runs from this machine, and short: sockets have at most 107 bytes for a path.
    let mark = format!("{}-{}", std::process::id(), now_ns() / 1_000_000_000);
    let mut progress = Progress::new(options, cases.len());
    progress.say(&format!(
        "preparing {} ({}, {})",
        target.place(),
        facts.machine,
        facts.system
    ));
    let stage = Stage::named(&options.board, &mark, &binaries);
    if let Err(error) = stage.prepare(&target, &facts, &binaries) {
        // What hindered the preparation may hinder this too; the first error is the one to mend.
        let _ = stage.strike(&target);
        return Err(error.into());
    }
    let mut report = RunReport {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        target: target.place().to_string(),
        board: options.board.clone(),
        bounds: bounds.file.clone(),
        daemon: said(&target, "\"$1\" --version", &stage.daemon)?,
        began: said(&target, "date -u +%Y-%m-%dT%H:%M:%SZ", "")?,
        seed: options.seed,
        facts: facts.clone(),
        cases: Vec::new(),
    };
    let setting = Setting {
        target: &target,
        stage: &stage,
        facts: &facts,
        bounds: &bounds,
        seed: options.seed,
        hours: options.hours,
        patience_s: options.patience,
    };
    for case in cases {
        progress.begin(case);
        let played = play(case, setting, options);
        progress.end(&played);
        report.cases.push(played);
        if target.was_interrupted() {
            break;
        }
    }
    stage.strike(&target)?;
    if let Some(folder) = &options.out {
        report::write(&report, folder)?;
    }
    if options.json {
        output::line(report::json(&report))?;
    }
    progress.close(&report);
    if target.was_interrupted() {
        return Ok(Termination::Interrupted);
    }
    Ok(ending(&report))
}

/// How a run with this report ends.
fn ending(report: &RunReport) -> Termination {
    if report.count(Outcome::Failed) > 0 {
        Termination::Failed
    } else if report.count(Outcome::Passed) == 0 {
        Termination::NothingRun
    } else {
        Termination::Passed
    }
}

fn said(target: &Target, text: &'static str, argument: &str) -> Result<String, TargetError> {
    let script = Script::new("describe the target", text).with([argument]);
    Ok(target.run(&script, now_ns() + PROBE_NS)?.text())
}

/// Where `path` leads from `here`: cases run in folders of their own.
fn absolute(here: &str, path: &str) -> String {
    let path = Path::new(here.trim_end()).join(path);
    path.display().to_string()
}

/// Plays a case, or says why not.
fn play(case: &Case, setting: Setting<'_>, options: &Options) -> CaseReport {
    let asked =
        options.suite.iter().any(|name| name == case.suite) || options.case.contains(&case.path());
    let leave = Leave {
        disruption: options.disruptive,
        old_binaries: setting.stage.old_daemon.is_some(),
        torture: setting.stage.torture.is_some(),
        asked,
    };
    match setting.facts.missing(case.needs, leave) {
        None => case.play(setting),
        Some(missing) => CaseReport {
            suite: case.suite,
            name: case.name,
            about: case.about,
            outcome: Outcome::Skipped,
            skipped_because: Some(missing.to_string()),
            seconds: 0.0,
            findings: Vec::new(),
            measures: Vec::new(),
            effects: Vec::new(),
            histograms: Vec::new(),
        },
    }
}

fn chosen(options: &Options) -> Result<Vec<&'static Case>, RunError> {
    let all = suites::all();
    let suites = suites::names().into_iter().map(str::to_owned).collect();
    let paths = all.iter().map(|case| case.path()).collect();
    known("suite", &options.suite, suites)?;
    known("case", &options.case, paths)?;
    let everything = options.suite.is_empty() && options.case.is_empty();
    let wanted = |case: &&Case| {
        everything
            || options.suite.iter().any(|name| name == case.suite)
            || options.case.contains(&case.path())
    };
    Ok(all.into_iter().filter(wanted).collect())
}

fn known(kind: &'static str, names: &[String], known: Vec<String>) -> Result<(), RunError> {
    match names.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(RunError::NoSuch {
            kind,
            name: name.clone(),
            known,
        }),
    }
}

fn list(cases: &[&Case]) -> Result<(), OutputError> {
    let mut table = Table::list();
    for case in cases {
        table.row([&case.path(), case.about]);
    }
    output::text(format_args!("{table:0$}", output::width()))
}

/// What a person sees meanwhile: on standard error, in place on a terminal.
struct Progress {
    terminal: bool,
    done: usize,
    all: usize,
}

impl Progress {
    fn new(options: &Options, all: usize) -> Self {
        let terminal = std::io::stderr().is_terminal() && !options.json;
        Self {
            terminal,
            done: 0,
            all,
        }
    }

    fn say(&self, words: &str) {
        let mut out = std::io::stderr().lock();
        // A failure to print it is ignored.
        let _ = if self.terminal {
            write!(out, "\r\x1b[2K{words} ...").and_then(|()| out.flush())
        } else {
            writeln!(out, "{words} ...")
        };
    }

    fn begin(&mut self, case: &Case) {
        self.done += 1;
        if self.terminal {
            self.say(&format!("[{}/{}] {}", self.done, self.all, case.path()));
        }
    }

    fn end(&self, report: &CaseReport) {
        let (colour, word) = match report.outcome {
            Outcome::Passed => ("32", "passed"),
            Outcome::Failed => ("31", "FAILED"),
            Outcome::Skipped => ("33", "skipped"),
        };
        let word = if self.terminal {
            format!("\r\x1b[2K\x1b[{colour}m{word:<7}\x1b[0m")
        } else {
            format!("{word:<7}")
        };
        let path = format!("{}/{}", report.suite, report.name);
        output::note(format_args!(
            "{word} {path:<34} {:>6.1} s  {}",
            report.seconds,
            report.skipped_because.as_deref().unwrap_or_default()
        ));
        for finding in &report.findings {
            output::note(format_args!("        {finding}"));
        }
    }

    fn close(&self, report: &RunReport) {
        let count = |outcome| report.count(outcome);
        output::note(format_args!(
            "{} passed, {} failed, {} skipped on {} as board `{}` ({})",
            count(Outcome::Passed),
            count(Outcome::Failed),
            count(Outcome::Skipped),
            report.target,
            report.board,
            report.daemon,
        ));
    }
}
