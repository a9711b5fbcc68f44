//! First light: `punctual bench gpu --first`. Within a minute a verdict on a GPU that the project has not seen before, and one
//! file that lets others judge it.
//!
//! | module | contents |
//! |---|---|
//! | `provenance`, `surroundings` | which program this is, and what else is true of the machine |
//! | `file` | the one file, claimed before anything is measured |

mod file;
pub mod provenance;
pub mod surroundings;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use punctual_device_cuda::driver::OpenError;
use punctual_platform::clock;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};

use self::file::{Claimed, FileError};
use self::provenance::Provenance;
use self::surroundings::Surroundings;
use super::clocks::{Sensors, TOOL};
use super::course::Course;
use super::folder::{Folder, FolderError};
use super::machine::{self, Machine};
use super::report::first_light::{FORMAT, Judged, Report, warnings};
use super::runner::Runner;
use super::step::Timed;
use super::steps;

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
            Self::Bad => Termination::BadResult,
            Self::Output(error) => error.termination(),
        }
    }
}

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
        warnings: warnings(&machine, order.quick, &made_by),
        began: began.0,
        seconds: (clock::now_ns() - began.1) as f64 / 1e9,
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
    let work = Work::new()?;
    let program = std::env::current_exe().map_err(FirstError::Program)?;
    let runner = Runner {
        folder: &work.0,
        device: order.device,
        quick: order.quick,
        first: Some(order.root),
    };
    let course = Course {
        folder: &work.0,
        machine,
        quick: order.quick,
    };
    let execute = |Timed { step, seconds }: Timed<'_>| runner.run(&program, step, seconds, machine);
    let all = steps::FIRST.len();
    let records = course.run(steps::FIRST, &[], execute, |index, timed, progress| {
        progress.note(index, all, timed);
    })?;
    let records = steps::FIRST.iter().zip(records);
    Ok(records
        .map(|(timed, record)| Judged::new(timed.step, record))
        .collect())
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
