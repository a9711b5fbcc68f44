//! `punctual bench engine`: our engine and ONNX Runtime on the user's own file, in alternation.

use std::path::PathBuf;

use punctual_compile::{CompileError, Compiled, Overrides, compile_with};
use punctual_device_cpu::{Evaluator, StartError};
use punctual_device_cpu::{SolutionRequest, measure_solutions};
use punctual_device_ort::{FileError, Library, LibraryError, OnnxFile};
use punctual_kernels::Isa;
use punctual_model::Network;
use punctual_platform::output::{self, OutputError};
use punctual_platform::{affinity, clock};

use super::engine_report::{Report, Row, Times};
use punctual_platform::termination::{Terminates, Termination};

/// What to compare, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  ORT_DYLIB_PATH=/usr/lib/libonnxruntime.so punctual bench engine mobilenet.onnx
  punctual bench engine mobilenet.onnx --onnxruntime libonnxruntime.so --batches 1,4 --cores 1,2

Compiles the file, measures which solution of each operator is fastest here, runs the same random images through our engine and through ONNX Runtime, one
measurement of each in turn on the same cores, and compares times and scores. The library is not
part of Punctual: the wheel `onnxruntime` of PyPI has one, e.g.
  pip install --target ort onnxruntime && ls ort/onnxruntime/capi/libonnxruntime.so*

TERMINATION CODES: 0 done; 1 the scores differ by more than 0.0001 of their spread; 3 the file cannot
be compiled or run; 4 it is missing; 5 the library cannot be loaded, or threads cannot be started.")]
pub struct Options {
    /// The ONNX file.
    onnx: PathBuf,
    /// The library [default: the one that ORT_DYLIB_PATH names].
    #[arg(long, value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(u8).range(1..=32))]
    batches: Vec<u8>,
    /// Numbers of cores.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u8).range(1..))]
    cores: Vec<u8>,
    /// Number of measurements of each engine.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..))]
    rounds: u32,
    /// Use the general algorithm of each operator instead of the one that measured fastest.
    #[arg(long)]
    direct: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Compile {
        path: PathBuf,
        source: Box<CompileError>,
    },
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("ONNX Runtime failed: {0}")]
    Run(String),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{wanted} cores were asked for, {available} are available to this process")]
    Cores { wanted: usize, available: usize },
    #[error("the scores differ by {difference:.2e}; their spread is {spread:.2e}")]
    Differs {
        difference: f32,
        /// From the least score to the greatest.
        spread: f32,
    },
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Compile { source, .. } if matches!(**source, CompileError::Read { .. }) => {
                Termination::File
            }
            Self::Compile { .. } | Self::File(_) | Self::Run(_) => Termination::BadInput,
            Self::Library(_) | Self::Start(_) | Self::Cores { .. } => Termination::Resources,
            Self::Differs { .. } => Termination::BadResult,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let compiled =
        compile_with(&options.onnx, &Overrides::imagenet()).map_err(|source| Error::Compile {
            path: options.onnx.clone(),
            source: Box::new(source),
        })?;
    let library = Library::load(options.onnxruntime.as_deref())?;
    let available = affinity::available_cores().unwrap_or_default();
    let mut rows = Vec::new();
    for &count in &options.cores {
        let cores = available.get(..usize::from(count)).ok_or(Error::Cores {
            wanted: usize::from(count),
            available: available.len(),
        })?;
        for &batch in &options.batches {
            rows.push(compare(
                options,
                &compiled,
                library,
                cores,
                usize::from(batch),
            )?);
        }
    }
    let report = Report {
        network: compiled.package.network().name.clone(),
        instruction_set: Isa::detect().name().to_owned(),
        rounds: options.rounds,
        rows,
    };
    if options.json {
        output::line(serde_json::to_string_pretty(&report).expect("plain data always serialises"))?;
    } else {
        output::text(format_args!("{report:0$}", output::width()))?;
    }
    agreed(&report)
}

fn agreed(report: &Report) -> Result<(), Error> {
    const TOLERANCE: f32 = 1e-4;
    let differs = |row: &&Row| row.difference > TOLERANCE * row.spread.max(1.0);
    match report.rows.iter().find(differs) {
        Some(row) => Err(Error::Differs {
            difference: row.difference,
            spread: row.spread,
        }),
        None => Ok(()),
    }
}

/// One batch size on some cores: a thread on the first of them measures both, in turn.
fn compare(
    options: &Options,
    compiled: &Compiled,
    library: Library,
    cores: &[usize],
    batch: usize,
) -> Result<Row, Error> {
    let network = compiled.package.network();
    std::thread::scope(|scope| {
        // A thread of its own, so that this one stays free to run anywhere.
        let measured = scope.spawn(|| {
            // Not granted: then the two share whatever core they are on.
            let _ = affinity::pin_current_thread(cores[0]);
            let choices = if options.direct {
                Vec::new()
            } else {
                measure_solutions(
                    network,
                    &SolutionRequest {
                        isa: Isa::detect(),
                        batches: &[batch as u8],
                        mates: &cores[1..],
                        rounds: 5,
                    },
                )?
            };
            let mut ours =
                Evaluator::with_mates(Isa::detect(), network, batch, &cores[1..], &choices)?;
            let mut theirs = OnnxFile::open(library, &options.onnx, cores, &compiled.exits)?;
            measure(options.rounds, network, batch, &mut ours, &mut theirs).map(
                |(own, other, agreement)| Row {
                    batch,
                    cores: cores.len(),
                    punctual: Times::of(own),
                    onnxruntime: Times::of(other),
                    difference: agreement.0,
                    spread: agreement.1,
                },
            )
        });
        measured
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

type Measured = (Vec<u64>, Vec<u64>, (f32, f32));

fn measure(
    rounds: u32,
    network: &Network,
    batch: usize,
    ours: &mut Evaluator,
    theirs: &mut OnnxFile,
) -> Result<Measured, Error> {
    const WARM_UP: u32 = 3;
    let shape = network.tensors[network.input_tensor().index()];
    let [channels, height, width] =
        [shape.channels, shape.height, shape.width].map(|side| side as usize);
    let images = noise(batch * channels * height * width);
    let each: Vec<&[f32]> = images.chunks_exact(channels * height * width).collect();
    let shape = [batch, channels, height, width];
    ours.load(&each);
    let (mut own, mut other) = (Vec::new(), Vec::new());
    let mut agreement = (0.0, 0.0);
    for round in 0..WARM_UP + rounds {
        let start = clock::now_ns();
        let found = ours.run(batch);
        let between = clock::now_ns();
        let expected = theirs
            .run(shape, &images)
            .map_err(|error| Error::Run(error.to_string()))?;
        let end = clock::now_ns();
        if round == 0 {
            agreement = agreement_of(&found, &expected);
        }
        if round >= WARM_UP {
            own.push(between - start);
            other.push(end - between);
        }
    }
    Ok((own, other, agreement))
}

/// The largest difference of scores, and their spread.
fn agreement_of(found: &[Vec<Vec<f32>>], expected: &[Vec<f32>]) -> (f32, f32) {
    let found = found.iter().map(|images| images.concat());
    let pairs = found
        .zip(expected)
        .flat_map(|(found, expected)| found.into_iter().zip(expected.clone()));
    let (mut difference, mut least, mut greatest) = (0_f32, f32::MAX, f32::MIN);
    for (found, expected) in pairs {
        difference = difference.max((found - expected).abs());
        (least, greatest) = (least.min(expected), greatest.max(expected));
    }
    (difference, greatest - least)
}

/// Values in [-1, 1), the same in each run.
fn noise(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}
