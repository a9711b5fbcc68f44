//! `punctual compile`: an ONNX file with early exits into a model package.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use punctual_compile::{
    BYTES_MEAN, BYTES_STD, CompileError, Compiled, DetectionOptions, IMAGENET_MEAN, IMAGENET_STD,
    InputOptions, Note, Overrides, Reduction, Unsupported, compile_with,
};
use punctual_core::Nanos;
use punctual_device::profile::{MeasureError, Subject};
use punctual_device::verify;
use punctual_device_cpu::{CpuProvider, LowerError, StartError, image_layout, lanes};
use punctual_kernels::Isa;
use punctual_model::{AnswerKind, Disagreement, Network, Package, PackageError, Profile, Verified};
use punctual_platform::affinity;
use punctual_platform::output::{self, OutputError};
use punctual_report::Table;
use serde_json::json;

use super::inspect::Packed;
use crate::measure;
use clap::builder::PossibleValuesParser;
use punctual_device_cpu::images::{self, AARCH64_LANES, ImageError};
use punctual_plan::{Board, ProfileInput, inside};
use punctual_platform::termination::{Terminates, Termination};

/// What to compile, and where to put it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual compile resnet50.onnx --normalise imagenet --answer classes --classes imagenet.txt
  punctual compile segmenter.onnx --normalise imagenet --answer none
  punctual compile segmenter.onnx --normalise imagenet --answer none --reduce mask=argmax
  punctual compile detector.onnx --normalise none --detections form=cxcywh,unit=pixels,values=probabilities,threshold=0.3
  punctual compile model.onnx --size 96x96 --mean 0.5,0.5,0.5 --std 0.5,0.5,0.5 --answer labels
  punctual compile resnet50.onnx --normalise imagenet --answer classes --for jetson-orin-nx-16gb
  punctual compile resnet50.onnx --normalise imagenet --answer classes --explain
  punctual compile models/signs/signs.toml --verify
  punctual compile signs.toml --output /etc/punctual/signs.punctual

The outputs exit_0, exit_1, ... are the exits; an exit of several tensors has outputs exit_0/boxes,
exit_0/scores, ...; exit_0/confidence, one number a request, is how sure the network itself is. Without
such names there is one exit with all outputs. What is not beyond doubt must be said: how a picture is
normalised, and what an answer is:

  classes      one of several: class and confidence by softmax of the scores (the only output, or exit_0/scores)
  labels       any of several: by the logistic function of each score, which is left out where the ONNX file has it already
  detections   objects: the tensors
  none         something else: the tensors

REDUCTIONS (what clients get is computed on the device, in the time of the stage that ends in the exit):

  --reduce mask=argmax               the best class of each pixel: a byte, or int32 for more than 256 classes
  --reduce scores=topk:5             the 5 largest scores, and their positions as scores_index
  --reduce map=argmax:3              along dimension 3 (0 is the batch); else 1 of four, or the last
  --detections boxes=boxes,scores=scores,form=xyxy,unit=pixels,values=logits,threshold=0.3,rows=100,overlap=0.5
                                     detections (100 rows of left, top, right, bottom, score, class) and count

  Keys of --detections:
    boxes, scores, objectness   outputs: (places, 4), (places, classes), (places), or the other way round; output[4:84]
                                is a part of the values of each place. By default boxes, scores, none
    form                        xyxy, xywh or cxcywh
    unit                        pixels of the network's input, or fractions of its width and height
    values                      what scores are: probabilities, logits, or softmax to have one taken over the classes
    background                  first or last: a class that is none
    threshold                   a detection's score is above it
    rows                        at most so many detections (100; at most 1000)
    candidates                  the best places that are looked at (4 for each row; at most 2048)
    overlap                     share of the union above which a box gives way to a better one of its class (none do)
    across_classes              true: also to one of another class
    confidence                  the exit's confidence is the mean of so many of the best scores (it has none)

An options file can say all of it; options on the command line come before it:

  name = \"signs\"
  onnx = \"signs.onnx\"                # relative to this file
  calibration = \"calibration.json\"   # optional: confidence and correctness of held-out samples
  [input]
  kind = \"picture\"                   # or \"prepared\"; optional
  height = 64                        # optional where the ONNX file says it
  width = 64
  mean = [0.45, 0.45, 0.45]          # each value becomes (pixel / full scale - mean) / std
  std = [0.25, 0.25, 0.25]
  [output]
  exits = [\"exit_0\", \"exit_1\"]       # optional: else as above
  answer = \"classes\"
  classes = [\"stop\", \"give way\"]     # optional
  reduce = [\"mask=argmax\"]           # optional
  [output.detections]                # optional: the keys above

In place of a package, a new one keeps its profiles, and those beside it stay valid, if it takes the same time: other weights of
the same network do. Calibration records are of the weights, and are dropped. The report says what stays and what does not.

With --verify, what this processor's kernels answer at batch 1 and 8, on drawn inputs and with memory overwritten before each
stage, is compared with the reference interpreter, and a package that would answer wrongly is not written. `punctual profile`
does the same for each device and size of a manifest.

TERMINATION CODES: 0 done; 1 with --verify, the network answers wrongly on this processor; 3 the network or its options cannot be compiled (the node, its operator
and the reason are named); 4 a file is missing or cannot be
written; 5 with --verify, threads or memory are unavailable.")]
pub struct Options {
    /// An ONNX file (its name ends in `.onnx`), or the options file (TOML) of a network.
    file: PathBuf,
    #[command(flatten)]
    network: NetworkOptions,
    /// Where to write the package; by default beside the options file, ending in `.punctual`.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Pack the weights for vectors of this many floats (4, 8, 16), so that they are loaded as
    /// they lie; by default this processor's, and 4 for AArch64 boards. Others are packed at start.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with_all = ["no_images", "boards"]
    )]
    lanes: Option<Vec<u8>>,
    /// Pack the weights for these boards' processors alone: a package for one board is twice the network's weights, not
    /// three times. `host` is this machine.
    #[arg(
        long = "for",
        value_name = "BOARDS",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(Board::builtin_names()),
        hide_possible_values = true,
        conflicts_with = "no_images"
    )]
    boards: Vec<String>,
    /// Pack nothing: a smaller file, the same on every processor.
    #[arg(long)]
    no_images: bool,
    /// Compare what this processor's kernels answer with the reference interpreter. Seconds; of large networks minutes.
    #[arg(long)]
    verify: bool,
    /// If the network cannot be compiled, list every node that is in the way, by operator.
    #[arg(long)]
    explain: bool,
    /// Print the report, or the explanation, as JSON.
    #[arg(long)]
    json: bool,
}

impl Options {
    /// The lane widths to pack for.
    fn lanes(&self) -> Vec<u8> {
        if self.no_images {
            return Vec::new();
        }
        if let Some(lanes) = &self.lanes {
            return lanes.clone();
        }
        if self.boards.is_empty() {
            return images::usual_lanes();
        }
        let boards = self.boards.iter().filter_map(|name| Board::builtin(name));
        let lanes = boards.map(|board| {
            if board.is_jetson() {
                AARCH64_LANES
            } else {
                lanes()
            }
        });
        BTreeSet::from_iter(lanes).into_iter().collect()
    }
}

/// What the network's input and exits are.
#[derive(Clone, Debug, clap::Args)]
struct NetworkOptions {
    /// The network's name; by default the file's.
    #[arg(long)]
    name: Option<String>,
    /// Rows and columns of the input; by default as in the ONNX file.
    #[arg(long, value_name = "ROWSxCOLUMNS", value_parser = size)]
    size: Option<(u32, u32)>,
    /// What the input is: a picture, or a tensor that the client prepares; by default 1, 3 or 4 channels are a picture.
    #[arg(long, value_enum, value_name = "KIND")]
    input: Option<InputKind>,
    /// How a picture's values are normalised: as torchvision's networks want it, to 0..1 (none), or left at 0..255 (bytes)
    /// for a network that normalises them itself.
    #[arg(long, value_enum, value_name = "HOW", conflicts_with_all = ["mean", "std"])]
    normalise: Option<Normalisation>,
    /// Each value becomes (pixel / full scale - mean) / std: a number for each channel (1, 3 or 4).
    #[arg(long, value_name = "R,G,B", value_parser = channels, requires = "std")]
    mean: Option<Channels>,
    /// See --mean.
    #[arg(long, value_name = "R,G,B", value_parser = channels, requires = "mean")]
    std: Option<Channels>,
    /// The outputs that are exits of one tensor each, from the first to the last.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    exits: Vec<String>,
    /// What an answer is.
    #[arg(long, value_enum, value_name = "KIND")]
    answer: Option<Answer>,
    /// Names of the classes or labels, one a line.
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Give clients of this output of each exit only where its largest values are: OUTPUT=argmax or OUTPUT=topk:COUNT,
    /// with :AXIS behind it for another dimension than that of the classes. May be given several times.
    #[arg(long, value_name = "OUTPUT=REDUCTION")]
    reduce: Vec<Reduction>,
    /// Give clients a bounded list of detections, made on the device, instead of boxes and scores: see REDUCTIONS below.
    #[arg(long, value_name = "KEY=VALUE,...")]
    detections: Option<DetectionOptions>,
    /// Confidence and correctness of held-out samples, as `punctual calibrate` writes them.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum InputKind {
    Picture,
    Prepared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Normalisation {
    Imagenet,
    None,
    Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Answer {
    Classes,
    Labels,
    Detections,
    None,
}

impl From<Answer> for AnswerKind {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Classes => Self::Classes,
            Answer::Labels => Self::Labels,
            Answer::Detections => Self::Detections,
            Answer::None => Self::None,
        }
    }
}

impl From<&NetworkOptions> for Overrides {
    fn from(options: &NetworkOptions) -> Self {
        let options = options.clone();
        let (mean, std) = match options.normalise {
            Some(Normalisation::Imagenet) => {
                (Some(IMAGENET_MEAN.to_vec()), Some(IMAGENET_STD.to_vec()))
            }
            // One figure stands for all channels.
            Some(Normalisation::None) => (Some(vec![0.0]), Some(vec![1.0])),
            Some(Normalisation::Bytes) => (Some(BYTES_MEAN.to_vec()), Some(BYTES_STD.to_vec())),
            None => (options.mean.map(|it| it.0), options.std.map(|it| it.0)),
        };
        Self {
            name: options.name,
            input: InputOptions {
                prepared: options.input.map(|kind| kind == InputKind::Prepared),
                size: options.size,
                mean,
                std,
            },
            exits: options.exits,
            answer: options.answer.map(AnswerKind::from),
            classes: options.classes,
            reductions: options.reduce,
            detections: options.detections,
            calibration: options.calibration,
        }
    }
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let sides = text.split_once('x');
    let sides = sides.and_then(|(rows, columns)| Some((rows.parse().ok()?, columns.parse().ok()?)));
    sides.ok_or_else(|| "rows and columns are two numbers with an x between, as 224x224".to_owned())
}

/// A number for each channel.
#[derive(Clone, Debug, PartialEq)]
struct Channels(Vec<f32>);

fn channels(text: &str) -> Result<Channels, String> {
    let values: Option<Vec<f32>> = text.split(',').map(|value| value.parse().ok()).collect();
    let values = values.filter(|values| matches!(values.len(), 1 | 3 | 4));
    let values = values.map(Channels);
    values.ok_or_else(|| {
        "one, three or four numbers with commas between, one for each channel".to_owned()
    })
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Compile {
        path: PathBuf,
        source: Box<CompileError>,
    },
    /// The weights could not be packed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The network could not be run to compare it.
    #[error(transparent)]
    Verify(#[from] MeasureError<StartError>),
    #[error(
        "the network answers wrongly on this processor: {0}; no package was written. Report this with the network"
    )]
    Wrong(Box<Disagreement>),
    /// The package could not be written.
    #[error(transparent)]
    Write(#[from] PackageError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Write(_) => Termination::File,
            Self::Verify(_) => Termination::Resources,
            Self::Wrong(_) => Termination::BadResult,
            Self::Compile { source, .. } if matches!(**source, CompileError::Read { .. }) => {
                Termination::File
            }
            Self::Compile { .. } | Self::Image(_) => Termination::BadInput,
        }
    }
}

/// Compiles, prints the report, writes the package.
pub fn run(options: &Options) -> Result<(), Error> {
    let compiled = compile_with(&options.file, &Overrides::from(&options.network));
    if let (Err(CompileError::Nodes(unsupported)), true) = (&compiled, options.explain) {
        explain(unsupported, options.json)?;
    }
    let Compiled {
        package,
        mut report,
        ..
    } = compiled.map_err(|source| Error::Compile {
        path: options.file.clone(),
        source: Box::new(source),
    })?;
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| beside(&options.file));
    let lanes = options.lanes();
    let memory = Memory::of(package.network()).map_err(ImageError::from)?;
    let package = images::add(package, &lanes)?;
    let replaced = Replaced::at(&output);
    report.notes.extend(replaced.notes(&package));
    let package = package.keeping(replaced.profiles());
    // With the packed weights it is another.
    report.package = package.hash();
    let mut packed = Packed::all(&package);
    packed.retain(|packed| packed.pages.is_some());
    let verified = options.verify.then(|| verified(&package)).transpose()?;
    package.write(&output)?;
    if options.json {
        let file = json!({"path": output, "hash": package.hash().to_string(), "lanes": lanes, "packed": packed});
        let mut all = json!({"report": report, "memory": memory.json(), "package": file});
        if let Some(verified) = verified {
            all["verified"] = json!(verified);
        }
        output::line(all)?;
        return Ok(());
    }
    let width = output::width();
    output::text(format_args!("{report:width$}\n{memory}"))?;
    for Packed {
        lanes,
        weight_bytes,
        ..
    } in &packed
    {
        let mebibytes = *weight_bytes as f64 / f64::from(1 << 20);
        output::line(format_args!(
            "weights packed for {lanes} lanes: {mebibytes:.1} MiB of the file"
        ))?;
    }
    if let Some(verified) = verified {
        output::line(verified)?;
    }
    output::line(format_args!("wrote {}", output.display()))?;
    Ok(())
}

/// What is where the package goes.
struct Replaced {
    package: Option<Package>,
    /// In the package, and next to it.
    profiles: Vec<ProfileInput>,
}

impl Replaced {
    fn at(output: &Path) -> Self {
        let package = Package::read(output).ok();
        let inside = package.iter().flat_map(|package| inside(package, output));
        Self {
            profiles: inside.chain(punctual_plan::beside(output)).collect(),
            package,
        }
    }

    /// Those in the package.
    fn profiles(&self) -> Vec<Profile> {
        let package = self.package.as_ref();
        package.map_or_else(Vec::new, |package| package.profiles().to_vec())
    }

    /// What of it is lost with the new package, and which measurements hold for that, too.
    fn notes(&self, package: &Package) -> Vec<Note> {
        let mut notes = Vec::new();
        let samples = |of: &Package| of.calibration().samples.len();
        let recorded = self.package.as_ref().map_or(0, samples);
        if recorded > 0 && samples(package) == 0 {
            notes.push(Note::CalibrationDropped { samples: recorded });
        }
        let files = |is_valid: bool| -> Vec<PathBuf> {
            let readable = self.profiles.iter().filter(|input| {
                let profile = input.profile.as_ref();
                profile.is_ok_and(|profile| profile.key.is_of(package) == is_valid)
            });
            let mut files: Vec<PathBuf> = readable.map(|input| input.path.clone()).collect();
            files.dedup();
            files
        };
        let [hold, dropped] = [files(true), files(false)];
        if !hold.is_empty() {
            notes.push(Note::ProfilesHold { files: hold });
        }
        if !dropped.is_empty() {
            notes.push(Note::ProfilesDropped { files: dropped });
        }
        notes
    }
}

/// What of its answers agrees with the reference interpreter.
fn verified(package: &Package) -> Result<Verified, Error> {
    let provider = CpuProvider {
        cores: affinity::available_cores().unwrap_or_default(),
    };
    let subject = Subject {
        package,
        solutions: &[],
    };
    let request = verify::Request {
        batches: VERIFIED_BATCHES.to_vec(),
        units: vec![1],
        budget: VERIFY_BUDGET,
        seed: measure::SEED,
    };
    let name = &package.network().name;
    let verified = measure::verify_at(&provider, name, subject, &request)?;
    match verified.failure {
        Some(found) => Err(Error::Wrong(Box::new(found))),
        None => Ok(verified),
    }
}

/// Each image alone, and a full batch.
const VERIFIED_BATCHES: [u8; 2] = [1, 8];
/// For the reference interpreter.
const VERIFY_BUDGET: Nanos = Nanos::from_millis(20_000);

/// Prints all that is in the way.
fn explain(unsupported: &Unsupported, as_json: bool) -> Result<(), OutputError> {
    if !as_json {
        let width = output::width();
        return output::text(format_args!("{:width$}", unsupported.explanation()));
    }
    let operators = unsupported.by_operator().into_iter();
    let operators =
        operators.map(|(operator, nodes)| json!({"operator": operator, "nodes": nodes.len()}));
    let operators: Vec<_> = operators.collect();
    output::line(json!({"operators": operators, "unsupported": unsupported}))
}

/// What the network takes on this processor, in bytes.
struct Memory {
    lanes: usize,
    weights: u64,
    request: u64,
    /// The largest workspace of a stage, for one image.
    workspace: u64,
}

/// Batch sizes that the memory is told for.
const BATCHES: [u64; 4] = [1, 2, 4, 8];

impl Memory {
    fn of(network: &Network) -> Result<Self, LowerError> {
        const FLOAT: u64 = 4;
        let isa = Isa::detect();
        let layout = image_layout(isa, network)?;
        let workspaces = layout.stages.iter().map(|stage| stage.workspace_floats);
        Ok(Self {
            lanes: isa.lanes(),
            weights: FLOAT * layout.packed_floats(),
            request: FLOAT * layout.request_floats,
            workspace: FLOAT * workspaces.max().unwrap_or(0),
        })
    }

    fn json(&self) -> serde_json::Value {
        let workspaces =
            BATCHES.map(|batch| json!({"batch": batch, "bytes": batch * self.workspace}));
        json!({
            "lanes": self.lanes,
            "weight_bytes": self.weights,
            "request_bytes": self.request,
            "workspaces": workspaces,
        })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["", ""], 1).inset();
        let mut row = |what: &str, bytes: u64| {
            let size = format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
            table.row([what, &size]);
        };
        row("weights", self.weights);
        row("each request", self.request);
        for batch in BATCHES {
            row(&format!("workspace, batch {batch}"), batch * self.workspace);
        }
        writeln!(f, "memory on this processor ({} lanes)", self.lanes)?;
        writeln!(f, "{table}")
    }
}

fn beside(file: &Path) -> PathBuf {
    file.with_extension("punctual")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_colours_are_read_or_explained() {
        assert_eq!(size("224x320"), Ok((224, 320)));
        assert_eq!(channels("0.5,0.25,1"), Ok(Channels(vec![0.5, 0.25, 1.0])));
        for wrong in ["224", "224x", "224x224x3", "-1x3"] {
            assert!(size(wrong).unwrap_err().contains("224x224"), "{wrong}");
        }
        for wrong in ["", "0.5,0.5", "1,2,3,4,5", "a,b,c"] {
            assert!(
                channels(wrong)
                    .unwrap_err()
                    .contains("three or four numbers"),
                "{wrong}"
            );
        }
    }
}
