//! First light: `punctual bench gpu --first`. Within a minute a verdict on a GPU that the project has not seen before, and one
//! file that lets others judge it.
//!
//! | module | contents |
//! |---|---|
//! | `steps` | what is looked at, each in a process of its own |
//! | `finding` | what a step found, and the verdict on it |
//! | `clocks` | clocks, temperature and throttling while it runs |
//! | `provenance`, `surroundings` | which program this is, and what else is true of the machine |
//! | `report`, `file` | the report, for a person and as a file |

mod clocks;
mod file;
mod finding;
mod provenance;
mod report;
mod steps;
mod surroundings;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::Command;

use punctual_device_cuda::driver::OpenError;
use punctual_platform::clock;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};

use self::clocks::Sensors;
use self::file::{Claimed, FileError};
use self::finding::Watched;
use self::provenance::Provenance;
pub use self::report::Report;
use self::report::{FORMAT, Judged};
use self::steps::FirstStep;
use self::surroundings::Surroundings;
use super::child;
use super::folder::{Folder, FolderError, Outcome};
use super::machine::{self, Machine};
use super::step::{Session, StepError};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Order<'o> {
    pub file: &'o Path,
    /// The GPU's number, as the driver counts.
    pub device: u32,
    pub quick: bool,
    pub json: bool,
    /// Where the files of kernel and system lie.
    pub root: &'o Path,
}

/// Why there is no verdict, or a bad one.
#[derive(Debug, thiserror::Error)]
pub enum FirstError {
    #[error(
        "{0}\nThere is no GPU to look at, so that nothing was measured or written. First light needs an NVIDIA GPU of compute \
         capability 7.2 or later, or a Jetson from Xavier on, with its driver; in a container, pass the GPU through (docker: \
         --gpus all, on a Jetson --runtime nvidia). Without one, `punctual bench gpu --predict` says what stages should take."
    )]
    NoGpu(#[source] OpenError),
    #[error(
        "there is no GPU number {ordinal}: the driver has {devices}, counted from 0; name one of them with --device"
    )]
    NoSuchGpu { ordinal: u32, devices: u32 },
    #[error(transparent)]
    File(#[from] FileError),
    /// What steps hand to each other cannot be kept.
    #[error("the folder for what steps keep meanwhile: {0}; set TMPDIR to a folder of yours")]
    Folder(#[from] FolderError),
    #[error("each step runs in a process of its own, and this program's path is unknown: {0}")]
    Program(#[source] io::Error),
    #[error("there is no step `{0}` of first light")]
    NoSuchStep(String),
    #[error(
        "a step failed, was refuted or was rejected; the table says which and why, and the file has all of it"
    )]
    Bad,
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for FirstError {
    fn termination(&self) -> Termination {
        match self {
            Self::NoGpu(_) | Self::NoSuchGpu { .. } | Self::Program(_) => Termination::Resources,
            Self::File(_) | Self::Folder(_) => Termination::File,
            Self::NoSuchStep(_) => Termination::BadInput,
            Self::Bad => Termination::BadResult,
            Self::Output(error) => error.termination(),
        }
    }
}

/// The tool that knows cards.
const TOOL: &str = "nvidia-smi";

/// Looks at the GPU, writes the file, and tells what was found.
pub fn run(order: Order<'_>) -> Result<(), FirstError> {
    let began = (machine::date(), clock::now_ns());
    output::note("first light: looking for the GPU");
    // Asked before the file is claimed: without a GPU nothing is left behind.
    let machine = Machine::find(order.device).map_err(no_gpu)?;
    let file = Claimed::claim(order.file)?;
    let order = Order {
        // The emulated driver runs on a processor.
        quick: order.quick || machine.emulated,
        ..order
    };
    let sensors = Sensors::find(order.root, Path::new(TOOL), &machine.uuid);
    let surroundings = Surroundings::of(order.root, Path::new(TOOL), sensors.about());
    let made_by = Provenance::of_this();
    let steps = look(order, &machine)?;
    let report = Report {
        format: FORMAT,
        warnings: report::warnings(&machine, order.quick, &made_by),
        began: began.0,
        seconds: seconds_since(began.1),
        made_by,
        machine,
        surroundings,
        steps,
    };
    let json = serde_json::to_string(&report).expect("plain data");
    let bytes = file.write(&json)?;
    if order.json {
        output::line(&json)?;
    } else {
        output::text(report.text(output::width()))?;
    }
    output::note(format_args!(
        "wrote {} ({bytes} bytes): send it as docs/first-light.md says; `zcat` shows what is in it",
        order.file.display()
    ));
    if report.is_bad() {
        Err(FirstError::Bad)
    } else {
        Ok(())
    }
}

fn no_gpu(error: OpenError) -> FirstError {
    match error {
        OpenError::NoDevice { ordinal, devices } if devices > 0 => {
            FirstError::NoSuchGpu { ordinal, devices }
        }
        error => FirstError::NoGpu(error),
    }
}

/// All steps, one after the other.
fn look(order: Order<'_>, machine: &Machine) -> Result<Vec<Judged>, FirstError> {
    // More than two multiprocessors in none of them.
    let tpcs = machine.multiprocessors.div_ceil(2);
    let work = Work::new()?;
    let program = std::env::current_exe().map_err(FirstError::Program)?;
    let all = steps::ALL.len();
    let mut judged = Vec::new();
    for (index, &step) in steps::ALL.iter().enumerate() {
        let place = format!("[{}/{all}] {}", index + 1, step.name());
        output::note(format_args!("{place}: {}", step.shows()));
        let start = clock::now_ns();
        let outcome = child::run(
            &mut command(&program, order, &work, step),
            step.patience(tpcs) + if machine.emulated { EMULATED_S } else { 0 },
        );
        let of_step = Judged::new(step, outcome, seconds_since(start), machine.emulated);
        output::note(format_args!(
            "{place}: {} after {:.1} s",
            of_step.verdict.name(),
            of_step.seconds
        ));
        judged.push(of_step);
    }
    Ok(judged)
}

fn command(program: &Path, order: Order<'_>, work: &Work, step: &dyn FirstStep) -> Command {
    let mut command = Command::new(program);
    command
        .args(["gpu", "--first-step", step.name(), "--device"])
        .arg(order.device.to_string())
        .arg("--out")
        .arg(work.0.path())
        .arg("--root")
        .arg(order.root);
    if order.quick {
        command.arg("--quick");
    }
    command
}

/// What a step has longer on an emulated device, in seconds: it is as slow as the processor, which may be busy.
const EMULATED_S: u32 = 60;

fn seconds_since(start_ns: u64) -> f64 {
    (clock::now_ns() - start_ns) as f64 / 1e9
}

/// Runs one step in this process and prints its outcome.
pub fn run_step(name: &str, folder: &Path, order: Order<'_>) -> Result<(), FirstError> {
    let step = steps::find(name).ok_or_else(|| FirstError::NoSuchStep(name.to_owned()))?;
    let folder = Folder::open(folder)?;
    let session = Session::new(&folder, order.device, order.quick, step.seconds());
    let outcome: Outcome<Watched> = match watched(step, &session, order) {
        Ok(watched) => Outcome::Measured(watched),
        Err(StepError::Prerequisite(lack)) => Outcome::NotMeasured {
            why: lack.to_string(),
        },
        Err(error) => Outcome::Failed {
            why: error.to_string(),
        },
    };
    let text = serde_json::to_string(&outcome).expect("plain data");
    Ok(output::line(text)?)
}

fn watched(
    step: &dyn FirstStep,
    session: &Session<'_>,
    order: Order<'_>,
) -> Result<Watched, StepError> {
    let uuid = session.gpu()?.uuid()?;
    let uuid = uuid.map(|byte| format!("{byte:02x}")).concat();
    let sensors = Sensors::find(order.root, Path::new(TOOL), &uuid);
    let mut held = Ok(None);
    let warm = || {
        if step.of_time() {
            held = steps::warm(session).map(Some);
        }
    };
    let (finding, clocks) = sensors.watch(warm, || step.run(session));
    // Held until the last reading: a card lowers its clocks within half a second after the last context is gone.
    drop(held?);
    Ok(Watched {
        finding: finding?,
        clocks,
    })
}

/// A folder for what steps keep for each other, gone with this.
struct Work(Folder);

impl Work {
    /// A new one: what another user may have put in its place is not used.
    fn new() -> Result<Self, FolderError> {
        let name = format!("punctual-{}-{}", std::process::id(), clock::now_ns());
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| FolderError::File {
            path: path.clone(),
            source,
        })?;
        Folder::open(&path).map(Self)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Records of trials left behind do no harm.
        let _ = fs::remove_dir_all(self.0.path());
    }
}
