//! `punctual bench cold-start`: from the start of a process to a network's first answers.
//!
//! Each start is a process of its own: this program again, which answers one image and says when
//! each exit did. Ways to start alternate, so that a disturbance hits all of them alike.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use punctual_device_cpu::StartError;
use punctual_device_cpu::cold_start::{
    ColdStartError, FirstAnswers, Order, Preparation, first_answers,
};
use punctual_device_cpu::{SolutionRequest, measure_solutions};
use punctual_kernels::Isa;
use punctual_model::{Network, Package, PackageError, SolutionChoice};
use punctual_platform::output::{self, OutputError};
use punctual_platform::{clock, read};
use serde::{Deserialize, Serialize};

use super::cold_start_report::{Report, Row};
use punctual_platform::termination::{Terminates, Termination};

/// Which network, and how often.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench cold-start mobilenet.punctual
  punctual bench cold-start mobilenet.punctual --rounds 100 --json

Starts a process again and again in several ways, in alternation, and shows when the first and the
deepest exit had answered, counted from just before the process was started. `cold`: the package
was written out and the kernel advised to forget its pages (posix_fadvise, DONTNEED) before each
start; what a disk or hypervisor caches by itself stays, and so does the program. `warm`: the
package is in the kernel's page cache. Which solution of each operator is the fastest is measured
first.

TERMINATION CODES: 0 done; 3 the package is invalid or has no weights packed for this processor;
4 it is missing; 5 a process cannot be started.")]
pub struct Options {
    /// The package.
    package: PathBuf,
    /// Number of starts of each kind.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Answer one image in this way and print when; for the measurement's own use.
    #[arg(long, hide = true, requires = "solutions")]
    once: Option<Way>,
    /// File with the chosen algorithms.
    #[arg(long, hide = true)]
    solutions: Option<PathBuf>,
}

/// A way to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// All techniques: interleaved, and chosen solutions that are not prepared are replaced after the milestone.
    Interleaved,
    /// Interleaved; chosen solutions are prepared before they run, none is replaced.
    NoReplacement,
    /// Interleaved; all solutions that have to be prepared are replaced, before the milestone too.
    NoMilestone,
    /// Lower, load, run, one after the other.
    InTurn,
    /// The whole file verified first.
    VerifiedFirst,
    /// The same, and weights packed from the logical ones: everything first.
    EverythingFirst,
}

impl Way {
    const ALL: [Self; 6] = [
        Self::Interleaved,
        Self::NoReplacement,
        Self::NoMilestone,
        Self::InTurn,
        Self::VerifiedFirst,
        Self::EverythingFirst,
    ];

    const fn order(self) -> Order {
        match self {
            Self::Interleaved => Order::Interleaved(Preparation::BeforeMilestone),
            Self::NoReplacement => Order::Interleaved(Preparation::Always),
            Self::NoMilestone => Order::Interleaved(Preparation::Never),
            Self::InTurn => Order::OneAfterTheOther,
            Self::VerifiedFirst => Order::VerifiedFirst,
            Self::EverythingFirst => Order::PackedFirst,
        }
    }

    /// As on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Interleaved => "interleaved",
            Self::NoReplacement => "no-replacement",
            Self::NoMilestone => "no-milestone",
            Self::InTurn => "in-turn",
            Self::VerifiedFirst => "verified-first",
            Self::EverythingFirst => "everything-first",
        }
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Start(#[from] ColdStartError),
    /// The solutions could not be measured.
    #[error(transparent)]
    Solutions(#[from] StartError),
    /// A file cannot be read or written, or a process not started.
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        source: std::io::Error,
    },
    /// A process did not say when it answered.
    #[error("the started process ended with {status} and printed: {said}")]
    Started {
        status: std::process::ExitStatus,
        said: String,
    },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Package(PackageError::File { .. }) => Termination::File,
            Self::Package(_) | Self::Start(_) => Termination::BadInput,
            Self::Solutions(_) | Self::System { .. } | Self::Started { .. } => {
                Termination::Resources
            }
        }
    }
}

/// When things were done, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    /// The program's own code began.
    pub(super) entered: u64,
    /// The package was open.
    pub(super) opened: u64,
    /// The last stage was lowered.
    pub(super) lowered: u64,
    /// The last weights were there.
    pub(super) loaded: u64,
    /// Each exit had answered.
    pub(super) exits: Vec<u64>,
}

/// Measures, or answers once.
pub fn run(options: &Options) -> Result<(), Error> {
    if let (Some(way), Some(solutions)) = (options.once, &options.solutions) {
        return answer_once(&options.package, way, solutions);
    }
    let report = measure(options)?;
    if options.json {
        output::line(report.json())?;
    } else {
        output::text(report.table())?;
    }
    Ok(())
}

fn answer_once(path: &Path, way: Way, solutions: &Path) -> Result<(), Error> {
    let entered = clock::now_ns();
    let choices = read::bytes(solutions, read::TEXT_BYTES_MAX).map_err(|source| Error::System {
        what: "reading the solutions",
        source,
    })?;
    let choices: Vec<SolutionChoice> = serde_json::from_slice(&choices).unwrap_or_default();
    let input = |network: &Network| {
        let tensor = network.tensors[network.input_tensor().0 as usize];
        picture((tensor.channels * tensor.height * tensor.width) as usize)
    };
    let answers = first_answers(Isa::detect(), path, input, way.order(), &choices)?;
    let times = Times::of(entered, &answers);
    let line = serde_json::to_string(&times).expect("numbers");
    output::line(line)?;
    Ok(())
}

/// Values like normalised pixels; which ones does not matter for the time.
fn picture(len: usize) -> Vec<f32> {
    (0..len)
        .map(|at| ((at * 7) % 256) as f32 / 128.0 - 1.0)
        .collect()
}

impl Times {
    fn of(entered: u64, answers: &FirstAnswers) -> Self {
        Self {
            entered,
            opened: answers.opened.as_nanos(),
            lowered: answers.lowered.as_nanos(),
            loaded: answers.loaded.as_nanos(),
            exits: answers
                .exits
                .iter()
                .map(|exit| exit.at.as_nanos())
                .collect(),
        }
    }

    /// Counted from `start`.
    fn since(mut self, start: u64) -> Self {
        let exits = self.exits.iter_mut();
        let parts = [
            &mut self.entered,
            &mut self.opened,
            &mut self.lowered,
            &mut self.loaded,
        ];
        for time in parts.into_iter().chain(exits) {
            *time = time.saturating_sub(start);
        }
        self
    }
}

fn measure(options: &Options) -> Result<Report, Error> {
    let path = &options.package;
    let package = Package::read(path)?;
    let mut report = Report {
        model: package.network().name.clone(),
        isa: Isa::detect().name().to_owned(),
        rounds: options.rounds,
        solutions: 0,
        rows: Vec::new(),
    };
    let solutions = Solutions::measure(package.network())?;
    report.solutions = solutions.count;
    drop(package);
    let file = read::open(path).map_err(|source| Error::System {
        what: "opening the package",
        source,
    })?;
    let kinds = || {
        [true, false]
            .into_iter()
            .flat_map(|cold| Way::ALL.map(|way| (way, cold)))
    };
    report.rows = kinds().map(|(way, cold)| Row::new(way, cold)).collect();
    for _ in 0..options.rounds {
        for ((way, cold), row) in kinds().zip(&mut report.rows) {
            if cold {
                forget(&file)?;
            }
            row.times.push(start(path, way, &solutions.file)?);
        }
    }
    Ok(report)
}

/// The solutions that are the fastest for one image on one core, in a file of their own.
struct Solutions {
    count: usize,
    file: PathBuf,
}

/// Measurements of each solution.
const SOLUTION_ROUNDS: usize = 15;

impl Solutions {
    fn measure(network: &Network) -> Result<Self, Error> {
        let request = SolutionRequest {
            isa: Isa::detect(),
            batches: &[1],
            mates: &[],
            rounds: SOLUTION_ROUNDS,
        };
        let choices = measure_solutions(network, &request)?;
        let file = std::env::temp_dir().join(format!("punctual-solutions-{}", std::process::id()));
        let text = serde_json::to_vec(&choices).expect("choices are plain");
        std::fs::write(&file, text).map_err(|source| Error::System {
            what: "writing the solutions",
            source,
        })?;
        let direct = |choice: &&SolutionChoice| choice.solution != "direct";
        Ok(Self {
            count: choices.iter().filter(direct).count(),
            file,
        })
    }
}

impl Drop for Solutions {
    fn drop(&mut self) {
        // A file left behind does no harm.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Drops the file's pages from the kernel's cache, except those that are mapped.
fn forget(file: &File) -> Result<(), Error> {
    let system = |source| Error::System {
        what: "dropping the package's pages",
        source,
    };
    file.sync_all().map_err(system)?;
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
        .map_err(|errno| system(errno.into()))
}

/// One start in a process of its own.
fn start(path: &Path, way: Way, solutions: &Path) -> Result<Times, Error> {
    let system = |source| Error::System {
        what: "starting a process",
        source,
    };
    let program = std::env::current_exe().map_err(system)?;
    let mut command = Command::new(program);
    command
        .args(["cold-start", "--once", way.name(), "--solutions"])
        .arg(solutions)
        .arg(path)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let started = clock::now_ns();
    let output = command.output().map_err(system)?;
    let times: Option<Times> = output
        .status
        .success()
        .then(|| serde_json::from_slice(&output.stdout).ok())
        .flatten();
    times
        .map(|times| times.since(started))
        .ok_or_else(|| Error::Started {
            status: output.status,
            said: String::from_utf8_lossy(&output.stdout).into_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_the_start() {
        let times = Times {
            entered: 105,
            opened: 110,
            lowered: 120,
            loaded: 130,
            exits: vec![140, 150],
        };
        let since = times.since(100);
        assert_eq!(since.exits, [40, 50]);
        assert_eq!((since.entered, since.loaded), (5, 30));
        let line = serde_json::to_string(&since).expect("numbers");
        let back: Times = serde_json::from_str(&line).expect("what was written");
        assert_eq!(back, since);
    }

    #[test]
    fn every_way_has_the_name_that_the_command_line_knows() {
        use clap::ValueEnum as _;
        for way in Way::ALL {
            assert_eq!(Way::from_str(way.name(), false), Ok(way));
        }
    }
}
