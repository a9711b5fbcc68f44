//! `punctual bench overhead`: the cost of a frame without its network, which takes a few microseconds.

mod looped;
mod watchers;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use punctual_client::{Client, Crop, Lost, Options as ClientOptions, PixelFormat, now_ns};
use punctual_conformance::networks;
use punctual_daemon::{Process, ReportError};
use punctual_model::{Calibration, Package, PackageError};
use punctual_platform::clock::sleep_until_ns;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_platform::{affinity, thread::current_tid};
use punctual_report::{Column, Table};
use serde::Serialize;

use crate::programs::{self, Folder, ProgramError, Programs};
use crate::usage::{Usage, UsageError};
use looped::{LoopError, Looped};
use watchers::Watchers;

/// How long, how often and with which daemons.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench overhead
  punctual bench overhead --bin before --bin target/release --turns 6
  punctual bench overhead --rate 100 --seconds 20 --json
  punctual bench overhead --idle-latency-us 0
  punctual bench overhead --recorder --rate 200
  punctual bench overhead --watched 30 --rate 200

One camera with a network of some microseconds, served in turns by punctuald and by a loop: a real-time thread that the
camera wakes for each frame, and that wakes the camera. The network runs on the last core, the daemon's other threads on the
first; the camera is on the first in one turn and on the last in the next. Times are from a frame's submission until its
answer is read; processor time and context switches are those of the daemon's threads, also while they wait for frames, or
of the loop's. It needs two cores. Programs of several folders are compared with each other; they must speak one version of
the channel. With --recorder, each daemon also serves with its black box (`[recorder]`), in turns with itself without; with --watched, also
while so many read its report once a second, as each `punctual top` does.

TERMINATION CODES: 0 done; 4 a file cannot be written; 5 memory, threads or a daemon are unavailable.")]
pub struct Options {
    /// Turns of each side.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Frames a second.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// The daemons' `idle_latency_us`: no core enters an idle state that takes longer to leave.
    #[arg(long, value_name = "US")]
    idle_latency_us: Option<u32>,
    /// Also with a black box.
    #[arg(long)]
    recorder: bool,
    /// Also with this many readers of the daemon's report.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    watched: Option<u32>,
    /// A folder with the program punctuald; may be given several times [default: that of this program].
    #[arg(long, value_name = "FOLDER")]
    bin: Vec<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Loop(#[from] LoopError),
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error("a reader's thread cannot be started: {0}")]
    Watchers(std::io::Error),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("the daemon was lost: {0}")]
    Lost(#[from] Lost),
    #[error("a frame could not be submitted: {0}")]
    Submit(String),
    #[error("a frame got no answer in time")]
    NoAnswer,
    #[error("the camera cannot be kept on core {0}")]
    Place(usize),
    #[error("two cores are needed, this process may use {found}")]
    Cores { found: usize },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Program(error) => error.termination(),
            _ => Termination::Resources,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let cores = affinity::available_cores().unwrap_or_default();
    let [first, .., last] = cores[..] else {
        let found = cores.len();
        return Err(Error::Cores { found });
    };
    let package = Package::new(networks::tiny(1), Calibration::default())?;
    let folder = folder(&package, [first, last], options)?;
    Programs::new(None).profile(&folder.path(MANIFEST))?;
    let mut sides = vec![Side::of_loop(&package, last)];
    let given = options.bin.iter().map(|bin| Some(bin.as_path()));
    let own = options.bin.is_empty().then_some(None);
    for bin in given.chain(own) {
        sides.extend(Side::of_daemons(bin, &folder, options));
    }
    // By side: with the camera on each core.
    let mut tallies = vec![[(); 2].map(|()| Tally::new()); sides.len()];
    for _ in 0..options.turns {
        for (side, tallies) in sides.iter().zip(&mut tallies) {
            for (core, tally) in [first, last].into_iter().zip(tallies) {
                let camera = Camera {
                    core,
                    cores: &cores,
                    options,
                };
                tally.add(&side.turn(&camera)?);
            }
        }
    }
    let rows = sides
        .iter()
        .zip(&tallies)
        .flat_map(|(side, [near, far])| [near.row(&side.name, first), far.row(&side.name, last)]);
    let report = Report {
        machine: punctual_device_cpu::machine(),
        rate: options.rate,
        rows: rows.collect(),
    };
    let text = if options.json {
        serde_json::to_string_pretty(&report).expect("numbers and names") + "\n"
    } else {
        report.text()
    };
    Ok(output::text(text)?)
}

const SIDE: u32 = 24;

/// Without a recorder, and with one.
const MANIFEST: &str = "tiny.toml";
const RECORDED: &str = "recorded.toml";

fn folder(
    package: &Package,
    [first, last]: [usize; 2],
    options: &Options,
) -> Result<Folder, Error> {
    let folder = Folder::new("overhead")?;
    folder.write("tiny.punctual", &package.encode())?;
    let rate = options.rate;
    let idle = options
        .idle_latency_us
        .map_or(String::new(), |us| format!("idle_latency_us = {us}\n"));
    let manifest = format!(
        r#"[daemon]
board = "host"
cores = [{first}]
{idle}
[[model]]
name = "tiny"
package = "tiny.punctual"

[[partition]]
name = "one"
cores = [{last}]

[[task]]
name = "tiny"
model = "tiny"
partition = "one"
criticality = "real-time"
rate_hz = {rate}
deadline_ms = 100
queue_depth = 32
frame = {{ format = "rgb8", width = {SIDE}, height = {SIDE}, crop = [{SIDE}, {SIDE}] }}
"#
    );
    folder.write(MANIFEST, manifest.as_bytes())?;
    let directory = folder.path("recordings");
    let recorder = format!("\n[recorder]\ndirectory = {directory:?}\n");
    folder.write(RECORDED, (manifest + &recorder).as_bytes())?;
    Ok(folder)
}

struct Side<'s> {
    name: String,
    server: Server<'s>,
}

/// Who answers.
enum Server<'s> {
    Daemon(Served),
    Loop(&'s Package, usize),
}

/// A daemon, and how many readers it has.
struct Served {
    programs: Programs,
    manifest: PathBuf,
    watchers: u32,
}

/// Of a turn, or of several.
#[derive(Clone)]
struct Tally {
    /// From submissions until answers were read, in ns.
    latency: Histogram<u64>,
    serving: Usage,
    camera: Usage,
}

impl Tally {
    fn new() -> Self {
        Self {
            latency: Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("sound bounds"),
            serving: Usage::default(),
            camera: Usage::default(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.latency += &other.latency;
        self.serving += other.serving;
        self.camera += other.camera;
    }
}

/// Longer than any answer takes.
const LIMIT_NS: u64 = 20_000_000_000;

impl<'s> Side<'s> {
    fn of_loop(package: &'s Package, core: usize) -> Self {
        Self {
            name: "loop".to_owned(),
            server: Server::Loop(package, core),
        }
    }

    /// The daemon of this folder, in each of the ways that are asked for.
    fn of_daemons(bin: Option<&Path>, folder: &Folder, options: &Options) -> Vec<Self> {
        let name = match bin {
            None => "punctuald".to_owned(),
            Some(bin) => format!("punctuald of {}", bin.display()),
        };
        let side = |beside: &str, manifest: &str, watchers| Self {
            name: format!("{name}{beside}"),
            server: Server::Daemon(Served {
                programs: Programs::new(bin),
                manifest: folder.path(manifest),
                watchers,
            }),
        };
        let recorded = options.recorder.then(|| side(", recording", RECORDED, 0));
        let watched = options
            .watched
            .map(|count| side(&format!(", watched by {count}"), MANIFEST, count));
        let plain = side("", MANIFEST, 0);
        recorded.into_iter().chain(watched).chain([plain]).collect()
    }

    fn turn(&self, camera: &Camera<'_>) -> Result<Tally, Error> {
        match &self.server {
            Server::Daemon(served) => served.turn(camera),
            Server::Loop(package, core) => {
                let looped = Looped::start(package.network(), *core)?;
                let tid = looped.tid();
                let answer = |frame: u64| {
                    looped.answer(frame as u8);
                    Ok(())
                };
                let tally = camera.run(|| Usage::of_thread(tid), answer);
                looped.stop();
                tally
            }
        }
    }
}

impl Served {
    fn turn(&self, camera: &Camera<'_>) -> Result<Tally, Error> {
        let socket = self.manifest.with_file_name("socket");
        // A profile that any machine keeps leaves much to warn of.
        let quiet = ["--log", "error"].map(OsStr::new);
        let daemon = self.programs.daemon(&self.manifest, &socket, quiet)?;
        let watchers = Watchers::start(&socket, self.watchers).map_err(Error::Watchers)?;
        let tally = served(&daemon, &socket, camera);
        let watched = watchers.stop();
        programs::stop(daemon)?;
        watched?;
        tally
    }
}

fn served(daemon: &Process, socket: &Path, camera: &Camera<'_>) -> Result<Tally, Error> {
    let limit = Some(now_ns() + LIMIT_NS);
    let mut client = ClientOptions::new(socket, "tiny", PixelFormat::Rgb8).open(limit)?;
    let id = daemon.id();
    camera.run(|| Usage::of_process(id), |frame| submit(&mut client, frame))
}

/// Submits a frame and waits for its answer.
fn submit(client: &mut Client, frame: u64) -> Result<(), Error> {
    let limit = Some(now_ns() + LIMIT_NS);
    let mut slot = client.slot(limit)?.ok_or(Error::NoAnswer)?;
    slot.pixels().fill(frame as u8);
    let submitted = slot.submit(now_ns(), None, Crop { x: 0, y: 0 });
    submitted.map_err(|error| Error::Submit(error.to_string()))?;
    let response = client.verdict(limit)?.ok_or(Error::NoAnswer)?;
    response.answer.map(drop).ok_or(Error::NoAnswer)
}

/// A camera, on a core of those that this process may use.
struct Camera<'o> {
    core: usize,
    cores: &'o [usize],
    options: &'o Options,
}

impl Camera<'_> {
    /// Has frames answered, each at its time; `serving` is what those that answer have used.
    fn run(
        &self,
        serving: impl Fn() -> Result<Usage, UsageError>,
        mut answer: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<Tally, Error> {
        let stay = affinity::keep_current_thread_to(&[self.core]);
        stay.map_err(|_| Error::Place(self.core))?;
        let (rate, seconds) = (self.options.rate, self.options.seconds);
        let period_ns = 1_000_000_000 / u64::from(rate);
        let mut tally = Tally::new();
        // The first one finds everything as the start left it.
        answer(0)?;
        let own = || Usage::of_thread(current_tid());
        let (served, used) = (serving()?, own()?);
        let start_ns = now_ns();
        for frame in 1..=u64::from(rate) * u64::from(seconds) {
            sleep_until_ns(start_ns + frame * period_ns);
            let submitted_ns = now_ns();
            answer(frame)?;
            tally.latency.saturating_record(now_ns() - submitted_ns);
        }
        tally.serving = serving()? - served;
        tally.camera = own()? - used;
        // What is started next may use all of them again.
        let back = affinity::keep_current_thread_to(self.cores);
        back.map_err(|_| Error::Place(self.core))?;
        Ok(tally)
    }
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    machine: String,
    rate: u32,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    side: String,
    camera_core: usize,
    frames: u64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    /// Of those that serve, for each frame.
    processor_us: f64,
    switches: f64,
    /// Of the camera's thread, for each frame.
    camera_us: f64,
}

impl Tally {
    fn row(&self, side: &str, camera_core: usize) -> Row {
        let frames = self.latency.len();
        let at = |quantile| self.latency.value_at_quantile(quantile) as f64 / 1e3;
        let each = |sum: u64| sum as f64 / frames as f64;
        Row {
            side: side.to_owned(),
            camera_core,
            frames,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.latency.max() as f64 / 1e3,
            processor_us: each(self.serving.ran_ns) / 1e3,
            switches: each(self.serving.switches),
            camera_us: each(self.camera.ran_ns) / 1e3,
        }
    }
}

impl Report {
    fn text(&self) -> String {
        let us = |heading| Column::number(heading).unit("us");
        let mut table = Table::of([
            Column::words("served by"),
            Column::number("camera on core"),
            Column::number("frames"),
            us("p50"),
            us("p90"),
            us("p99"),
            us("p99.9"),
            us("max"),
            us("processor"),
            Column::number("switches"),
            us("camera's"),
        ]);
        for row in &self.rows {
            let one = |value: f64| format!("{value:.1}");
            table.row([
                row.side.clone(),
                row.camera_core.to_string(),
                row.frames.to_string(),
                one(row.p50_us),
                one(row.p90_us),
                one(row.p99_us),
                one(row.p999_us),
                one(row.max_us),
                one(row.processor_us),
                one(row.switches),
                one(row.camera_us),
            ]);
        }
        format!(
            "{}, {} frames a second; processor time and switches are a frame's\n\n{}",
            self.machine,
            self.rate,
            table.markdown()
        )
    }
}
