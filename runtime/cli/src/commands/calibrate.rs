//! `punctual calibrate`: what each exit's confidence is worth, from labelled pictures.

use std::path::{Path, PathBuf};

use punctual_device_cpu::StartError;
use punctual_model::{
    AnswerKind, Calibration, Network, Package, PackageError, TemperatureError, WeightImage,
};
use punctual_platform::files::write_whole;
use punctual_platform::output::{self, OutputError};
use punctual_report::{Lines, Page, picture};
use punctual_types::Fit;

use crate::calibrate::pictures::{PictureError, Pictures};
use crate::calibrate::report::Report;
use crate::calibrate::samples::{self, SamplesError};
use crate::calibrate::{plot, run};
use punctual_device_cpu::images::{self, ImageError};
use punctual_platform::termination::{Terminates, Termination};

/// What to calibrate with which pictures, and where to put what comes out.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual calibrate signs.punctual --samples held-out/
  punctual calibrate signs.punctual --samples held-out.csv --into signs.punctual --svg signs.svg
  punctual calibrate resnet.punctual --samples val/ --crop 0.875 --temperature --into resnet.punctual

Samples are pictures (PNG, JPEG, PPM, BMP) in one folder a class, or named by their class (stop-17.png),
or a file of lines `picture,class` with pictures relative to it. A class is the network's name for it, or
its number. Where classes have no names (an ONNX file compiled alone) and there is a folder for each,
the folders count in the order of their names, as torchvision's ImageFolder counts. Take samples that
were used neither for training nor for choosing anything, and that look like what the cameras will
see: the scheduler relies on these figures. Only networks whose answers are classes can be calibrated.

The records (confidence and correctness of each exit for each sample) are what the scheduler's
expected accuracies are computed from. With --temperature each exit's scores are first divided by the number
that makes its confidence meet its accuracy; the division is folded into the package's weights, and
changes no answer.

TERMINATION CODES: 0 done; 3 the package, a sample or a class is invalid; 4 a file is missing,
unreadable or cannot be written.")]
pub struct Options {
    /// The package.
    package: PathBuf,
    /// Labelled pictures: a folder, or a file with lines `picture,class`.
    #[arg(long, short, value_name = "PATH")]
    samples: PathBuf,
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

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if share > 0.0 && share <= 1.0 {
        Ok(share)
    } else {
        Err("give a share above 0, at most 1".to_owned())
    }
}

/// Why nothing was calibrated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Package { path: PathBuf, source: PackageError },
    /// A confidence that labelled pictures say nothing of.
    #[error(
        "{path}: {what}; only networks of classes can be calibrated, whose confidence is a softmax of scores and which take a picture alone",
        path = path.display()
    )]
    NotOfClasses { path: PathBuf, what: String },
    /// There are no samples, or one is labelled wrongly.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The network cannot be run here.
    #[error(transparent)]
    Start(#[from] StartError),
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
            | Self::Picture(PictureError::Decode {
                source: image::ImageError::IoError(_),
                ..
            })
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
    let network = package.network();
    if let Some(what) = beyond_classes(network) {
        let path = options.package.clone();
        return Err(Error::NotOfClasses { path, what });
    }
    let samples = thinned(
        samples::find(&options.samples, &network.classes)?,
        options.limit,
    );
    let mut evaluator = run::evaluator(network)?;
    let fit = options
        .letterbox
        .map_or(Fit::Stretch, |fill| Fit::Letterbox { fill });
    let mut pictures = Pictures::new(network, options.crop, fit)?;
    let scores = run::run(network, &mut evaluator, &mut pictures, &samples)?;
    let temperatures = scores.temperatures();
    let plain = scores.records(&vec![1.0; scores.exits()]);
    let divided = scores.records(&temperatures);
    let report = Report::new(
        &network.name,
        &plain,
        &divided,
        &temperatures,
        options.temperature,
    );
    let records = if options.temperature { divided } else { plain };
    if let Some(path) = &options.into {
        let temperatures = options.temperature.then_some(&temperatures[..]);
        write_package(path, package, records.clone(), temperatures)?;
    }
    write_others(options, &report, &records)?;
    Ok(print(options, &report)?)
}

/// What of the network is not that of a classifier of pictures.
fn beyond_classes(network: &Network) -> Option<String> {
    if network.answer != AnswerKind::Classes {
        return Some(format!("its answers are `{}`", network.answer));
    }
    if let Some(vector) = network.vectors.first() {
        return Some(format!("it takes the vector `{}` too", vector.name));
    }
    let mut exits = network.exits();
    let by_author = exits.any(|(_, exit)| exit.confidence.is_some());
    by_author.then(|| "it computes its confidence itself".to_owned())
}

/// About `limit` of the samples, evenly over all of them.
fn thinned<T>(samples: Vec<T>, limit: Option<usize>) -> Vec<T> {
    let step = limit.map_or(1, |limit| samples.len().div_ceil(limit.max(1)));
    samples.into_iter().step_by(step).collect()
}

fn write_package(
    path: &Path,
    package: Package,
    records: Calibration,
    temperatures: Option<&[f64]>,
) -> Result<(), Error> {
    let lanes: Vec<u8> = package.images().iter().map(WeightImage::lanes).collect();
    let mut network = package.network().clone();
    for (exit, &temperature) in temperatures.unwrap_or_default().iter().enumerate() {
        network.divide_scores(exit, temperature)?;
    }
    let package = Package::new(network, records).map_err(|source| Error::Package {
        path: path.to_owned(),
        source,
    })?;
    write(path, &images::add(package, &lanes)?.encode())
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
    page.heading("Exits");
    page.table(&report.exits_table());
    page.heading("Thresholds");
    page.table(&report.thresholds_table(true));
    page.html()
}

fn print(options: &Options, report: &Report) -> Result<(), OutputError> {
    if options.json {
        let json = serde_json::to_string_pretty(report).expect("plain data always serialises");
        return output::line(json);
    }
    output::line(format_args!(
        "{}: {} samples\n",
        report.network, report.samples
    ))?;
    let width = output::width();
    output::line(format_args!("{:width$}", report.exits_table()))?;
    output::text(format_args!("{:width$}", report.thresholds_table(false)))?;
    let written = [&options.into, &options.output, &options.svg, &options.html];
    for path in written.into_iter().flatten() {
        output::line(format_args!("wrote {}", path.display()))?;
    }
    for advice in report.advice() {
        output::line(format_args!("note: {advice}"))?;
    }
    Ok(())
}
