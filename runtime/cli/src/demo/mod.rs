//! `punctual demo`: a real daemon, three real camera processes, a live table, a verdict.

mod cameras;
mod processes;
mod summary;
pub mod table;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitStatus;

use punctual_daemon::Report;
use punctual_platform::OsError;
use punctual_platform::clock;
use punctual_platform::output::{self, OutputError};
use punctual_platform::signals::TerminationSignals;

use crate::cache;
use crate::report::CameraReport;
use punctual_platform::termination::{Terminates, Termination};

use cameras::{CAMERAS, CameraRole};
use processes::{Camera, Daemon};
use summary::{Summary, TaskSummary};
use table::Row;

/// The manifest that the demo serves, embedded so that it works from any folder.
const MANIFEST: &str = include_str!("manifest.toml");

/// The compiled network, likewise.
const PACKAGE: &[u8] = include_bytes!("../../../../models/signs/signs.punctual");

/// How often the table is drawn, in milliseconds.
const REDRAW_MS: u64 = 500;

/// How long the cameras may take to draw their scenes and to end by themselves, in milliseconds.
const START_MS: u64 = 60_000;

/// How long a process may take to end after it was asked to, in milliseconds.
const END_MS: u64 = 5_000;

/// The longest demo, in seconds.
const SECONDS_MAX: f64 = 86_400.0;

/// How to run the demo.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual demo
  punctual demo --seconds 60 --overload 4
  punctual demo --seconds 3 --json | jq .tasks[0].on_time

The first run measures the network on this machine for a few seconds and keeps the result in the
user's cache folder. Real-time priorities and locked memory are used if the system grants them; the
demo says once what is missing and how to grant it.

A frame without a deadline (of `watch`) is answered, and neither on time nor late.

TERMINATION CODES: 0 nothing was lost and every process ended cleanly; 1 otherwise.")]
pub struct Options {
    /// How long the cameras send frames, in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
    /// Multiply the cameras' rates.
    #[arg(long, default_value_t = 1.0, value_parser = overload, value_name = "X", allow_negative_numbers = true)]
    overload: f64,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Measure the network again, even if this machine has a profile of it.
    #[arg(long)]
    profile_again: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    between(text, 0.1, SECONDS_MAX)
}

fn overload(text: &str) -> Result<f64, String> {
    between(text, 0.1, 100.0)
}

fn between(text: &str, low: f64, high: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => Err(format!("must be a number from {low} to {high}")),
    }
}

/// Why the demo could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("cannot write {path}: {source}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot start a process of the demo: {0}")]
    Spawn(std::io::Error),
    #[error("the daemon terminated before it was ready ({status}); its messages are above")]
    NotReady { status: ExitStatus },
    #[error(transparent)]
    Cache(#[from] cache::CacheError),
    #[error("the daemon's report: {0}")]
    Report(#[from] punctual_daemon::ReportError),
    #[error("cannot wait for signals: {0}")]
    Signals(OsError),
    /// Standard output takes no more; everything was ended.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for DemoError {
    fn termination(&self) -> Termination {
        match self {
            Self::Write { .. } => Termination::File,
            Self::Spawn(_) | Self::Signals(_) => Termination::Resources,
            Self::NotReady { .. } | Self::Report(_) => Termination::BadResult,
            Self::Cache(error) => error.termination(),
            Self::Output(error) => error.termination(),
        }
    }
}

/// Runs the demo and prints its result.
pub fn run(options: &Options) -> Termination {
    match show(options) {
        Ok(true) => Termination::Done,
        Ok(false) => Termination::BadResult,
        Err(error) => Termination::of("demo", Err(error)),
    }
}

/// Starts everything, watches it, stops it; true when the demo did its job.
fn show(options: &Options) -> Result<bool, DemoError> {
    let folder = Folder::create()?;
    let manifest = folder.write("manifest.toml", MANIFEST.as_bytes())?;
    folder.write("signs.punctual", PACKAGE)?;
    let profile = cache::profile(&manifest, MANIFEST, options.profile_again)?;
    let socket = folder.path("punctuald.sock");
    let report_file = folder.path("report.json");

    let signals = TerminationSignals::take_over().map_err(DemoError::Signals)?;
    if !options.json {
        output::line(format_args!(
            "starting punctuald and {} camera processes ...",
            CAMERAS.len()
        ))?;
    }
    let mut daemon = Daemon::start(&manifest, &profile, &socket, &report_file)?;
    let mut cameras = Vec::new();
    for role in CAMERAS {
        cameras.push(Camera::start(&role.arguments(
            &socket,
            options.seconds,
            options.overload,
        ))?);
    }
    let (mut rows, drawn) = watch(&mut daemon, &mut cameras, &signals, options);
    let mut clean = true;
    for (camera, (role, row)) in cameras.into_iter().zip(CAMERAS.iter().zip(&mut rows)) {
        let (status, last_words) = camera.wait(END_MS);
        row.hear(last_words);
        clean &= ended_well(&format!("camera {}", role.task), status);
    }
    clean &= ended_well("daemon", daemon.stop(END_MS));
    drawn?;
    let report = Report::read(&report_file)?;
    let summary = summarise(&report, &rows, clean);
    print(&summary, &rows, options)?;
    Ok(summary.succeeded())
}

/// Draws the table until every camera has finished, or a signal, the daemon's end, or a closed standard output stops
/// them.
fn watch(
    daemon: &mut Daemon,
    cameras: &mut [Camera],
    signals: &TerminationSignals,
    options: &Options,
) -> (Vec<Row>, Result<(), OutputError>) {
    let silent = |role: &CameraRole| CameraReport {
        task: role.task.to_owned(),
        ..CameraReport::default()
    };
    let mut rows: Vec<Row> = CAMERAS.iter().map(silent).map(Row::whole).collect();
    let mut drawn = Ok(());
    let mut screen = Screen::new(!options.json);
    let mut stopping = false;
    let mut drawn_ns = clock::now_ns();
    // The cameras end by themselves; this bound is for those that do not.
    let last_ns = drawn_ns + (options.seconds * 1e9) as u64 + START_MS * 1_000_000;
    while cameras.iter().any(Camera::open) && clock::now_ns() < last_ns {
        processes::wait_for_words(cameras, REDRAW_MS / 5);
        for (camera, row) in cameras.iter_mut().zip(&mut rows) {
            row.hear(camera.lines());
        }
        if !stopping && (signals.next(Some(0)).is_some() || daemon.terminated() || drawn.is_err()) {
            cameras.iter().for_each(Camera::stop);
            stopping = true;
        }
        let now_ns = clock::now_ns();
        if now_ns.saturating_sub(drawn_ns) >= REDRAW_MS * 1_000_000 {
            // Before its first frame a camera draws its scenes.
            if drawn.is_ok() && rows.iter().any(|row| row.now.submitted > 0) {
                drawn = screen.draw(&table::draw(&rows, output::width()));
            }
            rows.iter_mut().for_each(|row| row.before = row.now.clone());
            drawn_ns = now_ns;
        }
    }
    rows.iter_mut()
        .for_each(|row| row.before = CameraReport::default());
    (rows, drawn)
}

fn summarise(report: &Report, rows: &[Row], clean: bool) -> Summary {
    let stalls = &report.host_stalls;
    let tasks = rows
        .iter()
        .zip(CAMERAS)
        .map(|(row, role)| TaskSummary::new(role.criticality(), &row.now, &stalls.list))
        .collect();
    Summary {
        seconds: rows.iter().map(|row| row.now.seconds).fold(0.0, f64::max),
        board: report.board.clone(),
        device: report.device.clone(),
        tasks,
        host_stalls: stalls.count,
        host_stall_us_max: stalls.longest_us,
        allocations_after_ready: report.allocations_after_ready,
        allocations_elsewhere: report.allocations_elsewhere,
        page_faults_after_ready: report.page_faults_after_ready,
        decision_us: report.decision_us.into(),
        privileges_missing: report.missing.clone(),
        clean: clean && rows.iter().all(|row| row.now.finished),
    }
}

fn print(summary: &Summary, rows: &[Row], options: &Options) -> Result<(), OutputError> {
    if options.json {
        return output::line(serde_json::to_string_pretty(summary).expect("plain data serialises"));
    }
    output::text(table::closing(summary, rows, options.overload))
}

fn ended_well(what: &str, status: std::io::Result<ExitStatus>) -> bool {
    match status {
        Ok(status) if status.success() => true,
        Ok(status) => {
            output::note(format_args!("punctual demo: {what} ended with {status}"));
            false
        }
        Err(error) => {
            output::note(format_args!(
                "punctual demo: {what} could not be waited for: {error}"
            ));
            false
        }
    }
}

/// The demo's own folder, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Self, DemoError> {
        let path = std::env::temp_dir().join(format!("punctual-demo-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|source| DemoError::Write {
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, DemoError> {
        let path = self.path(name);
        std::fs::write(&path, content).map_err(|source| DemoError::Write {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed from a temporary folder is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where the live table goes: in place on a terminal, otherwise nowhere but one line a second
/// would be noise in a log, so only every tenth drawing.
struct Screen {
    shown: bool,
    terminal: bool,
    lines: usize,
    drawings: u64,
}

impl Screen {
    fn new(shown: bool) -> Self {
        Self {
            shown,
            terminal: std::io::stdout().is_terminal(),
            lines: 0,
            drawings: 0,
        }
    }

    fn draw(&mut self, table: &str) -> Result<(), OutputError> {
        self.drawings += 1;
        if !self.shown || (!self.terminal && !self.drawings.is_multiple_of(10)) {
            return Ok(());
        }
        // Up by the table's height, whose lines fit the terminal, and cleared from there.
        let above = match self.lines {
            lines @ 1.. if self.terminal => format!("\x1b[{lines}A\x1b[J"),
            _ => String::new(),
        };
        self.lines = table.lines().count();
        output::text(format_args!("{above}{table}"))
    }
}
