//! `punctual share`: cuts networks that begin alike so that what they have in common is a stage.

mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use punctual_model::{
    Network, Package, PackageError, PrefixHash, WeightImage, cut_where_they_part,
};
use punctual_platform::output::{self, OutputError};

use report::Report;

use punctual_device_cpu::images::{self, ImageError};
use punctual_platform::termination::{Terminates, Termination};

/// Which networks, and where the cut ones go.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual share cats.punctual dogs.punctual birds.punctual --output shared/
  punctual share cats.punctual dogs.punctual --in-place --json

For networks that were trained from one, the layers in front left as they were. The first stage that
is not the same in all of them is cut in two: what all compute, which ends in no exit, and what is
each one's own. What a network answers does not change, nor do its exits and their calibration.
A daemon that serves several such packages runs the common stages once, requests for all of them in
one batch (`share_stages` in the manifest), and holds equal pages of their weights once.

A package that is cut has one stage more, and `mandatory_exit` in a manifest counts stages: add 1 to
it where it named the stage that was cut, or a later one. The package loses its profiles: measure it
again with `punctual profile`. Packed weights are packed again for the same lanes. A package that needs no cut is
written as it was.

JSON: {stages: [{stage, packages, operators, multiplications, weight_bytes, exit, hash}], packages:
[{package, written, cut, profiles_dropped, hash}], cut_at, batches, memory {lanes, separate_bytes,
shared_bytes}}. `cut_at`: the stage that is two now, or null. `batches`: requests
for all of them can go in one batch.

TERMINATION CODES: 0 done; 3 a package is invalid, or the networks have nothing in common that can be a
stage; 4 a file is missing, unreadable or cannot be written.")]
pub struct Options {
    /// The packages, two or more.
    #[arg(required = true, num_args = 2.., value_name = "PACKAGE")]
    packages: Vec<PathBuf>,
    /// Write them into this folder, under their own names.
    #[arg(
        long,
        short,
        value_name = "FOLDER",
        required_unless_present = "in_place"
    )]
    output: Option<PathBuf>,
    /// Overwrite the packages.
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Package { path: PathBuf, source: PackageError },
    /// Networks that have nothing in common.
    #[error(
        "{first} and {other} have no stage in common, and none that a cut could make; give networks \
         that were trained from one, with the layers in front left as they were",
        first = first.display(),
        other = other.display()
    )]
    NothingInCommon { first: PathBuf, other: PathBuf },
    /// Each two have something in common, but not all.
    #[error(
        "these networks have no stage in common that all of them begin with; share them in pairs"
    )]
    NotAll,
    /// Two packages would be written to one file.
    #[error("two of the packages would be written to {path}; rename one", path = path.display())]
    SameFile { path: PathBuf },
    /// The weights could not be packed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A package could not be written.
    #[error(transparent)]
    Write(PackageError),
    /// The folder could not be made.
    #[error("cannot make the folder {path}: {source}", path = path.display())]
    Folder {
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
            | Self::Write(_)
            | Self::Folder { .. } => Termination::File,
            _ => Termination::BadInput,
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let paths = &options.packages;
    let outputs = outputs(options)?;
    let read = |path: &PathBuf| {
        Package::read(path).map_err(|source| Error::Package {
            path: path.clone(),
            source,
        })
    };
    let before = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let networks: Vec<Network> = before.iter().map(|p| p.network().clone()).collect();
    let cut = cut_where_they_part(&networks);
    if stages_in_common(&cut) == 0 {
        return Err(nothing_in_common(paths, &networks));
    }
    let after = before.iter().zip(cut).zip(paths);
    let after = after.map(|((before, cut), path)| rebuilt(before, cut, path));
    let after = after.collect::<Result<Vec<_>, _>>()?;
    let report = Report::new(paths, &outputs, &before, &after).map_err(ImageError::from)?;
    if let Some(folder) = &options.output {
        std::fs::create_dir_all(folder).map_err(|source| Error::Folder {
            path: folder.clone(),
            source,
        })?;
    }
    for (package, output) in after.iter().zip(&outputs) {
        package.write(output).map_err(Error::Write)?;
    }
    if options.json {
        let json = serde_json::to_string_pretty(&report).expect("plain data always serialises");
        output::line(json)?;
    } else {
        output::text(format_args!("{report:0$}", output::width()))?;
    }
    Ok(())
}

/// Where each package goes; no two to the same file.
fn outputs(options: &Options) -> Result<Vec<PathBuf>, Error> {
    let output = |path: &PathBuf| match (&options.output, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.clone(),
    };
    let outputs: Vec<PathBuf> = options.packages.iter().map(output).collect();
    let mut seen = BTreeSet::new();
    match outputs.iter().find(|path| !seen.insert(*path)) {
        Some(path) => Err(Error::SameFile { path: path.clone() }),
        None => Ok(outputs),
    }
}

/// How many stages all of the networks begin with.
fn stages_in_common(networks: &[Network]) -> usize {
    let hashes = |network: &Network| -> Vec<PrefixHash> {
        let prefixes = network.stage_prefixes();
        prefixes.into_iter().map(|prefix| prefix.hash).collect()
    };
    let mut all = networks.iter().map(hashes);
    let first = all.next().unwrap_or_default();
    let common = |other: Vec<PrefixHash>| first.iter().zip(other).take_while(|(a, b)| *a == b);
    all.map(|other| common(other).count()).min().unwrap_or(0)
}

fn nothing_in_common(paths: &[PathBuf], networks: &[Network]) -> Error {
    let differs = |other: &usize| {
        let pair = [networks[0].clone(), networks[*other].clone()];
        stages_in_common(&cut_where_they_part(&pair)) == 0
    };
    match (1..networks.len()).find(differs) {
        Some(other) => Error::NothingInCommon {
            first: paths[0].clone(),
            other: paths[other].clone(),
        },
        None => Error::NotAll,
    }
}

/// The package with its network cut; as it was if there was nothing to cut.
fn rebuilt(before: &Package, cut: Network, path: &Path) -> Result<Package, Error> {
    if cut == *before.network() {
        return Ok(before.clone());
    }
    let lanes: Vec<u8> = before.images().iter().map(WeightImage::lanes).collect();
    let package = Package::new(cut, before.calibration().clone());
    let package = package.map_err(|source| Error::Package {
        path: path.to_owned(),
        source,
    })?;
    Ok(images::add(package.with_origin(before.origin()), &lanes)?)
}
