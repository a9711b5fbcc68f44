//! `punctual load`: how much a daemon bears before its promises break.

use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use punctual_daemon::{Process, ProcessError, Report};
use punctual_platform::files;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};

use crate::ask::files::{FilesError, listed};
use crate::demo::this_program;
use crate::folder::Folder;
use crate::interruption::{Interruption, InterruptionError};
use crate::live::daemon::{Daemon, LiveError};
use crate::load::arrivals::{Shape, Trace, TraceError, read_trace};
use crate::load::outcome::{Level, Outcome, text};
use crate::load::{Load, LoadError, Task, levels, tasks_of};

/// Factors of `--sweep` without a list.
const SWEEP: &str = "0.5,0.75,1,1.25,1.5,2,3,4,6,8,12,16";

/// What to load, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  Load a manifest's tasks at their own rates, with a daemon of its own:
      punctual load manifest.toml --seconds 2
  Until promises break, as a page:
      punctual load manifest.toml --seconds 2 --sweep 1,2 --html load.html
  The daemon that runs, one task, three times its rate in bursts of four:
      punctual load --socket /tmp/punctual.sock --task signs --factor 3 --shape bursts:4 --seconds 2
  Pictures of a folder instead of noise:
      punctual load manifest.toml --pictures held-out --seconds 2
  Another rate, for a program:
      punctual load --socket /tmp/punctual.sock --rate watch=20 --seconds 2 --json

Each task gets as many clients as its manifest has, which share its rate; clients of best-effort tasks, and of
tasks without a rate, submit their next frame when the last is answered. Frames show noise, of which networks are seldom
sure: answers go deeper than with pictures (--pictures). Latency is from the intended time of capture until the client has read the answer: a frame that could
not be submitted in time, as no slot was free, counts as not on time. A level holds if every real-time task has
its share of frames on time (--limit).

A trace is a text of lines `SECONDS TASK`, or a recording (`.mcap`): its frames come as they came.

TERMINATION CODES: 0 the first level held; 1 it did not, or a frame has no verdict; 3 the manifest, the trace or a task
is invalid; 4 a file cannot be read or written; 5 no daemon; 130 interrupted.")]
pub struct Options {
    /// The manifest to serve for this load; absent: the daemon that runs.
    #[arg(conflicts_with = "socket")]
    manifest: Option<PathBuf>,
    /// Where the daemon that runs listens; absent: the one of this machine.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Only this task; several times for several.
    #[arg(long = "task", value_name = "TASK")]
    tasks: Vec<String>,
    /// Another rate than the manifest's, in frames a second, all clients together; once for each task.
    #[arg(long = "rate", value_name = "TASK=HZ", value_parser = rate)]
    rates: Vec<(String, f64)>,
    /// Multiply all rates.
    #[arg(long, default_value_t = 1.0, value_parser = factor, conflicts_with = "sweep")]
    factor: f64,
    /// Level after level, rates multiplied by these factors, until one does not hold.
    #[arg(long, value_name = "FACTORS", value_parser = factor, value_delimiter = ',', num_args = 0..=1,
        require_equals = false, default_missing_value = SWEEP)]
    sweep: Option<Vec<f64>>,
    /// When frames come: `steady`, `poisson`, `bursts:N`, or `file:PATH`, a trace or a recording.
    #[arg(long, default_value = "steady", value_parser = Shape::parse)]
    shape: Shape,
    /// Show these pictures, arrays (`.npy`) and folders of them in turn, as `punctual ask` does, instead of noise.
    #[arg(long, value_name = "PATH")]
    pictures: Vec<PathBuf>,
    /// Seconds a level.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// The share of a real-time task's frames that have to be on time.
    #[arg(long, default_value_t = 0.99, value_parser = share)]
    limit: f64,
    /// Seed of gaps and pictures.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Write a page with the levels as tables and charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn number(text: &str, low: f64, high: f64) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => Err(format!("must be a number from {low} to {high}")),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    number(text, 0.01, 1_000.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.1, 86_400.0)
}

fn share(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0)
}

fn rate(text: &str) -> Result<(String, f64), String> {
    let (task, hz) = text
        .split_once('=')
        .ok_or("write TASK=HZ, as in front=30")?;
    Ok((task.to_owned(), number(hz, 0.001, 100_000.0)?))
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the daemon has no task {name:?}; it has {tasks}")]
    NoTask { name: String, tasks: String },
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    Daemon(#[from] ProcessError),
    #[error("a temporary folder cannot be made: {0}")]
    Folder(std::io::Error),
    #[error("this program cannot be started again, as a daemon: {0}")]
    Program(std::io::Error),
    #[error("{path}: {source}", path = path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Interruption(#[from] InterruptionError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::NoTask { .. } => Termination::BadInput,
            Self::Trace(error) => error.termination(),
            Self::Load(LoadError::Feed { .. }) => Termination::BadResult,
            Self::Load(LoadError::Frames { .. }) => Termination::BadInput,
            Self::Files(_) => Termination::File,
            Self::Live(error) => error.termination(),
            Self::Load(_) | Self::Program(_) | Self::Interruption(_) => Termination::Resources,
            Self::Daemon(error) => error.termination(),
            Self::Write { .. } | Self::Folder(_) => Termination::File,
            Self::Output(error) => error.termination(),
        }
    }
}

/// Loads, prints, and ends as the first level did.
pub fn run(options: &Options) -> Termination {
    match load(options) {
        Ok(true) => Termination::Done,
        Ok(false) => Termination::BadResult,
        Err(error) => Termination::of("load", Err(error)),
    }
}

fn load(options: &Options) -> Result<bool, Error> {
    let folder = Folder::create("load").map_err(Error::Folder)?;
    // Before anything starts a thread.
    let _interruption = Interruption::take_over("load", folder.as_path().to_owned())?;
    // Before a daemon is started for nothing.
    let pictures = match &options.pictures[..] {
        [] => Vec::new(),
        named => listed(named)?,
    };
    let served = Served::of(options, &folder)?;
    let report = served.daemon.report()?;
    let tasks = tasks(&report, options)?;
    let trace = match &options.shape {
        Shape::File(path) => trace(path, &tasks)?,
        _ => Trace::new(),
    };
    let load = Load {
        socket: &served.daemon.socket,
        tasks: &tasks,
        shape: &options.shape,
        trace: &trace,
        pictures: &pictures,
        seed: options.seed,
        seconds: options.seconds,
    };
    let factors = options
        .sweep
        .clone()
        .unwrap_or_else(|| vec![options.factor]);
    let bar = Waiting::begin(factors.len(), options.seconds);
    let told = |level: &Level| -> Result<(), Error> {
        bar.next();
        if !options.json {
            bar.0
                .suspend(|| output::text(text(level, options.limit, output::width())))?;
        }
        Ok(())
    };
    let levels = levels(&load, &factors, options.limit, told)?;
    bar.0.finish_and_clear();
    let held = levels
        .iter()
        .filter(|level| level.holds)
        .map(|level| level.factor);
    let outcome = Outcome {
        socket: served.daemon.socket.display().to_string(),
        plan: report.plan,
        policy: report.policy,
        shape: options.shape.to_string(),
        limit: options.limit,
        held: held.fold(None, |most, factor| {
            Some(f64::max(most.unwrap_or(factor), factor))
        }),
        levels,
    };
    tell(&outcome, options)?;
    Ok(outcome.levels.first().is_some_and(|level| level.holds))
}

fn tell(outcome: &Outcome, options: &Options) -> Result<(), Error> {
    if options.json {
        let json = serde_json::to_string_pretty(outcome).expect("plain data serialises");
        output::line(json)?;
    } else {
        output::line(format_args!("\n{}", outcome.verdict()))?;
    }
    let Some(path) = &options.html else {
        return Ok(());
    };
    files::write_whole(path, outcome.html().as_bytes()).map_err(|source| Error::Write {
        path: path.clone(),
        source,
    })
}

/// Those to load, at the rates that are asked for.
fn tasks(report: &Report, options: &Options) -> Result<Vec<Task>, Error> {
    let unknown = |name: String| Error::NoTask {
        name,
        tasks: names(
            report
                .tasks
                .iter()
                .filter(|task| task.after.is_none())
                .map(|task| task.name.as_str()),
        ),
    };
    let mut tasks = tasks_of(report, &options.tasks).map_err(unknown)?;
    for (name, hz) in &options.rates {
        let known = tasks.iter_mut().find(|task| task.name == *name);
        known.ok_or_else(|| unknown(name.clone()))?.hz = Some(*hz);
    }
    Ok(tasks)
}

fn names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn trace(path: &Path, tasks: &[Task]) -> Result<Trace, Error> {
    let trace = read_trace(path)?;
    if tasks.iter().any(|task| trace.contains_key(&task.name)) {
        return Ok(trace);
    }
    Err(Error::Trace(TraceError::Nothing {
        path: path.to_owned(),
        tasks: names(tasks.iter().map(|task| task.name.as_str())),
    }))
}

/// The daemon that is loaded.
struct Served {
    daemon: Daemon,
    /// If it was started for this: it ends with this.
    own: Option<Process>,
}

impl Served {
    fn of(options: &Options, folder: &Folder) -> Result<Self, Error> {
        let Some(manifest) = &options.manifest else {
            let daemon = Daemon::find(options.socket.as_deref())?;
            return Ok(Self { daemon, own: None });
        };
        let socket = folder.path("socket");
        let mut command = this_program().map_err(Error::Program)?;
        command
            .arg("daemon")
            .arg(manifest)
            .arg("--socket")
            .arg(&socket);
        let own = Some(Process::start(&mut command)?);
        let daemon = Daemon { socket };
        Ok(Self { daemon, own })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        const END_MS: u64 = 5_000;
        if let Some(daemon) = &mut self.own {
            daemon.terminate();
            let _ = daemon.wait_for(END_MS);
        }
    }
}

/// How long it still takes, on a terminal.
struct Waiting(ProgressBar);

impl Waiting {
    fn begin(levels: usize, seconds: f64) -> Self {
        let bar = ProgressBar::new(levels as u64);
        let template = format!("level {{pos}} of {{len}}, {seconds} s each [{{elapsed}}]");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(std::time::Duration::from_secs(1));
        Self(bar)
    }

    fn next(&self) {
        self.0.inc(1);
    }
}
