//! Many networks in one folder behind one `[[task]]`: their packages, and the one client that asks all of them.

use std::path::{Path, PathBuf};

use punctual_client::{Client, ConnectError, Crop, Lost, NoSuchTask, Options as Stream};
use punctual_client::{PixelFormat, Response, SubmitError};
use punctual_device_cpu::images::{self, ImageError};
use punctual_model::{Calibration, Network, Package, PackageError};
use punctual_platform::output::OutputError;
use punctual_platform::termination::{Terminates, Termination};
use punctual_types::Random;

use crate::programs::ProgramError;
use crate::usage::UsageError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A package cannot be made or read.
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the client: {0}")]
    Connect(#[from] ConnectError),
    #[error("the client: {0}")]
    Client(#[from] Lost),
    #[error("a frame: {0}")]
    Submit(#[from] SubmitError),
    #[error("a frame: {0}")]
    Task(#[from] NoSuchTask),
    #[error("the daemon gave no verdict for {} s", after_ns / 1_000_000_000)]
    Silent { after_ns: u64 },
    #[error("{0} requests were lost")]
    Missing(u64),
    /// Of the daemon, which is no more.
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Program(error) => error.termination(),
            Self::Package(PackageError::File { .. }) | Self::File { .. } => Termination::File,
            Self::Package(_) | Self::Image(_) => Termination::BadInput,
            Self::Connect(_)
            | Self::Client(_)
            | Self::Submit(_)
            | Self::Task(_)
            | Self::Silent { .. }
            | Self::Missing(_)
            | Self::Usage(_) => Termination::BadResult,
        }
    }
}

impl Error {
    /// Of a file or folder.
    pub fn file(path: &Path) -> impl Fn(std::io::Error) -> Self {
        |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// What the network of this number is called, and so its task.
pub fn name(number: u16) -> String {
    format!("net-{number:04}")
}

/// Where its package lies.
pub fn package(folder: &Path, number: u16) -> PathBuf {
    folder.join(name(number)).with_extension("punctual")
}

/// Where its times lie, or those of another network that takes as long.
pub fn profile(folder: &Path, number: u16) -> PathBuf {
    folder.join(name(number)).with_extension("profile.json")
}

pub fn create(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(Error::file(folder))
}

/// Makes the package of a network, packed for this processor.
pub fn write(network: Network, path: &Path) -> Result<Package, Error> {
    let package = Package::new(network, Calibration::default())?;
    let package = images::add(package, &[punctual_device_cpu::lanes()])?;
    package.write(path)?;
    Ok(package)
}

/// One connection for frames of all networks.
pub struct Asker {
    client: Client,
    /// By network: its task's number.
    tasks: Vec<u16>,
    frame: Vec<u8>,
}

impl Asker {
    /// For the first `networks`, which take frames of one form.
    pub fn connect(socket: &Path, networks: u16) -> Result<Self, Error> {
        let stream = Stream::new(socket, &name(0), PixelFormat::Rgb8);
        let client = stream.reconnect(false).connect()?;
        let description = client.description();
        let tasks = description.tasks.as_ref();
        // A folder of one package is one task, and has no numbers.
        let number = |network: u16| tasks.and_then(|tasks| tasks.number(&name(network)));
        let mut random = Random::new(1).stream("pixels", 0);
        let pixels = (0..client.frame().bytes()).map(|_| (random.unit() * 256.0) as u8);
        Ok(Self {
            tasks: (0..networks).map(|of| number(of).unwrap_or(0)).collect(),
            frame: pixels.collect(),
            client,
        })
    }

    /// Submits a frame for a network. False if no slot is free until then.
    pub fn submit(&mut self, network: u16, captured_ns: u64, until_ns: u64) -> Result<bool, Error> {
        let Some(mut claim) = self.client.claim(Some(until_ns))? else {
            return Ok(false);
        };
        claim.pixels().copy_from_slice(&self.frame);
        claim.set_task_number(self.tasks[usize::from(network)])?;
        let no_crop = Crop::default();
        self.client.submit(claim, captured_ns, None, no_crop)?;
        Ok(true)
    }

    /// The next verdict; none until then.
    pub fn verdict(&mut self, until_ns: u64) -> Result<Option<Response>, Error> {
        Ok(self.client.verdict(Some(until_ns))?)
    }

    pub fn unanswered(&self) -> u64 {
        self.client.unanswered()
    }
}
