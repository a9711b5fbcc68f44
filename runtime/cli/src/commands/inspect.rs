//! `punctual inspect`: what a package holds, for people and for programs.

use std::fmt;
use std::path::{Path, PathBuf};

use punctual_compile::CompileReport;
use punctual_device_ort::StartError;
use punctual_device_ort::gpu::StageToBuild;
use punctual_model::{AnswerKind, FORMAT_VERSION, LANES, Package, PackageError, Profile};
use punctual_plan::{BATCH_SIZES, ProfileInput, beside, inside};
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_report::{Column, Table, WIDTH};
use serde::Serialize;

use super::profile;

/// Which package.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual inspect signs.punctual
  punctual inspect models/signs/signs.punctual --json
  punctual inspect signs.punctual --json | jq '.exits[0].outputs'
  punctual inspect signs.punctual --stages signs-stages

Shows what a client sends with each frame and gets at each exit, what each stage costs, for which vectors
the weights are packed, and the profiles in the package and beside it. Verifies every hash in the
file. Changes nothing.

With --stages, writes each stage at each batch size as an ONNX file instead: what `trtexec --onnx=FILE --saveEngine=...` builds
engines from that `device = \"ort-tensorrt\"` runs (manifest: `engines`). The name ends in the hash of the content; keep it.

The package's hash names its content: packages of equal hash are equal, but for their profiles. Plans name a
package by it. `timing` names what of it determines how long its stages take, which is all but weights, names and calibration
records: profiles hold for packages of equal timing. The hash of a stage names all that is computed up to its end.

JSON: {file, bytes, format, timing, name, package, input {kind, channels, height, width, mean, std}, vectors
[{name, length}], answer, classes, exits [{stage, outputs [{name, element, shape, bytes}], confidence}],
stages [{hash, same_as, operators, parameters, weight_bytes, multiplications, carried_bytes,
workspace_bytes, accuracy}], kinds, parameters, weight_bytes, thresholds, notes, class_names, batch_max,
packed [{lanes, weight_bytes, pages, request_bytes, workspace_bytes}], calibration_samples, profiles
[{file, current, profile}]}. `package` is the hash. `same_as`: the first stage that computes the same with
the same weights, or null. Weights that several operators have count once. `confidence`: author (an output of the network), softmax, sigmoid, probability or
null. `pages`: null if weights are packed at start. `profile`: as `punctual profile` writes it, or the
`problem` with the file. `current`: whether it holds for this package.

TERMINATION CODES: 0 done; 3 the file is no package, is damaged, or has another format version, or a stage has no form in ONNX; 4 it is
missing or unreadable, or a file cannot be written.")]
pub struct Options {
    /// The package.
    package: PathBuf,
    /// Print it as JSON.
    #[arg(long, conflicts_with = "stages")]
    json: bool,
    /// Write the stages as ONNX files into this folder.
    #[arg(long, value_name = "FOLDER")]
    stages: Option<PathBuf>,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its message names the file.
    #[error(transparent)]
    File(PackageError),
    #[error("{path}: {source}", path = path.display())]
    Package { path: PathBuf, source: PackageError },
    #[error(transparent)]
    Stage(#[from] StartError),
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
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
            Self::File(_) | Self::Write { .. } => Termination::File,
            Self::Package { .. } | Self::Stage(_) => Termination::BadInput,
        }
    }
}

/// Verifies the package and prints what it holds.
pub fn run(options: &Options) -> Result<(), Error> {
    let path = &options.package;
    let failed = |source| match source {
        PackageError::File { .. } => Error::File(source),
        _ => Error::Package {
            path: path.clone(),
            source,
        },
    };
    if let Some(folder) = &options.stages {
        let package = Package::read(path).map_err(failed)?;
        return write_stages(&package, folder);
    }
    let inspected = Inspected::read(path).map_err(failed)?;
    if options.json {
        let json = serde_json::to_string_pretty(&inspected).expect("plain data always serialises");
        output::line(json)?;
    } else {
        output::text(format_args!("{inspected:0$}", output::width()))?;
    }
    Ok(())
}

/// Writes the stages at all batch sizes as ONNX files, and says which.
fn write_stages(package: &Package, folder: &Path) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let network = package.network();
    for stage in 0..network.stages.len() {
        for batch in BATCH_SIZES {
            let stage = StageToBuild::new(network, stage, batch)?;
            let path = folder.join(format!("{}.onnx", stage.name));
            std::fs::write(&path, stage.onnx).map_err(failed(&path))?;
            output::line(path.display())?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Inspected {
    file: PathBuf,
    bytes: u64,
    format: u32,
    timing: String,
    #[serde(flatten)]
    report: CompileReport,
    class_names: Vec<String>,
    batch_max: u8,
    packed: Vec<Packed>,
    calibration_samples: usize,
    profiles: Vec<Measured>,
}

/// What the package takes on processors with vectors of `lanes` floats.
#[derive(Serialize)]
pub(super) struct Packed {
    pub(super) lanes: u8,
    pub(super) weight_bytes: u64,
    /// `None` if the daemon packs the weights.
    pub(super) pages: Option<usize>,
    request_bytes: u64,
    /// The largest of a stage, for one image.
    workspace_bytes: u64,
}

/// A profile in the package or next to it.
#[derive(Serialize)]
struct Measured {
    file: PathBuf,
    /// Whether it holds for this package as it is.
    current: bool,
    #[serde(flatten)]
    content: Content,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    Profile(Box<Profile>),
    Problem(String),
}

impl Inspected {
    fn read(path: &Path) -> Result<Self, PackageError> {
        let package = Package::read(path)?;
        let file = std::fs::metadata(path).map_err(|source| PackageError::File {
            path: path.to_owned(),
            source,
        })?;
        let profiles = inside(&package, path).chain(beside(path));
        Ok(Self {
            file: path.to_owned(),
            bytes: file.len(),
            format: FORMAT_VERSION,
            timing: package.timing().to_string(),
            report: CompileReport::of(&package),
            class_names: package.network().classes.clone(),
            batch_max: package.batch_max(),
            packed: Packed::all(&package),
            calibration_samples: package.calibration().samples.len(),
            profiles: profiles
                .map(|found| Measured::of(found, &package))
                .collect(),
        })
    }
}

impl Packed {
    pub(super) fn all(package: &Package) -> Vec<Self> {
        const FLOAT: u64 = 4;
        let layouts = LANES.iter().filter_map(|&lanes| package.layout(lanes));
        let packed = layouts.map(|layout| {
            let workspaces = layout.stages.iter().map(|stage| stage.workspace_floats);
            Self {
                lanes: layout.lanes,
                weight_bytes: FLOAT * layout.packed_floats(),
                pages: package.image(layout.lanes).map(|image| image.pages()),
                request_bytes: FLOAT * layout.request_floats,
                workspace_bytes: FLOAT * workspaces.max().unwrap_or(0),
            }
        });
        packed.collect()
    }
}

impl Measured {
    fn of(found: ProfileInput, package: &Package) -> Self {
        let file = found.path;
        match found.profile {
            Ok(profile) => Self {
                file,
                current: profile.key.is_of(package),
                content: Content::Profile(Box::new(profile)),
            },
            Err(problem) => Self {
                file,
                current: false,
                content: Content::Problem(problem.to_string()),
            },
        }
    }
}

impl fmt::Display for Inspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(WIDTH);
        writeln!(f, "{}", self.file.display())?;
        writeln!(f, "{:width$}", self.overview())?;
        writeln!(f, "{:width$}", self.report.tables())?;
        if !self.packed.is_empty() {
            writeln!(f, "weights as the processor's kernels read them")?;
            writeln!(f, "{:width$}", self.packed_table())?;
        }
        if self.profiles.is_empty() {
            writeln!(
                f,
                "no profiles: `punctual profile` measures a manifest's models"
            )?;
        }
        for measured in &self.profiles {
            write!(f, "{measured:width$}")?;
        }
        Ok(())
    }
}

/// How many class names are shown.
const NAMES: usize = 6;

impl Inspected {
    fn overview(&self) -> Table {
        let report = &self.report;
        let mut table = Table::list().inset();
        let mut row = |name: &str, what: String| table.row([name.to_owned(), what]);
        row("network", report.name.clone());
        row("hash", report.package.to_string());
        row(
            "",
            "one hash names a package: equal ones are equal, but for their profiles".to_owned(),
        );
        row("timing", self.timing.clone());
        row(
            "",
            "profiles hold for packages of equal timing, whatever their weights are".to_owned(),
        );
        row(
            "format",
            format!("{}, {}, every hash verified", self.format, size(self.bytes)),
        );
        row("input", report.input.to_string());
        for vector in &report.vectors {
            let (name, length) = (&vector.name, vector.length);
            row("vector", format!("{name}, {length} with each input"));
        }
        row("answer", self.answer());
        row("batches", format!("1 to {}", self.batch_max));
        row("weights", size(report.weight_bytes));
        row(
            "calibration",
            match self.calibration_samples {
                0 => "none".to_owned(),
                samples => format!("{samples} held-out samples"),
            },
        );
        table
    }

    fn answer(&self) -> String {
        let (kind, classes) = (self.report.answer, self.class_names.len());
        let of = match (kind, classes) {
            (AnswerKind::Classes, _) => format!("one of {classes}"),
            (AnswerKind::Labels, _) => format!("any of {classes}"),
            (AnswerKind::Detections, 0) => "objects, in the outputs".to_owned(),
            (AnswerKind::Detections, _) => format!("objects of {classes}, in the outputs"),
            (AnswerKind::None, _) => "the outputs".to_owned(),
        };
        let names = self.class_names.iter().take(NAMES);
        let mut names: Vec<String> = names.cloned().collect();
        if names.is_empty() {
            return format!("{kind}: {of}");
        }
        if classes > NAMES {
            names.push(format!("{} more", classes - NAMES));
        }
        format!("{kind}: {of}: {}", names.join(", "))
    }

    fn packed_table(&self) -> Table {
        let mut table = Table::of([
            Column::number("lanes"),
            Column::number("weights"),
            Column::number("pages"),
            Column::number("each request"),
            Column::number("workspace, each image"),
        ])
        .inset();
        for packed in &self.packed {
            let pages = packed.pages.map(|pages| pages.to_string());
            table.row([
                packed.lanes.to_string(),
                size(packed.weight_bytes),
                pages.unwrap_or_else(|| "packed at start".to_owned()),
                size(packed.request_bytes),
                size(packed.workspace_bytes),
            ]);
        }
        table
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(WIDTH);
        let file = self.file.display();
        let profile = match &self.content {
            Content::Profile(profile) => profile,
            Content::Problem(problem) => return writeln!(f, "profile {file}: {problem}"),
        };
        if !self.current {
            let package = &profile.key.package;
            return writeln!(
                f,
                "profile {file}: of another network, package {package}; measure this one with `punctual profile`"
            );
        }
        let key = &profile.key;
        writeln!(
            f,
            "profile {file}: board {}, power mode {}, clocks {}, {}",
            key.board, key.power_mode, key.clocks, key.machine
        )?;
        writeln!(
            f,
            "{:width$}{}{}{}",
            profile::times(profile),
            profile::factors(profile),
            profile::verified(profile),
            profile::from_the_field(profile)
        )
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}
