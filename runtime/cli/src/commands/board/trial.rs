//! The process that a mechanism is tried in. Its parent knows the driver and the device; it must not
//! initialise CUDA before libsmctrl's first call is over.

use std::ffi::OsString;

use punctual_device_cuda::partition::{CudaVersion, MaskPlace, Mechanism, Trial, trial};

use punctual_platform::output;

use punctual_platform::termination::Termination;

/// What is tried, for what.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The mechanism's name.
    #[arg(long, value_parser = mechanism)]
    mechanism: Mechanism,
    /// The device's number.
    #[arg(long)]
    device: u32,
    /// The CUDA version of the driver, e.g. 12.6.
    #[arg(long, value_parser = pair)]
    driver: (u16, u16),
    /// The device's compute capability, e.g. 8.7.
    #[arg(long, value_parser = pair)]
    compute_capability: (u16, u16),
    /// The file of libsmctrl.
    #[arg(long)]
    libsmctrl: OsString,
    /// Where masks may be, if not where they are known to be.
    #[arg(long)]
    place: Option<MaskPlace>,
}

/// Tries it and prints the outcome for [`Program`](punctual_device_cuda::partition::Program).
pub fn run(options: &Options) -> Termination {
    let (major, minor) = options.compute_capability;
    let trial = Trial {
        mechanism: options.mechanism,
        device: options.device,
        version: CudaVersion::new(options.driver.0, options.driver.1),
        compute_capability: (major.into(), minor.into()),
        libsmctrl: options.libsmctrl.clone(),
        place: options.place,
    };
    Termination::of("board calibrate", output::line(trial::print(&trial.run())))
}

/// A text that is not what an argument wants.
#[derive(Clone, Debug, thiserror::Error)]
enum ArgumentError {
    #[error(
        "no mechanism {0:?}: there are stream-mask, libsmctrl, launch-mask, green-contexts and priority"
    )]
    Mechanism(Box<str>),
    #[error("{0:?} is no version: write two numbers with a point, e.g. 12.6")]
    Version(Box<str>),
}

fn mechanism(text: &str) -> Result<Mechanism, ArgumentError> {
    Mechanism::named(text).ok_or_else(|| ArgumentError::Mechanism(text.into()))
}

fn pair(text: &str) -> Result<(u16, u16), ArgumentError> {
    let numbers = text.split_once('.');
    let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    numbers.ok_or_else(|| ArgumentError::Version(text.into()))
}
