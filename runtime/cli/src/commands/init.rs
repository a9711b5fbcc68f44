//! `punctual init`: a first manifest for packages, on this machine.

use std::path::{Path, PathBuf};

use punctual_model::{InputForm, Package, PackageError, Profile};
use punctual_plan::{beside, inside, names_of};
use punctual_platform::OsError;
use punctual_platform::files::write_whole;
use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_types::Size;

use crate::init::{Machine, Network, Proposal, Wanted, Work, from_folder, propose};

/// Where clients connect that no service manager starts.
const SOCKET: &str = "/tmp/punctual.sock";

/// What to serve, and how it is wanted.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual init resnet.punctual --output first.toml
  punctual init camera.punctual --rate 15 --deadline 40 --frame 640x480 --output front.toml
  punctual init cats.punctual dogs.punctual --best-effort --output pets.toml

Looks at this machine (cores, isolated cores, GPU) and at the packages, and writes a manifest in which a comment beside each key says
why it has this value and what else could stand there. One task for each package, all on one partition. What nobody said and no
profile of this machine tells is guessed, and the comment says so: `punctual check`, after `punctual profile`, says whether it can
be promised. Nothing is measured, and no file is overwritten.

TERMINATION CODES: 0 done; 3 a package is invalid, or takes what no client sends; 4 a package is missing or unreadable, or the manifest
exists already or cannot be written; 5 the kernel does not say what the machine has.")]
pub struct Options {
    /// The packages, made by `punctual compile`: a task for each.
    #[arg(required = true, value_name = "PACKAGE")]
    packages: Vec<PathBuf>,
    /// Frames a second of each task [default: what profiles allow, at most 30].
    #[arg(long, value_name = "HZ", value_parser = rate, conflicts_with = "best_effort")]
    rate: Option<f64>,
    /// From capture to answer [default: until the next frame comes, or what profiles need; without profiles 50].
    #[arg(long, value_name = "MS", value_parser = deadline, conflicts_with = "best_effort")]
    deadline: Option<f64>,
    /// Promise nothing: frames run in the time that is left.
    #[arg(long)]
    best_effort: bool,
    /// The size of the camera's frames [default: that of each network's input].
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = size)]
    frame: Option<Size>,
    /// The manifest, which must not exist yet.
    #[arg(long, short, value_name = "FILE", default_value = "manifest.toml")]
    output: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Package { path: PathBuf, source: PackageError },
    #[error("{path} takes tokens, which no client sends: `punctual_device::Evaluator` runs it", path = path.display())]
    Tokens { path: PathBuf },
    #[error("{path} takes a prepared tensor, which has no --frame", path = path.display())]
    Prepared { path: PathBuf },
    #[error("{0} exists: name another file with --output, or remove it first")]
    Exists(PathBuf),
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    System(#[from] OsError),
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
            | Self::Exists(_)
            | Self::Write { .. } => Termination::File,
            Self::Package { .. } | Self::Tokens { .. } | Self::Prepared { .. } => {
                Termination::BadInput
            }
            Self::System(_) => Termination::Resources,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, 0.01, 10_000.0)
}

fn deadline(text: &str) -> Result<f64, String> {
    within(text, 0.1, 60_000.0)
}

/// As manifests have it.
fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from {least} to {most}"))
}

fn size(text: &str) -> Result<Size, String> {
    let side = |text: &str| text.parse().ok().filter(|side| (1..=16_384).contains(side));
    let sides = text.split_once('x');
    let size = sides.and_then(|(width, height)| {
        Some(Size {
            width: side(width)?,
            height: side(height)?,
        })
    });
    size.ok_or_else(|| "expected two sides of 1 to 16384 pixels, such as 640x480".to_owned())
}

pub fn run(options: &Options) -> Result<(), Error> {
    let output = &options.output;
    if output.exists() {
        return Err(Error::Exists(output.clone()));
    }
    let mut packages = Vec::new();
    for path in &options.packages {
        packages.push(read(path, options.frame)?);
    }
    let machine = Machine::here()?;
    let folder = output.parent().unwrap_or(Path::new(""));
    let paths = options.packages.iter();
    let paths: Vec<String> = paths.map(|path| from_folder(path, folder)).collect();
    let promises = promises(options, &packages, &machine);
    let networks = packages.iter().zip(&paths).zip(names_of(&paths));
    let mut networks: Vec<Network> = networks
        .map(|((package, path), name)| Network {
            name,
            package: path.clone(),
            input: package.network().input,
            vectors: package.network().vectors.clone(),
            promise: None,
        })
        .collect();
    for (network, promise) in networks.iter_mut().zip(promises) {
        network.promise = Some(promise);
    }
    let proposal = Proposal {
        machine,
        socket: SOCKET.to_owned(),
        networks,
        frame: options.frame,
    };
    write_whole(output, proposal.to_string().as_bytes()).map_err(|source| Error::Write {
        path: output.clone(),
        source,
    })?;
    let file = output.display();
    output::text(format_args!(
        "wrote {file}\nnext:\n  \
         punctual profile {file}   # measures its networks on this machine\n  \
         punctual check {file}     # the plan, or all that is wrong with it\n  \
         punctual daemon {file}    # serves\n"
    ))?;
    Ok(())
}

/// A package that clients can send frames to.
fn read(path: &Path, frame: Option<Size>) -> Result<Package, Error> {
    let of_file = |source| Error::Package {
        path: path.to_owned(),
        source,
    };
    let package = Package::read(path).map_err(of_file)?;
    let path = path.to_owned();
    match (package.network().input.form, frame) {
        (InputForm::Tokens { .. }, _) => Err(Error::Tokens { path }),
        (InputForm::Prepared, Some(_)) => Err(Error::Prepared { path }),
        _ => Ok(package),
    }
}

/// None if nothing is to be promised.
fn promises(
    options: &Options,
    packages: &[Package],
    machine: &Machine,
) -> Vec<crate::init::Promise> {
    if options.best_effort {
        return Vec::new();
    }
    let wanted = Wanted {
        rate_hz: options.rate,
        deadline_ms: options.deadline,
    };
    // Times on the GPU are looked at by the plan alone: their key names its driver and how it is divided.
    let on_cores = machine.usable_gpu().is_none();
    let works = packages.iter().zip(&options.packages);
    let works = works.map(|(package, path)| work(package, path, machine).filter(|_| on_cores));
    let works: Option<Vec<Work>> = works.collect();
    propose(wanted, packages.len(), works.as_deref())
}

/// By a profile of this machine, in the package or beside it.
fn work(package: &Package, path: &Path, machine: &Machine) -> Option<Work> {
    let hash = package.hash().to_string();
    let here = punctual_device_cpu::machine();
    let is_meant = |profile: &Profile| profile.key.package == hash && profile.key.machine == here;
    let units = machine.partition_cores() as u8;
    let profiles = inside(package, path).chain(beside(path));
    let mut profiles = profiles.filter_map(|input| input.profile.ok());
    let profile = profiles.find(|profile| is_meant(profile))?;
    Work::of(package, &profile, units)
}
