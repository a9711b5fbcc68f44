//! The demo's profiles, kept in the user's cache folder: keyed by machine and network, so that
//! another machine or another network is measured anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use punctual_daemon::host;
use punctual_device::profile::{Effort, MeasureError, Request};
use punctual_device_cpu::CpuProvider;
use punctual_model::{Package, PackageError, Profile, ProfileError};
use punctual_plan::{DeviceKind, Diagnostics, Needs, Policies};
use punctual_platform::{affinity, output, settings};

use crate::measure::{self, Job, PackageNeeds};
use punctual_platform::termination::{Terminates, Termination};

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error("{0}")]
    Manifest(#[from] Diagnostics),
    #[error(transparent)]
    Measure(#[from] MeasureError<punctual_device_cpu::StartError>),
    /// The profile could not be written next to the package.
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

/// Profiles by the name of each package's first model.
pub struct Found {
    pub profiles: BTreeMap<String, Profile>,
    /// Whether they were measured just now.
    pub is_new: bool,
}

/// Puts a profile next to each package of `manifest`: from the cache, or, if one is missing there or `again`, all measured now,
/// which takes seconds, and kept there if `keeps`.
pub fn profiles(
    manifest: &Path,
    text: &str,
    effort: Effort,
    again: bool,
    keeps: bool,
) -> Result<Found, CacheError> {
    let needs = Needs::of_manifest(
        text,
        manifest,
        &Policies::shipped(),
        &host::cores().unwrap_or_default(),
    )?;
    let packages = measure::by_package(&needs.models);
    let mut jobs = Vec::new();
    for wanted in &packages {
        jobs.push(job(
            &needs,
            wanted,
            effort,
            manifest.with_file_name(&wanted.package),
        )?);
    }
    let kept: Option<Vec<Profile>> = jobs
        .iter()
        .zip(&packages)
        .map(|(job, wanted)| {
            let profile = Profile::read(&kept_at(job, &jobs)?).ok()?;
            covers(&profile, &needs, wanted, &job.package).then_some(profile)
        })
        .collect();
    let mut profiles = BTreeMap::new();
    if let Some(kept) = kept.filter(|_| !again) {
        for (job, profile) in jobs.iter().zip(kept) {
            profile.write(&job.file.with_extension("profile.json"))?;
            profiles.insert(job.name.clone(), profile);
        }
        return Ok(Found {
            profiles,
            is_new: false,
        });
    }
    let names: Vec<String> = jobs.iter().map(|job| format!("`{}`", job.name)).collect();
    output::note(format_args!(
        "measuring the networks {} on this machine ({})",
        names.join(" and "),
        match effort {
            Effort::Brief => "about 25 seconds",
            _ => "about 40 seconds",
        }
    ));
    let cpu = CpuProvider {
        cores: affinity::available_cores().unwrap_or_default(),
    };
    let measured: Result<(), CacheError> = measure::measure(&cpu, &jobs, |job, profile, _| {
        if let Some(kept) = kept_at(job, &jobs).filter(|_| keeps)
            && let Err(error) = keep(&profile, &kept)
        {
            output::note(format_args!(
                "punctual demo: the figures are for this run only: {error}"
            ));
        }
        profile.write(&job.file.with_extension("profile.json"))?;
        profiles.insert(job.name.clone(), profile);
        Ok(())
    });
    measured?;
    Ok(Found {
        profiles,
        is_new: true,
    })
}

fn job(
    needs: &Needs,
    wanted: &PackageNeeds,
    effort: Effort,
    file: PathBuf,
) -> Result<Job, CacheError> {
    let package = Package::read(&file)?;
    let request = Request {
        frames: measure::frames(&wanted.frames, &package),
        ..measure::request(needs, &wanted.on(DeviceKind::Cpu), effort, wanted.paged)
    };
    Ok(Job {
        name: wanted.name.clone(),
        file,
        package,
        request,
    })
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

/// Whether `profile` was measured here, for this network, and has all that is needed.
fn covers(profile: &Profile, needs: &Needs, wanted: &PackageNeeds, package: &Package) -> bool {
    let stages = package.network().stages.len() as u8;
    let sizes = wanted.on(DeviceKind::Cpu);
    let settings = settings::of_processor(Path::new("/"));
    let measured = |stage, batch, units| {
        profile
            .stages
            .iter()
            .any(|entry| (entry.stage, entry.batch, entry.units) == (stage, batch, units))
    };
    profile.key.board == needs.board
        && profile.key.machine == punctual_device_cpu::machine()
        && profile
            .changed_settings(&punctual_device_cpu::clocks(), &settings)
            .is_empty()
        && profile.key.is_of(package)
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

/// Where the profile of `job` is kept: by network, machine, and the other networks that are measured together with it.
fn kept_at(job: &Job, all: &[Job]) -> Option<PathBuf> {
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
    let others = all.iter().filter(|other| other.file != job.file);
    let packages = [job].into_iter().chain(others);
    let packages: Vec<String> = packages
        .map(|job| job.package.timing().to_string()[..16].to_owned())
        .collect();
    Some(folder()?.join(format!("{}-{machine}.profile.json", packages.join("-"))))
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
