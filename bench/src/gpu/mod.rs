//! `punctual bench gpu`: everything that must be known about the CUDA device on a GPU, in one command
//! that takes six minutes and can be interrupted.

mod bound;
mod clocks;
mod course;
mod division;
mod first;
#[cfg(test)]
mod fixtures;
mod folder;
mod load;
mod machine;
mod report;
mod result;
mod rig;
mod roofline;
mod runner;
mod step;
mod steps;

use std::path::{Path, PathBuf};

use punctual_device_cuda::driver::OpenError;
use punctual_platform::files::write_whole;
use punctual_platform::output::{self, OutputError};
use punctual_report::Table;

use self::course::{Choice, Course, NoSuchStep};
use self::folder::{Folder, FolderError};
use self::machine::Machine;
use self::report::{Report, first_light};
use self::runner::Runner;
use self::step::{Session, StepError, Timed};
use self::steps::locking::LockOrder;
use punctual_platform::termination::{Terminates, Termination};

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench gpu
  punctual bench gpu --list
  punctual bench gpu --only preemption
  punctual bench gpu --again disb --out orin-maxn
  punctual bench gpu --predict
  punctual bench gpu --page h200.md --out orin-maxn
  punctual bench gpu --first
  punctual bench gpu --first --file orin-nx.json.gz

Runs one step after the other, each in a process of its own, and writes FOLDER/STEP.json as it ends; then
FOLDER/report.json and FOLDER/report.html, which need nothing else. When it is interrupted, run it again: it
continues where it stopped. A step that fails is reported with its cause, and the others still run; the next run repeats it.

No other program should use the GPU meanwhile. Clocks should be fixed (Jetson: nvpmodel, jetson_clocks; others:
nvidia-smi --lock-gpu-clocks); the report says what they were. Latencies count from the intended start.

--first asks within a minute whether Punctual works on this GPU at all: probe, mask bits, known answers, latencies, peaks,
one network, preemption. It prints a verdict on each and writes one file to send (docs/first-light.md). A time that was taken
while a clock moved is rejected.

TERMINATION CODES: 0 done; 1 a step failed or was rejected, or a bound was missed; 3 no such step, or the folder has results
of another device; 4 a file cannot be read or written; 5 there is no GPU.")]
pub struct Options {
    /// The folder of the results.
    #[arg(long, value_name = "FOLDER", default_value = "punctual-bench-gpu")]
    out: PathBuf,
    /// Run only these steps and those that they depend on.
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    only: Vec<String>,
    /// Repeat these steps, although they have a result.
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    again: Vec<String>,
    /// The GPU's number, as the driver counts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Smallest sizes, as a test of the steps; the figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Measure nothing: write the report of the results in the folder.
    #[arg(long)]
    report: bool,
    /// Measure nothing: write a page in Markdown about the card of the results in the folder, and of first-light.json.gz there.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "again", "report", "list"])]
    page: Option<PathBuf>,
    /// List the steps.
    #[arg(long)]
    list: bool,
    /// Measure nothing, and need no GPU: print what the roofline predicts of stages on known devices.
    #[arg(long, conflicts_with_all = ["only", "again", "report", "list"])]
    predict: bool,
    /// A verdict on this GPU within a minute, and one file to send.
    #[arg(long, conflicts_with_all = ["only", "again", "report", "list", "predict"])]
    first: bool,
    /// The file of --first; one that is there is kept, and the run refused.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "punctual-first-light.json.gz",
        requires = "first"
    )]
    file: PathBuf,
    /// Print the report, or the predictions, as JSON.
    #[arg(long)]
    json: bool,
    /// Make a context, lock memory before or after that, and print what the process has.
    #[arg(long, hide = true, value_name = "ORDER")]
    lock_order: Option<LockOrder>,
    /// Run one step in this process, of first light with --first, and print its outcome.
    #[arg(long, hide = true, value_name = "STEP")]
    step: Option<String>,
    /// Where first light reads the files of kernel and system.
    #[arg(long, hide = true, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
}

/// Why there is no report, or a bad one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}\nNothing was measured; --list shows the steps.")]
    NoGpu(#[from] OpenError),
    #[error(transparent)]
    NoSuchStep(#[from] NoSuchStep),
    /// The roofline says nothing of a network.
    #[error(transparent)]
    Predict(#[from] roofline::PredictError),
    /// Of first light.
    #[error(transparent)]
    First(#[from] first::FirstError),
    /// Results cannot be kept or read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The program's own file is not known.
    #[error("each step runs in a process of its own, and this program's path is unknown: {0}")]
    Program(std::io::Error),
    /// A process that was to lock memory does not.
    #[error(transparent)]
    NoAnswer(Box<StepError>),
    #[error("a step failed; the report says which and why")]
    StepFailed,
    #[error("a measurement misses its bound; the report marks it")]
    Missed,
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::First(error) => error.termination(),
            Self::NoGpu(_) | Self::Program(_) | Self::NoAnswer(_) => Termination::Resources,
            Self::NoSuchStep(_) | Self::Folder(FolderError::Other { .. }) => Termination::BadInput,
            Self::Folder(_) => Termination::File,
            Self::Predict(_) => Termination::BadResult,
            Self::StepFailed | Self::Missed => Termination::BadResult,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    if options.list {
        output::text(list())?;
        return Ok(());
    }
    if options.predict {
        return predict(options.json);
    }
    if let Some(name) = &options.step {
        return run_here(options, name);
    }
    if let Some(order) = options.lock_order {
        return lock_here(options, order);
    }
    if options.first {
        return Ok(first::run(first::Order {
            file: &options.file,
            device: options.device,
            quick: options.quick,
            json: options.json,
            root: &options.root,
        })?);
    }
    if let Some(file) = &options.page {
        return write_page(options, file);
    }
    let choice = Choice {
        only: options.only.clone(),
        again: options.again.clone(),
    };
    let chosen = course::chosen(steps::ALL, &choice)?;
    if !options.report {
        measure(options, &chosen)?;
    }
    let folder = Folder::open(&options.out)?;
    let report = Report::read(&folder, steps::ALL, command(options))?;
    let json = serde_json::to_string_pretty(&report).expect("plain data");
    folder.write_text("report.json", &json)?;
    let page = folder.write_text("report.html", &report::page(&report, steps::ALL))?;
    if options.json {
        output::line(json)?;
    } else {
        output::text(report::text(&report, output::width()))?;
    }
    output::note(format_args!("wrote {}", page.display()));
    match (report.any_failed(), report.any_missed()) {
        (true, _) => Err(Error::StepFailed),
        (false, true) => Err(Error::Missed),
        (false, false) => Ok(()),
    }
}

/// Writes what is known of the card, where it may replace what an earlier run said.
fn write_page(options: &Options, file: &Path) -> Result<(), Error> {
    let folder = Folder::open(&options.out)?;
    let report = Report::read(&folder, steps::ALL, command(options))?;
    let first = first_light::Report::read(&options.out.join("first-light.json.gz"));
    let text = report::card(&report, first.as_ref());
    write_whole(file, text.as_bytes()).map_err(|source| FolderError::File {
        path: file.to_owned(),
        source,
    })?;
    output::note(format_args!("wrote {}", file.display()));
    Ok(())
}

fn measure(options: &Options, chosen: &[Timed<'_>]) -> Result<(), Error> {
    // Asked before the folder is made: without a GPU nothing is left behind.
    let machine = Machine::find(options.device)?;
    let folder = Folder::open(&options.out)?;
    let program = std::env::current_exe().map_err(Error::Program)?;
    let runner = runner(options, &folder);
    let course = Course {
        folder: &folder,
        machine: &machine,
        quick: options.quick,
    };
    let execute =
        |Timed { step, seconds }: Timed<'_>| runner.run(&program, step, seconds, &machine);
    course.run(chosen, &options.again, execute, |index, timed, progress| {
        progress.note(index, chosen.len(), timed);
    })?;
    Ok(())
}

fn runner<'o>(options: &'o Options, folder: &'o Folder) -> Runner<'o> {
    Runner {
        folder,
        device: options.device,
        quick: options.quick,
        first: options.first.then_some(options.root.as_path()),
    }
}

/// Runs a step and prints its outcome: what the process of a step does.
fn run_here(options: &Options, name: &str) -> Result<(), Error> {
    let steps = if options.first {
        steps::FIRST
    } else {
        steps::ALL
    };
    let Timed { step, seconds } = course::find(steps, name)?;
    let folder = Folder::open(&options.out)?;
    let ran = runner(options, &folder).run_here(step, seconds);
    let text = serde_json::to_string(&ran).expect("plain data");
    Ok(output::line(text)?)
}

/// One process of the step `memory` that locks.
fn lock_here(options: &Options, order: LockOrder) -> Result<(), Error> {
    let folder = Folder::open(&options.out)?;
    let session = Session::new(&folder, options.device, options.quick, 0);
    let found = steps::locking::in_this_process(&session, order);
    let found = found.map_err(|error| Error::NoAnswer(Box::new(error)))?;
    Ok(output::line(found)?)
}

/// Prints the predictions of all networks and devices.
fn predict(json: bool) -> Result<(), Error> {
    let predictions = roofline::all()?;
    if json {
        let text = serde_json::to_string_pretty(&predictions).expect("plain data");
        output::line(text)?;
    } else {
        output::text(roofline::page(&predictions))?;
    }
    Ok(())
}

fn list() -> String {
    let mut table = Table::list().inset();
    for Timed { step, seconds } in steps::ALL {
        let needs = match step.needs() {
            [] => String::new(),
            needs => format!("; after {}", needs.join(", ")),
        };
        let about = format!("{} (about {seconds} s{needs})", step.about());
        table.row([step.name(), &about]);
    }
    let seconds: u32 = steps::ALL.iter().map(|timed| timed.seconds).sum();
    let width = output::width();
    format!("STEPS, about {seconds} s in all\n{table:width$}")
}

/// The command that continues the run.
fn command(options: &Options) -> String {
    let mut words = vec!["punctual bench gpu --out".to_owned()];
    words.push(options.out.display().to_string());
    if options.device != 0 {
        words.push(format!("--device {}", options.device));
    }
    if options.quick {
        words.push("--quick".to_owned());
    }
    words.join(" ")
}
