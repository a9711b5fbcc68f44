//! `punctual bench detection`: a detector with early exits under the scheduler, compared with the same network at full depth only.

use std::path::PathBuf;

use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_report::{Column, Table};
use serde::{Deserialize, Serialize};

use crate::programs::{self, Folder, ProgramError, Programs};
use punctual::demo;

/// How long, at which rates, with which programs.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench detection
  punctual bench detection --rate 60 --loads 1,2,4 --seconds 20 --turns 3 --json

Measures the demo's detector on this machine. Then starts punctuald with a camera of rendered streets, in turns with two
manifests that differ in one key: with `mandatory_exit = 0` a frame is answered at the deepest exit that the time allows, with
`mandatory_exit = 2` only at the last one. The camera sends --rate frames a second times each load. Reported of each
load and side: frames on time; mean depth; the mean average precision of the answers (mAP50), and that of all frames,
where nothing was found in a frame without an answer in time; times from the intended capture to the answer.

TERMINATION CODES: 0 done; 1 a camera or daemon failed; 4 a file cannot be written; 5 a program cannot be started.")]
pub struct Options {
    /// Frames a second at load 1.
    #[arg(long, default_value_t = 60.0, value_name = "FPS")]
    rate: f64,
    /// By which the rate is multiplied.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 2.0, 3.0, 4.0])]
    loads: Vec<f64>,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Turns of each load and side.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// The folder of the programs punctual and punctuald [default: that of this one].
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("the camera's report is not understood: {0}")]
    Report(#[from] serde_json::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Program(error) => error.termination(),
            Self::Report(_) => Termination::BadResult,
        }
    }
}

/// Seed of the scenes; no set that trained or tuned the network has it.
const SEED: &str = "55";

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Side {
    EarlyExits,
    FullDepth,
}

impl Side {
    const ALL: [Self; 2] = [Self::EarlyExits, Self::FullDepth];

    const fn name(self) -> &'static str {
        match self {
            Self::EarlyExits => "early exits",
            Self::FullDepth => "full depth",
        }
    }

    const fn manifest(self) -> &'static str {
        match self {
            Self::EarlyExits => "early-exits.toml",
            Self::FullDepth => "full-depth.toml",
        }
    }

    const fn mandatory_exit(self) -> u8 {
        match self {
            Self::EarlyExits => 0,
            Self::FullDepth => 2,
        }
    }
}

/// What `punctual camera --json` says last, as far as it is needed here.
#[derive(Clone, Debug, Deserialize)]
struct CameraReport {
    submitted: u64,
    on_time: u64,
    late: u64,
    rejected: u64,
    failed: u64,
    skipped: u64,
    exits: Vec<u64>,
    map50: Option<f64>,
    map50_of_all: Option<f64>,
    latency_us: Latency,
    finished: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Latency {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// One turn.
#[derive(Clone, Debug, Serialize)]
struct Row {
    load: f64,
    side: Side,
    turn: u32,
    frames: u64,
    on_time: u64,
    late: u64,
    rejected: u64,
    failed: u64,
    /// Frames that the camera dropped, as all its slots were in work.
    skipped: u64,
    exits: Vec<u64>,
    map50: Option<f64>,
    map50_of_all: Option<f64>,
    latency_us: Latency,
}

impl Row {
    fn of(load: f64, side: Side, turn: u32, report: CameraReport) -> Self {
        Self {
            load,
            side,
            turn,
            frames: report.submitted + report.skipped,
            on_time: report.on_time,
            late: report.late,
            rejected: report.rejected,
            failed: report.failed,
            skipped: report.skipped,
            exits: report.exits,
            map50: report.map50,
            map50_of_all: report.map50_of_all,
            latency_us: report.latency_us,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let programs = Programs::new(options.bin.as_deref());
    let folder = folder(options.rate)?;
    programs.profile(&folder.path(Side::EarlyExits.manifest()))?;
    let mut rows = Vec::new();
    for turn in 0..options.turns {
        for &load in &options.loads {
            for side in Side::ALL {
                let report = run_turn(
                    &programs,
                    &folder,
                    side,
                    options.rate * load,
                    options.seconds,
                )?;
                rows.push(Row::of(load, side, turn, report));
                output::note(format_args!(
                    "turn {}, load {load}, {}",
                    turn + 1,
                    side.name()
                ));
            }
        }
    }
    rows.sort_by(|a, b| a.load.total_cmp(&b.load));
    if options.json {
        output::line(serde_json::to_string_pretty(&rows)?)?;
        return Ok(());
    }
    output::text(table(&rows).to_string())?;
    Ok(())
}

fn table(rows: &[Row]) -> Table {
    let (number, words) = (Column::number, Column::words);
    let mut table = Table::of([
        number("load"),
        words("side"),
        number("frames"),
        number("on time"),
        number("late"),
        number("rejected"),
        number("skipped"),
        words("exits %"),
        number("mAP50"),
        number("of all"),
        number("p50").unit("ms"),
        number("p99").unit("ms"),
        number("p99.9").unit("ms"),
        number("max").unit("ms"),
    ]);
    let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
    let precision =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    for row in rows {
        let all = row.exits.iter().sum::<u64>().max(1);
        let share = |count: &u64| format!("{:.0}", *count as f64 * 100.0 / all as f64);
        let shares: Vec<String> = row.exits.iter().map(share).collect();
        table.row([
            format!("{}", row.load),
            row.side.name().to_owned(),
            row.frames.to_string(),
            punctual_report::percent(row.on_time as f64 / row.frames.max(1) as f64),
            row.late.to_string(),
            row.rejected.to_string(),
            row.skipped.to_string(),
            shares.join("/"),
            precision(row.map50),
            precision(row.map50_of_all),
            ms(row.latency_us.p50),
            ms(row.latency_us.p99),
            ms(row.latency_us.p999),
            ms(row.latency_us.max),
        ]);
    }
    table
}

/// What the daemons are started with.
fn folder(rate: f64) -> Result<Folder, ProgramError> {
    let folder = Folder::new("detection")?;
    folder.write("streets.punctual", demo::STREETS)?;
    for side in Side::ALL {
        folder.write(side.manifest(), manifest(side, rate).as_bytes())?;
    }
    Ok(folder)
}

fn run_turn(
    programs: &Programs,
    folder: &Folder,
    side: Side,
    rate: f64,
    seconds: f64,
) -> Result<CameraReport, Error> {
    const WHAT: &str = "the camera";
    let socket = folder.path("socket");
    let daemon = programs.daemon(&folder.path(side.manifest()), &socket, [])?;
    let mut camera = programs.command("punctual");
    let command = &mut camera.command;
    command.arg("camera").arg("--socket").arg(&socket);
    command.args([
        "--task", "streets", "--scenes", "streets", "--format", "nv12", "--seed", SEED,
    ]);
    command.args(["--realtime", "--reconnect", "--json"]);
    command.arg("--fps").arg(rate.to_string());
    command.arg("--seconds").arg(seconds.to_string());
    let text = camera.output(WHAT)?;
    programs::stop(daemon)?;
    let report: CameraReport = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    if report.finished {
        Ok(report)
    } else {
        Err(ProgramError::Failed { what: WHAT }.into())
    }
}

fn manifest(side: Side, rate: f64) -> String {
    let exit = side.mandatory_exit();
    format!(
        r#"[daemon]
board = "host"

[[model]]
name = "streets"
package = "streets.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "streets"
model = "streets"
partition = "main"
criticality = "real-time"
rate_hz = {rate}
deadline_ms = 150
mandatory_exit = {exit}
batch_max = 2
queue_depth = 32
clients = 1
frame = {{ format = "nv12", width = 640, height = 480 }}
"#
    )
}
