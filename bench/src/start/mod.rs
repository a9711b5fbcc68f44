//! `punctual bench start`: a daemon started again and again, with clients that submit from the beginning.

mod disturbance;
mod report;
mod turn;
mod workload;

use std::path::PathBuf;

use punctual::demo::DemoError;
use punctual_device_cpu::images::ImageError;
use punctual_model::PackageError;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};

use crate::programs::{ProgramError, Programs};
use disturbance::DisturbanceError;
use report::{Report, Row};
use turn::{Cache, Moment, Start, Turn, TurnError};
use workload::Workload;

/// How often, with which networks and programs.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench start
  punctual bench start --rounds 100 --workloads demo --against before
  punctual bench start --workloads heavy --caches cold --json
  punctual bench start --beside 0,25,50,100,200,400 --workloads heavy

Starts punctuald again and again, each time with a client of every task that submits frames from the beginning, and
reports the time from just before the start of the process until

  ready         the daemon says so
  NAME ready    by the daemon's report, frames of the task are answered
  NAME first    the task's client has its first answer
  NAME whole    by the daemon's report, all of the task's network runs as it was measured
  over          nothing is left to load

The demo's networks and manifest (`demo`), and a network of 200 MB with six exits (`heavy`), which is measured first. With
`cold`, the kernel is told to forget the packages and profiles before each start (posix_fadvise, DONTNEED; what a hypervisor
keeps stays); with `warm` they are in its cache. With --against, the daemon of another folder takes turns with this one, and
the ratio is how many times sooner this one is by its median. Rejected frames are submitted again after 2 ms. A daemon that
does not say `over` within 10 s after its first start's answers is one that loads everything first, and no more is waited for.

With --beside nothing is started. The first workload's network runs on the last core, and on the first core pages of weights are
copied and checked at each of the rates, by turns of half a second: what a start that goes on takes from stages.

TERMINATION CODES: 0 done; 1 a daemon failed; 4 a file cannot be read or written; 5 a program cannot be started.")]
pub struct Options {
    /// Starts of each daemon by each workload and cache.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// What is served.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [workload::Kind::Demo, workload::Kind::Heavy])]
    workloads: Vec<workload::Kind>,
    /// What the kernel keeps of the files.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Cache::Cold, Cache::Warm])]
    caches: Vec<Cache>,
    /// A folder with another punctuald, which takes turns.
    #[arg(long, value_name = "FOLDER")]
    against: Option<PathBuf>,
    /// The folder of the programs punctual and punctuald [default: that of this one].
    #[arg(long, value_name = "FOLDER")]
    bin: Option<PathBuf>,
    /// Measure instead how long a network runs while pages are written at these rates, in MB/s.
    #[arg(long, value_delimiter = ',', value_name = "MB/S", conflicts_with_all = ["against", "bin"])]
    beside: Vec<u64>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Demo(#[from] DemoError),
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Turn(#[from] TurnError),
    #[error(transparent)]
    Disturbance(#[from] DisturbanceError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Program(error) => error.termination(),
            Self::Demo(error) => error.termination(),
            Self::Turn(error) => error.termination(),
            Self::Disturbance(error) => error.termination(),
            Self::Package(_) | Self::Image(_) => Termination::BadResult,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let text = if options.beside.is_empty() {
        started(options)?
    } else {
        let network = options.workloads.first().copied();
        let network = network.unwrap_or(workload::Kind::Demo);
        let rows = disturbance::measure(network, &options.beside, options.rounds)?;
        if options.json {
            serde_json::to_string_pretty(&rows).expect("numbers") + "\n"
        } else {
            disturbance::markdown(&rows)
        }
    };
    Ok(output::text(text)?)
}

fn started(options: &Options) -> Result<String, Error> {
    let ours = Programs::new(options.bin.as_deref());
    let theirs = (options.against.as_deref()).map(|folder| Programs::new(Some(folder)));
    let mut rows = Vec::new();
    for kind in &options.workloads {
        let workload = Workload::prepare(*kind, &ours)?;
        for cache in &options.caches {
            rows.extend(compare(options, &workload, *cache, &ours, theirs.as_ref())?);
        }
    }
    let report = Report {
        machine: punctual_device_cpu::machine(),
        rounds: options.rounds,
        rows,
    };
    Ok(if options.json {
        report.json()
    } else {
        report.markdown()
    })
}

/// The daemons by turns.
fn compare(
    options: &Options,
    workload: &Workload,
    cache: Cache,
    ours: &Programs,
    theirs: Option<&Programs>,
) -> Result<Vec<Row>, Error> {
    let turn = Turn { workload, cache };
    let daemons = [Some(ours), theirs].into_iter().flatten();
    let mut daemons: Vec<Daemon<'_>> = daemons.map(Daemon::new).collect();
    for _ in 0..options.rounds {
        for daemon in &mut daemons {
            daemon.start(&turn)?;
        }
    }
    let mut starts = daemons.into_iter().map(|daemon| daemon.starts);
    let ours = starts.next().unwrap_or_default();
    let theirs = starts.next().unwrap_or_default();
    Ok(Row::of(workload.kind, cache, &ours, &theirs))
}

/// A daemon that is started again and again.
struct Daemon<'p> {
    programs: &'p Programs,
    starts: Vec<Vec<Moment>>,
    patience_ns: u64,
}

impl<'p> Daemon<'p> {
    /// How long loading may go on, in silence, after the last first answer.
    const PATIENCE_NS: u64 = 10_000_000_000;

    fn new(programs: &'p Programs) -> Self {
        Self {
            programs,
            starts: Vec::new(),
            patience_ns: Self::PATIENCE_NS,
        }
    }

    fn start(&mut self, turn: &Turn<'_>) -> Result<(), TurnError> {
        let Start { moments, says_over } = turn.run(self.programs, self.patience_ns)?;
        // One that does not say it once never does.
        if !says_over {
            self.patience_ns = 0;
        }
        self.starts.push(moments);
        Ok(())
    }
}
