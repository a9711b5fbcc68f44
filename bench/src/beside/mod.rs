//! `punctual bench` with the subcommand of this name: the demo's cameras, served by the daemon and by loops around ONNX Runtime in turns.

mod contestants;
mod engine;
mod graph;
mod looped;
mod processor;
mod queue;
mod report;
mod served;
mod turn;
mod worker;

use std::fs;
use std::path::PathBuf;

use punctual::demo::{self, DemoError, cameras::CAMERAS};
use punctual_daemon::StartupError;
use punctual_device_ort::{Library, LibraryError};
use punctual_model::PackageError;
use punctual_plan::{Plan, Policies};
use punctual_platform::files::write_whole;
use punctual_platform::memory;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_platform::thread::ThreadError;
use punctual_signs::Camera;

use crate::camera::CameraError;
use crate::programs::{Folder, ProgramError, Programs};
use contestants::{CONTESTANTS, Contestant, Kind};
use engine::Network;
use looped::{Ground, LoopError};
use processor::ProcessorError;
use report::{Report, Row};
use turn::{Outcome, Stage, Turn};

/// Whom, how long, at which loads, with which programs.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench beside
  punctual bench beside --loads 1,4 --seconds 4 --turns 2 --only punctual,adaptive
  punctual bench beside --html beside.html --json

The demo's manifest, cameras and pictures, at the cameras' rates times each load, in turns of punctuald and of loops around ONNX
Runtime in this process (ORT_DYLIB_PATH names its library, libonnxruntime.so.*; `pip install onnxruntime` brings it, in its folder
capi), whose threads have the core and the priority of the daemon's partition:

  punctual-final  the daemon, with one answer a frame: that of the verdict
  fifo            one thread, first come first served, full depth
  rate-monotonic  a thread a camera, the more urgent the shorter its deadline, best effort of ordinary priority; full depth
  edf-full, edf-second, edf-first
                  one thread, earliest deadline first, best effort last, always to that exit; a frame that cannot be on time
                  by the measured time is dropped
  adaptive        the same stage by stage: first exits of all frames that wait, then deeper ones while the confidence is below
                  the manifest's threshold and the measured times allow it

In all of them the cameras' own threads prepare the frames.
Score: right and on time of all frames with deadlines, in percent. A frame of signs counts if its class is right and was read before
its deadline, a frame of streets counts the mean average precision (mAP50) of all of them, where nothing was found in a frame
without an answer on time. Latency is from the intended capture until the camera has the answer. Prints Markdown. Takes 27 minutes.

TERMINATION CODES: 0 done; 1 a camera, a loop or a daemon failed; 4 a file cannot be read or written; 5 there is no
ONNX Runtime, or a thread or program cannot be started.")]
pub struct Options {
    /// By which the cameras' rates are multiplied.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 2.0, 4.0, 8.0, 16.0], value_parser = positive)]
    loads: Vec<f64>,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    seconds: f64,
    /// Turns of each contestant at each load.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// These only.
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = named)]
    only: Vec<&'static Contestant>,
    /// The folder of the program punctuald [default: that of this one].
    #[arg(long, value_name = "FOLDER")]
    bin: Option<PathBuf>,
    /// The library of ONNX Runtime [default: the one that ORT_DYLIB_PATH names].
    #[arg(long, value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Write the result as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e4 => Ok(value),
        _ => Err("must be a number above 0 and up to 10000".to_owned()),
    }
}

fn named(name: &str) -> Result<&'static Contestant, String> {
    let names: Vec<&str> = CONTESTANTS.iter().map(|of| of.name).collect();
    Contestant::named(name).ok_or_else(|| format!("must be one of {}", names.join(", ")))
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Demo(#[from] DemoError),
    #[error("the demo's manifest cannot be served here: {0}")]
    Plan(#[from] StartupError),
    #[error("a network of the demo: {0}")]
    Package(#[from] PackageError),
    #[error("{0}; `pip install onnxruntime` installs that wheel. `--only punctual` needs none")]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Camera(#[from] CameraError),
    #[error(transparent)]
    Loop(#[from] LoopError),
    #[error("a probe for stalls cannot be started: {0}")]
    Probe(#[from] ThreadError),
    #[error("processor time: {0}")]
    Processor(#[from] ProcessorError),
    #[error("the page cannot be written to {path}: {source}", path = path.display())]
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
            Self::Program(error) => error.termination(),
            Self::Demo(error) => error.termination(),
            Self::Plan(_) => Termination::BadInput,
            Self::Page { .. } | Self::Processor(_) => Termination::File,
            Self::Library(_) | Self::Probe(_) => Termination::Resources,
            Self::Package(_) | Self::Camera(_) | Self::Loop(_) => Termination::BadResult,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let report = measure(options)?;
    if let Some(path) = &options.html {
        let written = write_whole(path, report.page().as_bytes());
        written.map_err(|source| Error::Page {
            path: path.clone(),
            source,
        })?;
    }
    let text = if options.json {
        report.json()
    } else {
        report.markdown()
    };
    Ok(output::text(text)?)
}

fn measure(options: &Options) -> Result<Report, Error> {
    let contestants = options.contestants();
    let with_loops = contestants
        .iter()
        .any(|contestant| matches!(contestant.kind, Kind::Loop(_)));
    // Before anything that takes time.
    let library = with_loops
        .then(|| Library::load(options.onnxruntime.as_deref()))
        .transpose()?;
    let folder = Folder::new("beside")?;
    let plan = plan(&folder)?;
    let ground = library.map(|library| ground(library, &plan)).transpose()?;
    let cameras = draw();
    // As the daemon does; what it is refused it reports.
    let _ = memory::lock_all();
    let programs = Programs::new(options.bin.as_deref());
    let stage = Stage {
        programs: &programs,
        folder: &folder,
        cameras: &cameras,
        ground,
        plan: &plan,
    };
    let begun = load_average();
    let outcomes = turns(options, &contestants, &stage)?;
    let mut missing: Vec<String> = outcomes
        .iter()
        .flat_map(|of| of.turns.iter().flat_map(|turn| turn.missing.clone()))
        .collect();
    missing.sort_unstable();
    missing.dedup();
    let row = |of: &Outcomes| Row::of(of.load, of.contestant, &of.turns, options.seconds);
    Ok(Report {
        machine: punctual_device_cpu::machine(),
        library: library.map(Library::version),
        command: options.command(),
        seconds: options.seconds,
        turns: options.turns,
        load_average: [begun, load_average()],
        missing,
        rows: outcomes.iter().map(row).collect(),
    })
}

/// What the daemon is started with, and the plan that it will serve.
fn plan(folder: &Folder) -> Result<Plan, Error> {
    for (name, package) in demo::PACKAGES {
        folder.write(name, package)?;
    }
    folder.write("manifest.toml", demo::MANIFEST.as_bytes())?;
    let manifest = folder.path("manifest.toml");
    demo::profiles(&manifest)?;
    let daemon = punctual_daemon::Options {
        manifest: Some(manifest),
        ..punctual_daemon::Options::default()
    };
    Ok(punctual_daemon::plan(&daemon, &Policies::shipped())?)
}

fn ground(library: Library, plan: &Plan) -> Result<Ground<'_>, PackageError> {
    Ok(Ground {
        library,
        plan,
        networks: Network::all()?,
    })
}

/// Once, so that no turn has less of a core because of it.
fn draw() -> Vec<Camera> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = CAMERAS
            .iter()
            .map(|role| scope.spawn(|| role.draw()))
            .collect();
        let cameras = threads.into_iter();
        cameras
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

/// A contestant's turns at a load.
struct Outcomes {
    load: f64,
    contestant: &'static Contestant,
    turns: Vec<Outcome>,
}

/// All contestants at each load, again and again: what disturbs the machine for a while hits them all.
fn turns(
    options: &Options,
    contestants: &[&'static Contestant],
    stage: &Stage<'_>,
) -> Result<Vec<Outcomes>, Error> {
    let loads = options.loads.iter();
    let mut outcomes: Vec<Outcomes> = loads
        .flat_map(|&load| {
            contestants.iter().map(move |contestant| Outcomes {
                load,
                contestant,
                turns: Vec::new(),
            })
        })
        .collect();
    for number in 1..=options.turns {
        for of in &mut outcomes {
            let turn = Turn {
                number,
                load: of.load,
                seconds: options.seconds,
            };
            of.turns.push(turn.run(stage, of.contestant.kind)?);
            let (load, title) = (of.load, of.contestant.title);
            output::note(format_args!(
                "turn {number} of {}, load {load}: {title}",
                options.turns
            ));
        }
    }
    Ok(outcomes)
}

/// Of the last minute; 0 if the kernel does not tell.
fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

impl Options {
    /// In the order of the table.
    fn contestants(&self) -> Vec<&'static Contestant> {
        let asked_for = |of: &&Contestant| {
            self.only.is_empty() || self.only.iter().any(|only| only.name == of.name)
        };
        CONTESTANTS.iter().filter(asked_for).collect()
    }

    fn command(&self) -> String {
        let loads: Vec<String> = self.loads.iter().map(f64::to_string).collect();
        let names: Vec<&str> = self.only.iter().map(|of| of.name).collect();
        let only = if names.is_empty() {
            String::new()
        } else {
            format!(" --only {}", names.join(","))
        };
        format!(
            "punctual bench beside --loads {} --seconds {} --turns {}{only}",
            loads.join(","),
            self.seconds,
            self.turns
        )
    }
}
