//! What a package holds: its input and exits, figures a stage; and what the compiler did on the way to it.

mod exits;
mod heads;
mod input;
mod kinds;

use std::path::PathBuf;
use std::{fmt, iter};

use punctual_core::Confidence;
use punctual_model::{
    AnswerKind, DistinctWeights, Package, PackageHash, PrefixHash, Stage, StagePrefix, TensorId,
    VectorSpec, memory, same_stages,
};
use punctual_report::{Column, Table, WIDTH};
use serde::{Serialize, Serializer};

use exits::kibibytes;
pub use exits::{ConfidenceSource, ExitReport, OutputReport};
pub use input::InputReport;
pub use kinds::KindReport;
use kinds::{Metric, share};

use crate::fuse::Fused;

/// The report of a package, and of its compilation; its `Display` is tables for a terminal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompileReport {
    pub name: String,
    #[serde(serialize_with = "as_text")]
    pub package: PackageHash,
    pub input: InputReport,
    /// What comes with each input.
    pub vectors: Vec<VectorSpec>,
    #[serde(serialize_with = "as_text")]
    pub answer: AnswerKind,
    /// How many classes or labels have a name.
    pub classes: usize,
    /// From the first to the last.
    pub exits: Vec<ExitReport>,
    pub stages: Vec<StageReport>,
    /// All stages' operators by kind, the one with most multiplications first.
    pub kinds: Vec<KindReport>,
    /// Of all stages; a weight that several operators have counts once.
    pub parameters: u64,
    /// Size of all weights in bytes.
    pub weight_bytes: u64,
    /// Accuracy and mean depth at some thresholds, from the calibration; empty without one.
    pub thresholds: Vec<ThresholdReport>,
    /// What was done, and what deserves attention.
    pub notes: Vec<Note>,
}

fn as_text<T: fmt::Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// One stage. Sizes are those without layout; a device's own layout takes somewhat more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageReport {
    /// Of all that is computed up to its end: stages of equal hash are equal, whichever network they are of.
    #[serde(serialize_with = "as_text")]
    pub hash: PrefixHash,
    /// The first stage that computes the same with the same weights, where one before it does: a profile has one figure for both.
    pub same_as: Option<usize>,
    pub operators: usize,
    pub parameters: u64,
    /// Of its weights as the network has them.
    pub weight_bytes: u64,
    /// Multiply-accumulates for one image.
    pub multiplications: u64,
    /// Bytes that one request carries over from this stage.
    pub carried_bytes: u64,
    /// Bytes of workspace for one image.
    pub workspace_bytes: u64,
    /// Mean quality of its exit's answers to the calibration samples; `None` without calibration, or without an exit.
    pub accuracy: Option<f64>,
}

/// What a threshold does to the calibration samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThresholdReport {
    pub threshold: f64,
    /// Share of right answers.
    pub accuracy: f64,
    pub depth: f64,
    /// Share of samples that leave at each exit.
    pub leaving: Vec<f64>,
}

/// Something that the user of the compiler should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Fused {
        affine: usize,
        residual: usize,
        activation: usize,
    },
    /// Steps that became an operator of their own.
    Standalone { operators: usize },
    /// Operators that no exit depends on.
    Dead { operators: usize },
    /// A softmax before an exit was left out, since the device applies its own.
    SoftmaxDropped { exit: String },
    /// An output that is no exit.
    OutputIgnored { output: String },
    /// What an answer was taken to be.
    Answer { kind: AnswerKind, why: &'static str },
    /// What the input was taken to be.
    Input { what: String },
    /// The network's own normalisation that frames are prepared with.
    Normalised {
        /// How many of its operators that are.
        operators: usize,
    },
    /// A network that divides values of 0 to 1 as if they were 0 to 255.
    NearlyBlack,
    /// No answer of this exit says how sure it is.
    NoConfidence { exit: String },
    /// The file was made for one batch size; others are used, too.
    FixedBatch {
        /// The file's batch size.
        batch: i64,
    },
    /// Ranges are measured over each image where onnxruntime measures over all of a batch.
    OwnRanges,
    /// The file's weights are floats of another size.
    Converted { from: &'static str },
    /// There is one exit: every answer takes the whole network.
    OneExit,
    /// Most of a stage's work is the head of its exit, which deeper requests do not use.
    HeavyHead {
        exit: usize,
        /// The head's share of the stage's multiply-accumulates.
        percent: u32,
    },
    /// A large part of all weights is the head of one early exit.
    LargeHead {
        exit: usize,
        /// The head's share of all weights.
        percent: u32,
    },
    /// The first exit saves little.
    LateExit {
        /// Share of all multiply-accumulates up to it.
        percent: u32,
    },
    /// No calibration: the scheduler's expected accuracies are then a prior, not a measurement.
    NoCalibration,
    /// The package that is replaced had records, and this one has none.
    CalibrationDropped { samples: usize },
    /// What was measured of the package that is replaced holds for this one, in these files.
    ProfilesHold { files: Vec<PathBuf> },
    /// It does not hold for this one.
    ProfilesDropped { files: Vec<PathBuf> },
    /// A deeper exit is not better than the one before it on the calibration samples.
    NoGain { exit: usize },
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_text(self, serializer)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fused {
                affine,
                residual,
                activation,
            } => write!(
                f,
                "fused: {affine} normalisations or constant additions, {residual} residuals, {activation} activations"
            ),
            Self::Standalone { operators } => write!(
                f,
                "warning: {operators} normalisations or activations could not be fused and became operators of their own"
            ),
            Self::Dead { operators } => {
                write!(f, "left out {operators} operators that no exit depends on")
            }
            Self::SoftmaxDropped { exit } => {
                write!(
                    f,
                    "left out the softmax before {exit}: the device applies its own"
                )
            }
            Self::OutputIgnored { output } => write!(f, "ignored the output {output}: no exit"),
            Self::Answer { kind, why } => write!(f, "took answers as {kind}: {why}"),
            Self::Input { what } => f.write_str(what),
            Self::Normalised { operators } => write!(
                f,
                "took the network's own normalisation ({operators} operators) into the preparation of frames: no stage computes it"
            ),
            Self::NearlyBlack => f.write_str(
                "warning: the network normalises pictures itself, and black and white are hardly apart then: it seems to take 0 to 255, which --normalise bytes says",
            ),
            Self::NoConfidence { exit } => write!(
                f,
                "{exit} has no number that says how sure its answer is: a frame goes as deep as its time allows, never less since it is sure enough (an output {exit}/confidence from 0 to 1 would be that number)"
            ),
            Self::FixedBatch { batch } => write!(
                f,
                "warning: the file was exported for a batch of {batch}; the package runs any batch"
            ),
            Self::OwnRanges => write!(
                f,
                "the file quantises by ranges that are measured when running: of each frame by itself, as onnxruntime does at a batch of 1, and not of a batch, so that no answer depends on other frames"
            ),
            Self::Converted { from } => write!(
                f,
                "the file has {from} weights; they were converted, and the network computes in float32"
            ),
            Self::OneExit => write!(
                f,
                "warning: one exit; every answer takes the whole network (models/zoo/README.md describes how to add exits)"
            ),
            Self::HeavyHead { exit, percent } => write!(
                f,
                "warning: {percent} % of the stage of exit {exit} is the head of this exit, which a request that goes deeper does not use; make the head smaller or remove the exit"
            ),
            Self::LargeHead { exit, percent } => write!(
                f,
                "warning: the head of exit {exit} holds {percent} % of all weights; a mean over the image before its first linear layer makes it smaller"
            ),
            Self::LateExit { percent } => write!(
                f,
                "warning: the first exit comes after {percent} % of the multiply-accumulates and saves little; put it earlier"
            ),
            Self::NoCalibration => write!(
                f,
                "warning: no calibration records; expected accuracies will be a prior, not a measurement"
            ),
            Self::CalibrationDropped { samples } => write!(
                f,
                "warning: the package that this one replaces had calibration records of {samples} samples, which are dropped: they were of its weights. Calibrate again with `punctual calibrate --into`, or give records of this network with --calibration"
            ),
            Self::ProfilesHold { files } => write!(
                f,
                "stays valid: {}; the network takes the same time as the one before it, since at most weights, names and calibration differ",
                listed(files)
            ),
            Self::ProfilesDropped { files } => write!(
                f,
                "warning: no longer valid: {}; the stages, operators or shapes are others than those that were measured. Measure again with `punctual profile`",
                listed(files)
            ),
            Self::NoGain { exit } => {
                write!(
                    f,
                    "warning: exit {exit} is no more accurate than exit {}",
                    exit - 1
                )
            }
        }
    }
}

fn listed(files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|it| it.display().to_string()).collect();
    files.join(", ")
}

/// Black and white are apart by less in no network that is trained on normalised pictures.
const RANGE_MIN: f32 = 0.05;

impl Note {
    /// The line about operators that became a part of a picture's normalisation.
    fn of_normalisation(operators: usize, input: &InputReport) -> impl Iterator<Item = Self> {
        let ranges = input.std.iter().map(|std| 1.0 / std);
        let is_black = ranges.fold(0.0, f32::max) < RANGE_MIN;
        let black = is_black.then_some(Self::NearlyBlack);
        iter::once(Self::Normalised { operators }).chain(black)
    }
}

const THRESHOLDS: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 0.95];

impl CompileReport {
    /// Of a package that was just made; `notes` are those of the compilation so far.
    pub(crate) fn of_compilation(package: &Package, fused: Fused, mut notes: Vec<Note>) -> Self {
        let Fused {
            prepared,
            affine,
            residual,
            activation,
            standalone,
        } = fused;
        if affine + residual + activation > 0 {
            notes.push(Note::Fused {
                affine,
                residual,
                activation,
            });
        }
        if standalone > 0 {
            notes.push(Note::Standalone {
                operators: standalone,
            });
        }
        let report = Self::of(package);
        if prepared > 0 {
            notes.extend(Note::of_normalisation(prepared, &report.input));
        }
        notes.extend(report.notes);
        Self { notes, ..report }
    }

    /// Of any package. Its notes are what deserves attention.
    #[must_use]
    pub fn of(package: &Package) -> Self {
        let network = package.network();
        let stages = StageReport::all(package);
        let mut notes = heads::notes(network);
        if network.has_confidence() && package.calibration().samples.is_empty() {
            notes.push(Note::NoCalibration);
        }
        let accuracies = network.stages.iter().zip(&stages);
        let accuracies = accuracies.filter(|(stage, _)| stage.exit.is_some());
        let accuracies: Vec<_> = accuracies.map(|(_, report)| report.accuracy).collect();
        let gains = accuracies.windows(2).enumerate();
        let flat = gains.filter(|(_, pair)| {
            pair[0]
                .zip(pair[1])
                .is_some_and(|(first, second)| second <= first)
        });
        notes.extend(flat.map(|(at, _)| Note::NoGain { exit: at + 1 }));
        Self {
            name: network.name.clone(),
            package: package.hash(),
            input: InputReport::of(&network.input, package.origin()),
            vectors: network.vectors.clone(),
            answer: network.answer,
            classes: network.classes.len(),
            exits: exits::all(network),
            parameters: DistinctWeights::of(
                network.stages.iter().flat_map(|stage| &stage.operators),
            )
            .count(),
            weight_bytes: (4 * network.weights.len() + network.quantised.weights.len()) as u64,
            kinds: kinds::count(network),
            thresholds: thresholds(package),
            stages,
            notes,
        }
    }
}

impl StageReport {
    fn all(package: &Package) -> Vec<Self> {
        // Records are by exit, and a stage that others share has none.
        let mut exits = 0..;
        let stages = package
            .network()
            .stages
            .iter()
            .zip(package.stage_prefixes());
        let same_as = same_stages(package.stage_prefixes());
        let reports = stages.enumerate().map(|(at, (stage, prefix))| {
            let same_as = Some(usize::from(same_as[at])).filter(|same_as| *same_as < at);
            let exit = stage.exit.as_ref().and_then(|_| exits.next());
            let accuracy = exit.and_then(|exit: usize| package.calibration().mean_quality(exit));
            Self {
                same_as,
                accuracy,
                ..Self::of(package, stage, prefix)
            }
        });
        reports.collect()
    }

    fn of(package: &Package, stage: &Stage, prefix: &StagePrefix) -> Self {
        let network = package.network();
        let bytes = |id: &TensorId| network.tensor_bytes(*id);
        let local = stage.lifetimes();
        let local: Vec<_> = local
            .iter()
            .map(|life| life.with_size(bytes(&life.tensor) as usize))
            .collect();
        Self {
            hash: prefix.hash,
            same_as: None,
            operators: stage.operators.len(),
            parameters: DistinctWeights::of(&stage.operators).count(),
            weight_bytes: prefix.weight_bytes,
            multiplications: network.multiplications(stage),
            carried_bytes: stage.outputs.iter().map(bytes).sum(),
            workspace_bytes: memory::plan(&local, 64).total as u64,
            accuracy: None,
        }
    }
}

fn thresholds(package: &Package) -> Vec<ThresholdReport> {
    let samples = package.calibration().samples.len() as f64;
    let effect = |&threshold: &f64| {
        let confidence = Confidence::from_probability(threshold as f32);
        let effect = package.calibration().threshold_effect(confidence)?;
        let leaving = effect
            .leaving
            .iter()
            .map(|&count| count as f64 / samples)
            .collect();
        let (accuracy, depth) = (effect.accuracy, effect.depth);
        Some(ThresholdReport {
            threshold,
            accuracy,
            depth,
            leaving,
        })
    };
    THRESHOLDS.iter().filter_map(effect).collect()
}

impl fmt::Display for CompileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, answer) = (self.input.shape(), self.answer);
        write!(f, "{}: {input} input, answer {answer}", self.name)?;
        match self.classes {
            0 => writeln!(f)?,
            classes => writeln!(f, " ({classes})")?,
        }
        writeln!(
            f,
            "{} parameters, {} multiply-accumulates at full depth",
            Metric(self.parameters),
            Metric(self.multiplications())
        )?;
        writeln!(f, "package {}\n", self.package)?;
        let width = f.width().unwrap_or(WIDTH);
        write!(f, "{:width$}", self.tables())
    }
}

/// The tables of a report, and its notes.
struct Tables<'a>(&'a CompileReport);

impl fmt::Display for Tables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let total = report.multiplications();
        let width = f.width().unwrap_or(WIDTH);
        writeln!(f, "{:width$}", report.stage_table(total))?;
        report.same_stages(f)?;
        writeln!(f, "{:width$}", exits::table(&report.exits))?;
        for (at, exit) in report.exits.iter().enumerate() {
            if let Some(decoder) = exit.decoder {
                writeln!(f, "exit {at} lists {decoder}\n")?;
            }
        }
        write!(f, "{:width$}", kinds::table(&report.kinds, total))?;
        if !report.thresholds.is_empty() {
            write!(f, "\n{:width$}", report.threshold_table())?;
        }
        if !report.notes.is_empty() {
            writeln!(f)?;
        }
        let mut notes = report.notes.iter();
        notes.try_for_each(|note| writeln!(f, "{note}"))
    }
}

impl CompileReport {
    /// All that it shows below its first lines.
    #[must_use]
    pub fn tables(&self) -> impl fmt::Display {
        Tables(self)
    }

    /// Of all stages, for one image.
    fn multiplications(&self) -> u64 {
        self.stages.iter().map(|stage| stage.multiplications).sum()
    }

    fn stage_table(&self, total: u64) -> Table {
        let headings = [
            "stage",
            "operators",
            "weights",
            "MACs",
            "share",
            "carried",
            "workspace",
            "accuracy",
        ];
        let mut table = Table::new(&headings, 0);
        for (index, stage) in self.stages.iter().enumerate() {
            let accuracy = stage.accuracy;
            table.row([
                index.to_string(),
                stage.operators.to_string(),
                kibibytes(stage.weight_bytes),
                Metric(stage.multiplications).to_string(),
                share(stage.multiplications, total),
                kibibytes(stage.carried_bytes),
                kibibytes(stage.workspace_bytes),
                accuracy.map_or_else(|| "-".to_owned(), |a| format!("{:.1} %", 100.0 * a)),
            ]);
        }
        table
    }

    /// A line for each stage that others repeat.
    fn same_stages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for first in 0..self.stages.len() {
            let stages = self.stages.iter().enumerate();
            let repeat = stages.filter(|(_, stage)| stage.same_as == Some(first));
            let repeat: Vec<String> = repeat.map(|(at, _)| at.to_string()).collect();
            match repeat.len() {
                0 => {}
                1 => writeln!(f, "stage {} is the same as stage {first}\n", repeat[0])?,
                _ => writeln!(
                    f,
                    "stages {} are the same as stage {first}\n",
                    repeat.join(", ")
                )?,
            }
        }
        Ok(())
    }

    fn threshold_table(&self) -> Table {
        let mut table = Table::of([
            Column::number("threshold"),
            Column::number("accuracy"),
            Column::number("mean depth"),
            Column::words("leaving at each exit"),
        ]);
        for line in &self.thresholds {
            let leaving = line.leaving.iter();
            let leaving: Vec<String> = leaving.map(|l| format!("{:.0} %", 100.0 * l)).collect();
            table.row([
                format!("{:.2}", line.threshold),
                format!("{:.1} %", 100.0 * line.accuracy),
                format!("{:.2}", line.depth),
                leaving.join(", "),
            ]);
        }
        table
    }
}
