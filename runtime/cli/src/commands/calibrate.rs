//! `punctual calibrate`: how good each exit's answers are and what its confidence is worth, from pictures whose truth is known.

use std::path::{Path, PathBuf};

use punctual_device_cpu::images::{self, ImageError};
use punctual_model::{
    AnswerKind, Calibration, Network, Package, PackageError, ScoreForm, TemperatureError,
    WeightImage,
};
use punctual_platform::files::write_whole;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_report::{Lines, Page, picture};
use punctual_types::Fit;

use crate::calibrate::annotations::{self, Annotated};
use crate::calibrate::classes::Classes;
use crate::calibrate::detections::Detections;
use crate::calibrate::kind::{Kind, TruthError};
use crate::calibrate::labels::Labels;
use crate::calibrate::masks::Masks;
use crate::calibrate::pictures::{PictureError, Pictures};
use crate::calibrate::plot;
use crate::calibrate::report::{Records, Report};
use crate::calibrate::run::{self, Answers, RunError};
use crate::calibrate::samples::{self, SamplesError};
use crate::calibrate::values::{self, Values};

/// What to calibrate with which pictures, and where to put what comes out.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual calibrate signs.punctual --samples held-out/
  punctual calibrate signs.punctual --samples held-out.csv --into signs.punctual --svg signs.svg
  punctual calibrate resnet.punctual --samples val/ --crop 0.875 --temperature --into resnet.punctual
  punctual calibrate finder.punctual --annotations annotations.json --into finder.punctual
  punctual calibrate segmenter.punctual --samples pictures/ --masks masks/ --into segmenter.punctual
  punctual calibrate steering.punctual --values angles.csv --tolerance 0.05 --into steering.punctual

Which files say what is right depends on the package's answer (docs/calibration.md):
- classes: --samples, pictures (PNG, JPEG, PPM, BMP) in one folder a class, or named by their class (stop-17.png), or a file
  of lines `picture,class` with pictures relative to it. A class is the network's name for it, or its number. Where classes have
  no names (an ONNX file compiled alone) and there is a folder for each, the folders count in the order of their names, as
  torchvision's ImageFolder counts.
- labels: --samples, a file of lines `picture,label;label`, or --annotations, whose categories are the labels.
- detections: --annotations, JSON as COCO's; the network has the outputs `detections` and `count` of a declared decoder.
- none: --masks, a PNG of class numbers for each picture of --samples (255 does not count); or --values, a file of lines
  `picture,number,...`.

Take samples that were used neither for training nor for choosing anything, and that look like what the cameras will see: the
scheduler relies on these figures. The records (confidence of each exit and quality of its answer for each sample) are what
its expected accuracies are computed from. With --temperature each exit's scores are first divided by the number that makes its
confidence meet its accuracy; the division is folded into the package's weights, and changes no answer. Profiles in the package
and beside it stay valid: neither records nor weights take time.

TERMINATION CODES: 0 done; 3 the package, a sample or its truth is invalid; 4 a file is missing,
unreadable or cannot be written.")]
pub struct Options {
    /// The package.
    package: PathBuf,
    /// Pictures: a folder, or a file with lines `picture,class`; with --annotations or --values the folder that pictures are in.
    #[arg(long, short, value_name = "PATH", required_unless_present_any = ["annotations", "values"])]
    samples: Option<PathBuf>,
    /// Objects or labels of pictures, as COCO's JSON; pictures are relative to its folder.
    #[arg(long, value_name = "FILE")]
    annotations: Option<PathBuf>,
    /// A folder of masks: for each picture a grey PNG of its name with the number of each pixel's class.
    #[arg(long, value_name = "FOLDER", conflicts_with = "annotations")]
    masks: Option<PathBuf>,
    /// Numbers that are right: lines of `picture,number,...`, pictures relative to the file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["annotations", "masks"], requires = "tolerance")]
    values: Option<PathBuf>,
    /// How far each number may be from the one that is right: one for all, or one for each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = tolerance, requires = "values")]
    tolerance: Vec<f64>,
    /// The output with masks or numbers, if the network has several.
    #[arg(long, value_name = "NAME")]
    tensor: Option<String>,
    /// The score from which on a detection counts; by default the one with the best F1 at the last exit.
    #[arg(long, value_name = "SCORE", value_parser = score, requires = "annotations")]
    score: Option<f32>,
    /// Crop each picture to a centred square of this share (0 to 1) of its shorter side; by default the whole picture.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    crop: Option<f64>,
    /// Keep each picture's aspect ratio, and fill the borders with this value of 255: as tasks with `fit = "letterbox"`.
    #[arg(long, value_name = "FILL", num_args = 0..=1, require_equals = true, default_missing_value = "114")]
    letterbox: Option<u8>,
    /// A subsample of about this many pictures, evenly spaced.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Divide each exit's scores by its fitted temperature (needs --into).
    #[arg(long, requires = "into")]
    temperature: bool,
    /// Write the package with its records; may be the package itself.
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Write the records as JSON, as `punctual compile` reads them.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a picture: accuracy and depth against threshold, and reliability.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a page with the picture and all tables.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let tolerance: f64 = text.trim().parse().map_err(|error| format!("{error}"))?;
    if tolerance.is_finite() && tolerance >= 0.0 {
        Ok(tolerance)
    } else {
        Err("give a number that is at least 0".to_owned())
    }
}

fn score(text: &str) -> Result<f32, String> {
    let score: f32 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.0..=1.0).contains(&score) {
        Ok(score)
    } else {
        Err("give a score between 0 and 1".to_owned())
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if share > 0.0 && share <= 1.0 {
        Ok(share)
    } else {
        Err("give a share above 0, at most 1".to_owned())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Package { path: PathBuf, source: PackageError },
    /// The package's answers need another kind of truth, or more than pictures.
    #[error("{path}: {what}", path = path.display())]
    Unsuited { path: PathBuf, what: String },
    /// There are no samples, or one is labelled wrongly.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    #[error(transparent)]
    Picture(#[from] PictureError),
    #[error(transparent)]
    Truth(#[from] TruthError),
    #[error(transparent)]
    Run(#[from] RunError),
    /// The weights cannot be packed again as they were.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A temperature cannot be folded into the network.
    #[error(transparent)]
    Temperature(#[from] TemperatureError),
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
            Self::Package {
                source: PackageError::File { .. },
                ..
            }
            | Self::Samples(SamplesError::Read { .. })
            | Self::Truth(TruthError::Read { .. })
            | Self::Run(
                RunError::Picture(PictureError::Decode {
                    source: image::ImageError::IoError(_),
                    ..
                })
                | RunError::Truth(TruthError::Read { .. }),
            )
            | Self::Write { .. } => Termination::File,
            _ => Termination::BadInput,
        }
    }
}

/// Runs the samples, prints the report, writes what was asked for.
pub fn run(options: &Options) -> Result<(), Error> {
    let package = Package::read(&options.package).map_err(|source| Error::Package {
        path: options.package.clone(),
        source,
    })?;
    let unsuited = |what| Error::Unsuited {
        path: options.package.clone(),
        what,
    };
    suited(package.network(), options).map_err(unsuited)?;
    let without = package.network().exits().position(|(_, exit)| {
        let softmax = exit
            .scores
            .filter(|scores| scores.form == ScoreForm::Softmax);
        softmax.is_none() || exit.confidence.is_some()
    });
    if let Some(exit) = without.filter(|_| options.temperature) {
        return Err(TemperatureError::NoSoftmax { exit }.into());
    }
    match package.network().answer {
        AnswerKind::Classes => classes(options, package),
        AnswerKind::Labels => labels(options, package),
        AnswerKind::Detections => detections(options, package),
        AnswerKind::None if options.masks.is_some() => masks(options, package),
        AnswerKind::None => numbers(options, package),
    }
}

/// Whether the options name a truth that the network's answers can be compared with.
fn suited(network: &Network, options: &Options) -> Result<(), String> {
    let (given, fitting): (&str, &[AnswerKind]) = match options {
        Options {
            annotations: Some(_),
            ..
        } => (
            "--annotations",
            &[AnswerKind::Labels, AnswerKind::Detections],
        ),
        Options { masks: Some(_), .. } => ("--masks", &[AnswerKind::None]),
        Options {
            values: Some(_), ..
        } => ("--values", &[AnswerKind::None]),
        _ => ("--samples", &[AnswerKind::Classes, AnswerKind::Labels]),
    };
    if !fitting.contains(&network.answer) {
        let needed = match network.answer {
            AnswerKind::Classes => "--samples with a class for each picture",
            AnswerKind::Labels => "--samples with a list of labels, or --annotations",
            AnswerKind::Detections => "--annotations",
            AnswerKind::None => "--masks, or --values",
        };
        return Err(format!(
            "its answers are `{}`, of which {given} says nothing: give {needed} (docs/calibration.md)",
            network.answer
        ));
    }
    match network.vectors.first() {
        Some(vector) if options.values.is_none() => Err(format!(
            "it takes the vector `{}` with each picture: only --values has these numbers; or run it on your samples yourself, \
             and give the records to `punctual compile --calibration`",
            vector.name
        )),
        _ => Ok(()),
    }
}

/// The file or folder of samples; clap requires it where this is called.
fn samples(options: &Options) -> &Path {
    options.samples.as_deref().unwrap_or(Path::new("."))
}

/// The folder that the pictures of a file are relative to.
fn folder<'o>(options: &'o Options, file: &'o Path) -> &'o Path {
    let samples = options.samples.as_deref();
    samples.unwrap_or_else(|| file.parent().unwrap_or(Path::new("")))
}

fn classes(options: &Options, package: Package) -> Result<(), Error> {
    let network = package.network();
    let found = samples::find(samples(options), &network.classes)?;
    let found = found.into_iter().map(|sample| (sample.path, sample.label));
    let (paths, truth) = thinned(found.collect(), options.limit);
    let mut kind = Classes { truth };
    let answers = answers(options, network, &paths, &mut kind)?;
    let plain = answers.records(&kind);
    if network.exits().any(|(_, exit)| exit.confidence.is_some()) {
        return finish(options, package, &kind, &answers, plain);
    }
    let temperatures = answers.temperatures(&kind);
    let divided = answers.divided(&kind, &temperatures);
    let records = Records {
        plain: &plain,
        divided: Some((&divided, &temperatures)),
        scaled: options.temperature,
        confident: true,
    };
    let report = Report::new(&network.name, &kind, &answers, &records);
    let (records, temperatures) = if options.temperature {
        (divided, Some(&temperatures[..]))
    } else {
        (plain, None)
    };
    write_all(options, package, &report, records, temperatures)
}

fn labels(options: &Options, package: Package) -> Result<(), Error> {
    let network = package.network();
    let found = match &options.annotations {
        None => samples::with_labels(samples(options), &network.classes)?,
        Some(file) => {
            let folder = folder(options, file);
            let annotated = annotations::read(file, folder, &network.classes, false)?;
            let has = |picture: Annotated| {
                let mut has = vec![false; network.classes.len()];
                let objects = picture.objects.iter();
                objects.for_each(|object| has[usize::from(object.class)] = true);
                (picture.path, has)
            };
            annotated.pictures.into_iter().map(has).collect()
        }
    };
    let (paths, truth) = thinned(found, options.limit);
    let scores = network.exits().find_map(|(_, exit)| exit.scores);
    let form = scores.map_or(ScoreForm::Sigmoid, |scores| scores.form);
    judge(options, package, &paths, &mut Labels { truth, form })
}

fn detections(options: &Options, package: Package) -> Result<(), Error> {
    let network = package.network();
    let file = options.annotations.as_deref().unwrap_or(Path::new(""));
    let mut truth = annotations::read(file, folder(options, file), &network.classes, true)?;
    let pictures = truth.pictures.into_iter();
    let pictures = pictures.map(|picture| (picture.path.clone(), picture));
    let (paths, pictures) = thinned(pictures.collect(), options.limit);
    truth.pictures = pictures;
    let mut kind = Detections::new(network, truth, options.score)?;
    judge(options, package, &paths, &mut kind)
}

fn masks(options: &Options, package: Package) -> Result<(), Error> {
    let pictures = samples::pictures(samples(options))?.into_iter();
    let pictures = pictures.map(|path| (path, ())).collect();
    let (paths, _) = thinned(pictures, options.limit);
    let folder = options.masks.as_deref().unwrap_or(Path::new(""));
    let tensor = options.tensor.as_deref();
    let mut kind = Masks::new(package.network(), &paths, folder, tensor)?;
    judge(options, package, &paths, &mut kind)
}

fn numbers(options: &Options, package: Package) -> Result<(), Error> {
    let network = package.network();
    let file = options.values.as_deref().unwrap_or(Path::new(""));
    let tensor = options.tensor.as_deref();
    let found = values::read(file, folder(options, file), network, tensor)?;
    let (paths, numbers) = thinned(found, options.limit);
    let mut kind = Values::new(network, numbers, &options.tolerance, tensor)?;
    judge(options, package, &paths, &mut kind)
}

fn answers<K: Kind>(
    options: &Options,
    network: &Network,
    paths: &[PathBuf],
    kind: &mut K,
) -> Result<Answers<K::Judged>, Error> {
    let fit = options
        .letterbox
        .map_or(Fit::Stretch, |fill| Fit::Letterbox { fill });
    let mut pictures = Pictures::new(network, options.crop, fit)?;
    Ok(run::run(network, &mut pictures, paths, kind)?)
}

fn judge<K: Kind>(
    options: &Options,
    package: Package,
    paths: &[PathBuf],
    kind: &mut K,
) -> Result<(), Error> {
    let answers = answers(options, package.network(), paths, kind)?;
    let records = answers.records(kind);
    finish(options, package, kind, &answers, records)
}

/// Of a network whose confidence is no softmax, and which has no temperatures.
fn finish<K: Kind>(
    options: &Options,
    package: Package,
    kind: &K,
    answers: &Answers<K::Judged>,
    plain: Calibration,
) -> Result<(), Error> {
    let network = package.network();
    let records = Records {
        plain: &plain,
        divided: None,
        scaled: false,
        confident: network.has_confidence(),
    };
    let report = Report::new(&network.name, kind, answers, &records);
    write_all(options, package, &report, plain, None)
}

fn write_all(
    options: &Options,
    package: Package,
    report: &Report,
    records: Calibration,
    temperatures: Option<&[f64]>,
) -> Result<(), Error> {
    if let Some(path) = &options.into {
        write_package(path, package, records.clone(), temperatures)?;
    }
    write_others(options, report, &records)?;
    Ok(print(options, report)?)
}

/// About `limit` of the samples, evenly over all of them: their pictures, and what is right of them.
fn thinned<T>(samples: Vec<(PathBuf, T)>, limit: Option<usize>) -> (Vec<PathBuf>, Vec<T>) {
    let step = limit.map_or(1, |limit| samples.len().div_ceil(limit.max(1)));
    samples.into_iter().step_by(step.max(1)).unzip()
}

fn write_package(
    path: &Path,
    package: Package,
    records: Calibration,
    temperatures: Option<&[f64]>,
) -> Result<(), Error> {
    let lanes: Vec<u8> = package.images().iter().map(WeightImage::lanes).collect();
    let (profiles, origin) = (package.profiles().to_vec(), package.origin());
    let mut network = package.network().clone();
    for (exit, &temperature) in temperatures.unwrap_or_default().iter().enumerate() {
        network.divide_scores(exit, temperature)?;
    }
    let package = Package::new(network, records).map_err(|source| Error::Package {
        path: path.to_owned(),
        source,
    })?;
    let package = images::add(package.with_origin(origin), &lanes)?.keeping(profiles);
    write(path, &package.encode())
}

fn write_others(options: &Options, report: &Report, records: &Calibration) -> Result<(), Error> {
    if let Some(path) = &options.output {
        write(path, records.to_json().as_bytes())?;
    }
    if let Some(path) = &options.svg {
        let picture = picture(&plot::charts(report));
        write(path, picture.as_str().as_bytes())?;
    }
    if let Some(path) = &options.html {
        write(path, page(report).as_bytes())?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_whole(path, bytes).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}

fn page(report: &Report) -> String {
    let mut page = Page::new(&format!("Calibration of {}", report.network));
    page.paragraph(format!("{} samples", report.samples));
    page.figures(plot::charts(report).iter().map(Lines::figure));
    page.heading("What the numbers mean");
    page.list(report.meaning());
    page.heading("Exits");
    page.table(&report.exits_table());
    if let Some(table) = report.confidence_table() {
        page.heading("Confidence");
        page.table(&table);
        page.heading("Thresholds");
        page.table(&report.thresholds_table(true));
    }
    if let Some(table) = report.classes_table() {
        page.heading("Classes");
        page.table(&table);
    }
    page.heading("Notes");
    page.list(report.advice());
    page.html()
}

fn print(options: &Options, report: &Report) -> Result<(), OutputError> {
    if options.json {
        let json = serde_json::to_string_pretty(report).expect("plain data always serialises");
        return output::line(json);
    }
    let samples = report.samples;
    output::line(format_args!("{}: {samples} samples\n", report.network))?;
    let width = output::width();
    output::line(format_args!("{:width$}", report.exits_table()))?;
    if let Some(table) = report.confidence_table() {
        output::line(format_args!("{table:width$}"))?;
        output::line(format_args!("{:width$}", report.thresholds_table(false)))?;
    }
    if let Some(table) = report.classes_table() {
        output::line(format_args!("{table:width$}"))?;
    }
    for sentence in report.meaning() {
        output::line(sentence)?;
    }
    let written = [&options.into, &options.output, &options.svg, &options.html];
    for path in written.into_iter().flatten() {
        output::line(format_args!("wrote {}", path.display()))?;
    }
    for advice in report.advice() {
        output::line(format_args!("note: {advice}"))?;
    }
    Ok(())
}
