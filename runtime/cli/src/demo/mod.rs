//! `punctual demo`: a real daemon, four real camera processes, a live table, a verdict; on request a page to look at.

pub mod cameras;
mod error;
mod page;
mod processes;
mod promises;
mod summary;
pub mod table;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use punctual_daemon::{Process, Report};
use punctual_device::profile::Effort;
use punctual_device_cpu::images::{self, ImageError};
use punctual_model::{Package, Profile};
use punctual_platform::output::{self, OutputError};
use punctual_platform::{affinity, clock, files, read};

use crate::cache;
use crate::folder::Folder;
use crate::interruption::Interruption;
use crate::report::CameraReport;
use punctual_platform::termination::Termination;

use cameras::{CAMERAS, CameraRole};
pub use error::DemoError;
use processes::Camera;
pub(crate) use processes::this_program;
use promises::Promises;
use summary::{Summary, TaskSummary};
use table::Row;

/// The manifest that the demo serves, embedded so that it works from any folder.
pub const MANIFEST: &str = include_str!("manifest.toml");

/// The compiled networks, likewise.
pub const SIGNS: &[u8] = include_bytes!("../../../../models/signs/signs.punctual");
pub const STREETS: &[u8] = include_bytes!("../../../../models/streets/streets.punctual");

/// Those that the manifest names, by their files.
pub const PACKAGES: [(&str, &[u8]); 2] = [("signs.punctual", SIGNS), ("streets.punctual", STREETS)];

/// The same packed for this machine's processor, as `punctual compile` does it: what the sources keep has no packed weights.
pub fn packed() -> Result<Vec<(&'static str, Vec<u8>)>, ImageError> {
    let lanes = [punctual_device_cpu::lanes()];
    let packed = PACKAGES.into_iter().map(|(name, package)| {
        let package = images::add(Package::decode(package)?, &lanes)?;
        Ok((name, package.encode()))
    });
    packed.collect()
}

/// With one, the daemon's own threads would delay each stage by more than the fast camera's deadline leaves.
const CORES_MIN: usize = 2;

/// The folder of recordings, in the demo's.
const RECORDINGS: &str = "recordings";

/// How often the table is drawn, in milliseconds.
const REDRAW_MS: u64 = 500;

/// How long the cameras may take to draw their scenes and to end by themselves, in milliseconds.
const START_MS: u64 = 60_000;

/// How long a process may take to end after it was asked to, in milliseconds.
const END_MS: u64 = 5_000;

/// With a page, the demo runs at the cameras' own rates, and then, if nothing else is asked for, at this many times them, or at
/// as many more as it takes until full depth for all frames would need this many cores.
const OVERLOAD_SHOWN: f64 = 4.0;
const DEMAND_SHOWN: f64 = 2.0;

/// The longest demo, in seconds.
const SECONDS_MAX: f64 = 86_400.0;

/// How to run the demo.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual demo
  punctual demo --seconds 60 --overload 4
  punctual demo --seconds 3 --json | jq .tasks[0].on_time
  punctual demo --html demo.html
  punctual demo --html demo.html --overload 8
  punctual demo --seconds 3 --record demo.mcap

The first run measures the networks on this machine, which takes about 25 seconds, and keeps the results in the
user's cache folder. Real-time priorities and locked memory are used if the system grants them; the
demo says once what is missing and how to grant it.

A frame without a deadline (of `watch`) is answered, and neither on time nor late. The column `right` is the
share of right classes, or the mean average precision of boxes (mAP, at an overlap of 0.5).

Where the machine is too slow or too busy for the cameras' rates, they send fewer frames, and the demo says so.

TERMINATION CODES: 0 nothing was lost and every process ended cleanly; 130 interrupted; 1 otherwise.")]
pub struct Options {
    /// How long the cameras send frames, in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
    /// Multiply the cameras' rates; absent: 1.
    #[arg(long, value_parser = overload, value_name = "X", allow_negative_numbers = true)]
    overload: Option<f64>,
    /// Run twice, at the cameras' own rates and at --overload (absent: 4, or what is too much for this
    /// machine), and write a page that shows frames of each camera with their answers at both.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write everything that the scheduler was told and decided into a recording, for `punctual explain`, `trace` and `replay`.
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    record: Option<PathBuf>,
    /// Print a JSON object instead of tables; with --html a list of one for each run.
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

/// Runs the demo and prints its result.
pub fn run(options: &Options) -> Termination {
    match show(options) {
        Ok(termination) => termination,
        Err(error) => Termination::of("demo", Err(error)),
    }
}

/// Runs the demo at each load, and writes the page.
fn show(options: &Options) -> Result<Termination, DemoError> {
    let found = affinity::available_cores().map_or(CORES_MIN, |cores| cores.len());
    if found < CORES_MIN {
        return Err(DemoError::Cores { found });
    }
    let folder = Folder::create("demo").map_err(DemoError::Folder)?;
    // Before anything starts a thread.
    let interruption = Interruption::take_over("demo", folder.as_path().to_owned())?;
    let recorder = recorder(&folder, options.record.is_some());
    for (name, package) in packed()? {
        folder.write(name, &package).map_err(DemoError::Folder)?;
    }
    let Promises { profiles, slower } =
        promises::prepare(&folder, &recorder, options.profile_again)?;
    let mut runs: Vec<Run> = Vec::new();
    for overload in options.loads(&profiles) {
        let run = run_once(&folder, &interruption, overload / slower, options)?;
        if !options.json {
            output::text(table::closing(&run.summary, &run.rows, run.overload))?;
        }
        let interrupted = run.summary.interrupted;
        runs.push(run);
        if interrupted {
            break;
        }
    }
    if options.json {
        print(&runs, options)?;
    }
    if let Some(path) = &options.html {
        let content = page::html(&runs)?;
        let written = files::write_whole(path, content.as_bytes());
        written.map_err(|source| DemoError::Write {
            path: path.clone(),
            source,
        })?;
    }
    if let Some(path) = &options.record {
        hand_over_recording(&folder.path(RECORDINGS), path)?;
    }
    Ok(match () {
        () if runs.iter().any(|run| run.summary.interrupted) => Termination::Interrupted,
        () if runs.iter().all(|run| run.summary.succeeded()) => Termination::Done,
        () => Termination::BadResult,
    })
}

/// The manifest's table: one file of everything, or nothing.
fn recorder(folder: &Folder, records: bool) -> String {
    if !records {
        return "\n[recorder]\nmode = \"off\"\n".to_owned();
    }
    let directory = folder.path(RECORDINGS);
    format!("\n[recorder]\nmode = \"all\"\nbudget_mb = 1000000\ndirectory = {directory:?}\n")
}

/// Profiles of the demo's networks on this machine, which also lie next to the packages of `manifest` then, a file with
/// [`MANIFEST`]; for benchmarks. They are measured if there are none, or none by which the manifest can be promised.
pub fn profiles(manifest: &Path) -> Result<BTreeMap<String, Profile>, DemoError> {
    let measure = |again| cache::profiles(manifest, MANIFEST, Effort::Quick, again, true);
    let mut found = measure(false)?;
    // Kept figures may be from a busy time.
    if !found.is_new && promises::problem(manifest)?.is_some() {
        found = measure(true)?;
    }
    Ok(found.profiles)
}

/// The same, and the demo's manifest at `manifest`, with as few frames as this machine can promise.
pub fn promised(manifest: &Path) -> Result<(), DemoError> {
    profiles(manifest)?;
    let slower = promises::slow_down(manifest, "")?;
    if slower > 1.0 {
        output::note(format_args!(
            "the demo's rates cannot be promised here: its cameras send {slower} times fewer frames, each due as much later"
        ));
    }
    Ok(())
}

/// One run of the demo, from the start of the daemon to its end.
struct Run {
    /// By which the cameras' rates were multiplied.
    overload: f64,
    summary: Summary,
    rows: Vec<Row>,
}

impl Options {
    fn loads(&self, profiles: &BTreeMap<String, Profile>) -> Vec<f64> {
        match self.html {
            None => vec![self.overload.unwrap_or(1.0)],
            Some(_) => vec![
                1.0,
                self.overload.unwrap_or_else(|| overload_shown(profiles)),
            ],
        }
    }
}

/// At how many times the cameras' rates this machine has to answer shallower.
fn overload_shown(profiles: &BTreeMap<String, Profile>) -> f64 {
    let demand = |role: &CameraRole| {
        let profile = &profiles[role.network()];
        let single = profile.stages.iter().filter(|entry| entry.batch == 1);
        let full_depth_ns: u64 = single.map(|entry| entry.p50_ns).sum();
        role.fps.unwrap_or(0.0) * full_depth_ns as f64 / 1e9
    };
    let demand: f64 = CAMERAS.iter().map(demand).sum();
    (DEMAND_SHOWN / demand).ceil().max(OVERLOAD_SHOWN)
}

/// Starts everything, watches it, stops it.
fn run_once(
    folder: &Folder,
    interruption: &Interruption,
    overload: f64,
    options: &Options,
) -> Result<Run, DemoError> {
    let socket = folder.path("punctuald.sock");
    let report_file = folder.path("report.json");
    if !options.json {
        output::line(format_args!(
            "starting punctuald and {} camera processes ...",
            CAMERAS.len()
        ))?;
    }
    let mut daemon = processes::daemon(&folder.path("manifest.toml"), &socket, &report_file)?;
    let mut cameras = Vec::new();
    for role in CAMERAS {
        cameras.push(Camera::start(&role.arguments(
            &socket,
            options.seconds,
            overload,
        ))?);
    }
    let watched = watch(&mut daemon, &mut cameras, interruption, options);
    let mut rows = watched.rows;
    let mut clean = true;
    for (camera, (role, row)) in cameras.into_iter().zip(CAMERAS.iter().zip(&mut rows)) {
        let (status, last_words) = camera.wait(END_MS);
        row.hear(last_words);
        clean &= ended_well(&format!("camera {}", role.task), status);
    }
    daemon.terminate();
    clean &= ended_well("daemon", daemon.wait_for(END_MS));
    watched.drawn?;
    let report = Report::read(&report_file)?;
    Ok(Run {
        overload,
        summary: Summary {
            interrupted: watched.interrupted,
            ..summarise(&report, &rows, clean)
        },
        rows,
    })
}

/// What the table showed at last.
struct Watched {
    rows: Vec<Row>,
    drawn: Result<(), OutputError>,
    interrupted: bool,
}

/// Draws the table until every camera has finished, or a signal, the daemon's end, or a closed standard output stops
/// them.
fn watch(
    daemon: &mut Process,
    cameras: &mut [Camera],
    interruption: &Interruption,
    options: &Options,
) -> Watched {
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
        if rows.iter().any(|row| row.now.submitted > 0) {
            interruption.has_something();
        }
        if !stopping && (interruption.is_asked() || daemon.has_ended() || drawn.is_err()) {
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
    Watched {
        rows,
        drawn,
        interrupted: interruption.is_asked(),
    }
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
        interrupted: false,
    }
}

/// One document: of one run, or of all that the page shows.
fn print(runs: &[Run], options: &Options) -> Result<(), OutputError> {
    let summaries: Vec<&Summary> = runs.iter().map(|run| &run.summary).collect();
    let json = match &summaries[..] {
        [one] if options.html.is_none() => serde_json::to_string_pretty(one),
        all => serde_json::to_string_pretty(all),
    };
    output::line(json.expect("plain data serialises"))
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

/// Moves the recording of the run out, which may be to another disk.
fn hand_over_recording(recordings: &Path, to: &Path) -> Result<(), DemoError> {
    let mut found = std::fs::read_dir(recordings)
        .map_err(|_| DemoError::NotRecorded)?
        .filter_map(Result::ok);
    let recorded = found.next().ok_or(DemoError::NotRecorded)?.path();
    let copied = read::open(&recorded).and_then(|mut recording| {
        files::write_whole_with(to, |out| std::io::copy(&mut recording, out).map(drop))
    });
    copied.map_err(|source| DemoError::Write {
        path: to.to_owned(),
        source,
    })
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
