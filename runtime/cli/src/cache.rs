//! The demo's profiles, kept in the user's cache folder: keyed by machine and package, so that
//! another machine or another network is measured anew.

use std::path::{Path, PathBuf};

use punctual_device::profile::{Effort, MeasureError, Request};
use punctual_device_cpu::CpuProvider;
use punctual_model::{Package, PackageError, Profile, ProfileError};
use punctual_plan::{DeviceKind, Diagnostics, Needs, Policies};
use punctual_platform::{affinity, output};

use crate::measure::{self, PackageNeeds};
use punctual_platform::termination::{Terminates, Termination};

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error("{0}")]
    Manifest(#[from] Diagnostics),
    #[error(transparent)]
    Measure(#[from] MeasureError<punctual_device_cpu::StartError>),
    /// The profile could not be written beside the package.
    #[error(transparent)]
    Write(#[from] ProfileError),
}

impl Terminates for CacheError {
    fn termination(&self) -> Termination {
        match self {
            Self::Package(_) | Self::Manifest(_) => Termination::BadInput,
            Self::Measure(_) => Termination::Resources,
            Self::Write(_) => Termination::File,
        }
    }
}

/// Puts a profile beside each package of `manifest`: from the cache, or measured now for a few seconds (always when
/// `again`).
pub fn profiles(manifest: &Path, text: &str, again: bool) -> Result<(), CacheError> {
    let needs = Needs::of_manifest(text, manifest, &Policies::shipped())?;
    for wanted in measure::by_package(&needs.models) {
        let package_file = manifest.with_file_name(&wanted.package);
        let package = Package::read(&package_file)?;
        let profile = profile(&needs, &wanted, &package, again)?;
        profile.write(&package_file.with_extension("profile.json"))?;
    }
    Ok(())
}

fn profile(
    needs: &Needs,
    wanted: &PackageNeeds,
    package: &Package,
    again: bool,
) -> Result<Profile, CacheError> {
    let kept = folder().map(|folder| folder.join(file_name(package)));
    let usable = |path: &PathBuf| {
        let profile = Profile::read(path).ok()?;
        covers(&profile, needs, wanted, package).then_some(profile)
    };
    if !again && let Some(profile) = kept.as_ref().and_then(usable) {
        return Ok(profile);
    }
    output::note(format_args!(
        "measuring the network `{}` on this machine, once (a few seconds)",
        wanted.name
    ));
    let request = Request {
        frames: measure::frames(wanted, package),
        ..measure::request(
            needs,
            &wanted.on(DeviceKind::Cpu),
            Effort::Quick,
            wanted.paged,
        )
    };
    let cpu = CpuProvider {
        cores: affinity::available_cores().unwrap_or_default(),
    };
    let measured = measure::measure(&cpu, &wanted.name, package, &request)?;
    if let Some(kept) = kept
        && let Err(error) = keep(&measured, &kept)
    {
        output::note(format_args!(
            "punctual demo: the figures are for this run only: {error}"
        ));
    }
    Ok(measured)
}

fn keep(profile: &Profile, path: &Path) -> Result<(), ProfileError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| ProfileError::File {
            path: folder.to_owned(),
            source,
        })?;
    }
    profile.write(path)
}

/// Whether `profile` was measured here, for this package, and has all that is needed.
fn covers(profile: &Profile, needs: &Needs, wanted: &PackageNeeds, package: &Package) -> bool {
    let stages = package.network().stages.len() as u8;
    let sizes = wanted.on(DeviceKind::Cpu);
    let measured = |stage, batch, units| {
        profile
            .stages
            .iter()
            .any(|entry| (entry.stage, entry.batch, entry.units) == (stage, batch, units))
    };
    profile.key.board == needs.board
        && profile.key.machine == punctual_device_cpu::machine()
        && profile.key.clocks == punctual_device_cpu::clocks()
        && profile.key.package == package.hash().to_string()
        && (0..stages).all(|stage| {
            sizes.batches.iter().all(|batch| {
                let mut units = sizes.units.iter();
                units.all(|units| measured(stage, *batch, *units))
            })
        })
        && wanted.frames.iter().all(|frame| {
            let frame = frame.with(&package.network().input);
            let size = [frame.size.width, frame.size.height];
            let crop = [frame.crop.width, frame.crop.height];
            profile
                .prepare(frame.format.name(), size, crop, !frame.fit.is_stretch())
                .is_some()
        })
}

/// Machine and package in a name that any file system takes.
fn file_name(package: &Package) -> String {
    let machine: String = punctual_device_cpu::machine()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let hash = package.hash().to_string();
    format!("{}-{machine}.profile.json", &hash[..16])
}

/// `$XDG_CACHE_HOME/punctual`, or `~/.cache/punctual`; none for a user without a home.
fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|folder| folder.join("punctual"))
}
