//! `punctual bench wakeup`: how long it takes until a woken thread runs, by the primitives that the
//! daemon's threads wait on, compared with cyclictest in the same run.

mod cyclictest;
mod loads;
mod report;
mod ways;

use std::path::PathBuf;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use punctual_platform::files::write_whole;
use punctual_platform::idle::IdleHold;
use punctual_platform::output::{self, OutputError};
use punctual_platform::{Missing, OsError, affinity, memory};

use cyclictest::CyclictestError;
use loads::{Load, Running};
use punctual_platform::termination::{Terminates, Termination};
use report::{Report, Row};
use ways::{PERIOD_NS, ThreadPlacement, Way, WayError};

use crate::progress;

/// Turns of each way under each load, in a run that is long enough: a disturbance that lasts hits them all.
const TURNS_MAX: u64 = 10;

/// The shortest turn, in seconds.
const TURN_S_MIN: f64 = 0.1;

/// How long, where, and under what.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench wakeup
  punctual bench wakeup --seconds 60 --loads none,cpu --html wakeup.html
  punctual bench wakeup --idle-latency-us 0 --json     # with cores kept from deep idle states

A thread of real-time priority is woken once a millisecond, and the time until it runs is taken: by
clock_nanosleep, by a doorbell's time-out (the scheduler's timers), by a doorbell that another core
rings (scheduler, intakes, workers) and by a poller (the ports). cyclictest (rt-tests) runs
between them at the same priority on the same core, in turns; without it our own sleep is the floor.
All under each load in turn, made by processes of this program: none, cpu (a process a core), memory
(the same), disk (16 MiB, synced), network (TCP on the loopback).

TERMINATION CODES: 0 done; 4 the page cannot be written; 5 threads or processes cannot be started.")]
pub struct Options {
    /// Seconds for each way under each load.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// The loads to measure under.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Load::ALL)]
    loads: Vec<Load>,
    /// The core of the thread that is woken [default: the last].
    #[arg(long)]
    core: Option<usize>,
    /// The real-time priority.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u8).range(2..=98))]
    priority: u8,
    /// Keep cores from idle states that take longer to leave, for the whole run.
    #[arg(long, value_name = "US")]
    idle_latency_us: Option<u32>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Write the result as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Run this load until the parent process ends; for the measurement's own use.
    #[arg(long, hide = true)]
    generate: Option<Load>,
}

fn seconds(text: &str) -> Result<f64, std::num::ParseFloatError> {
    Ok(text.parse::<f64>()?.clamp(0.01, 86_400.0))
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Way(#[from] WayError),
    #[error(transparent)]
    System(#[from] OsError),
    #[error("the load {load} cannot be made: {source}")]
    Load {
        load: &'static str,
        source: std::io::Error,
    },
    #[error(transparent)]
    Cyclictest(#[from] CyclictestError),
    #[error("the page cannot be written to {path}: {source}")]
    Page {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Page { .. } => Termination::File,
            Self::Way(_) | Self::System(_) | Self::Load { .. } | Self::Cyclictest(_) => {
                Termination::Resources
            }
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    if let Some(load) = options.generate {
        return loads::generate(load).map_err(|source| Error::Load {
            load: load.name(),
            source,
        });
    }
    let report = measure(options)?;
    if let Some(path) = &options.html {
        write_whole(path, report.page().as_bytes()).map_err(|source| Error::Page {
            path: path.clone(),
            source,
        })?;
    }
    let text = if options.json {
        report.json()
    } else {
        report.text()
    };
    Ok(output::text(text)?)
}

fn measure(options: &Options) -> Result<Report, Error> {
    let placement = placement(options)?;
    let mut missing: Vec<Missing> = Vec::from_iter(memory::lock_all().err());
    let hold = options.idle_latency_us.map(IdleHold::take).transpose()?;
    let with_cyclictest = cyclictest::is_installed();
    let turns = ((options.seconds / TURN_S_MIN) as u64).clamp(1, TURNS_MAX);
    let progress = progress::of_turns(options.loads.len() as u64 * turns);
    let mut rows = Vec::new();
    for load in &options.loads {
        let under_load = UnderLoad {
            load: *load,
            placement,
            turns,
            wakes: (options.seconds * 1e9 / (PERIOD_NS * turns) as f64).ceil() as u64,
            with_cyclictest,
        };
        rows.extend(under_load.measure(&progress, &mut missing)?);
    }
    progress.finish_and_clear();
    drop(hold);
    missing.sort_unstable();
    missing.dedup();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    Ok(Report {
        machine: punctual_device_cpu::machine(),
        kernel: kernel.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
        command: command(options),
        floor: if with_cyclictest {
            "cyclictest"
        } else {
            "our own clock_nanosleep (cyclictest is not installed)"
        },
        missing: missing.iter().map(ToString::to_string).collect(),
        idle_latency_us: options.idle_latency_us,
        rows,
    })
}

/// The last core is woken by the first.
fn placement(options: &Options) -> Result<ThreadPlacement, Error> {
    let cores = affinity::available_cores()?;
    let core = options.core.or(cores.last().copied()).unwrap_or(0);
    let other = cores.iter().find(|other| **other != core);
    Ok(ThreadPlacement {
        core,
        other: other.copied().unwrap_or(core),
        priority: options.priority,
    })
}

struct UnderLoad {
    load: Load,
    placement: ThreadPlacement,
    turns: u64,
    /// A turn.
    wakes: u64,
    with_cyclictest: bool,
}

impl UnderLoad {
    fn measure(
        &self,
        progress: &ProgressBar,
        missing: &mut Vec<Missing>,
    ) -> Result<Vec<Row>, Error> {
        let name = self.load.name();
        progress.set_message(format!("under load: {name}"));
        let _running =
            Running::start(self.load).map_err(|source| Error::Load { load: name, source })?;
        let mut floor = ways::histogram();
        let mut ours: Vec<(Way, Histogram<u64>)> =
            Way::ALL.map(|way| (way, ways::histogram())).to_vec();
        for _ in 0..self.turns {
            if self.with_cyclictest {
                floor += cyclictest::measure(self.placement, self.wakes)?;
            }
            for (way, all) in &mut ours {
                let (latencies, lacking) = ways::measure(*way, self.placement, self.wakes)?;
                *all += latencies;
                missing.extend(lacking);
            }
            progress.inc(1);
        }
        let mut rows = ours.iter().map(|(way, all)| Row::of(name, way.name(), all));
        let floor = if self.with_cyclictest {
            Row::of(name, "cyclictest", &floor)
        } else {
            rows.next().expect("the first way is the sleep")
        };
        let rows: Vec<Row> = rows.map(|row| row.against(&floor)).collect();
        Ok(std::iter::once(floor).chain(rows).collect())
    }
}

fn command(options: &Options) -> String {
    let loads: Vec<&str> = options.loads.iter().map(|load| load.name()).collect();
    let idle = options.idle_latency_us;
    let idle = idle.map_or_else(String::new, |us| format!(" --idle-latency-us {us}"));
    format!(
        "punctual bench wakeup --seconds {} --loads {} --priority {}{idle}",
        options.seconds,
        loads.join(","),
        options.priority
    )
}
