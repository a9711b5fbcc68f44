//! A folder of versions of a package, `1.punctual`, `2.punctual` and so on: the newest one that can be served is.
//!
//! A version that was not measured, or that is damaged, never stops the daemon: it serves the version before, with a warning.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_model::{Package, PackageError};
use serde::Serialize;
use thiserror::Error;

use crate::inputs::{Conditions, ProfileInput};
use crate::read::{beside, inside};

/// A numbered package of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub number: u64,
    pub path: PathBuf,
}

/// Which version of a folder was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its path, relative as that of its folder is.
    pub file: String,
    /// Newer ones, the newest first.
    pub passed_over: Vec<PassedOver>,
}

/// A version that is newer than the one that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    pub file: String,
    pub why: WhyNot,
}

/// Why a version cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum WhyNot {
    #[error("it cannot be used ({error}): copy it again, beside its place, and rename it")]
    Damaged { error: String },
    #[error(
        "no profile of this board, machine and power mode holds for it: measure it with `punctual profile MANIFEST`"
    )]
    NotMeasured,
    #[error(
        "by its profile it answers wrongly on this machine ({found}): report this with the package"
    )]
    Wrong { found: String },
}

/// Which versions can be served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Servable<'a> {
    /// Of the profile: on the processor, which prepares frames for all devices.
    pub conditions: Conditions<'a>,
    /// The profiles that were named; without any, those of the folder count.
    pub named: &'a [ProfileInput],
}

/// The package of a folder, and which version it is. Without any version there is neither.
pub(crate) struct Chosen {
    pub package: Result<Package, Arc<PackageError>>,
    pub choice: Option<Choice>,
}

/// The numbered packages in a folder, the newest first.
pub fn versions(folder: &Path) -> Result<Vec<Version>, PackageError> {
    let failed = |source| PackageError::File {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        found.extend(number(&path).map(|number| Version { number, path }));
    }
    if found.is_empty() {
        let none = "there is no numbered package in this folder, as 1.punctual";
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, none)));
    }
    found.sort_by_key(|version| u64::MAX - version.number);
    Ok(found)
}

/// The file that a path of a manifest means: of a folder its newest version, whatever can be served of it.
pub fn newest(path: PathBuf) -> Result<PathBuf, PackageError> {
    if !path.is_dir() {
        return Ok(path);
    }
    let newest = versions(&path)?.swap_remove(0);
    Ok(newest.path)
}

/// `7` of `7.punctual`; of other names, and of `07.punctual`, nothing.
fn number(path: &Path) -> Option<u64> {
    let (stem, extension) = (path.file_stem()?, path.extension()?);
    let number: u64 = stem.to_str()?.parse().ok()?;
    (extension == "punctual" && stem == number.to_string().as_str()).then_some(number)
}

/// The profile files of all versions, that of `first` first: versions that differ in weights alone share profiles.
pub(crate) fn profiles_in(folder: &Path, first: &Path) -> Vec<ProfileInput> {
    let mut all = versions(folder).unwrap_or_default();
    all.sort_by_key(|version| version.path != first);
    let found = all.iter().flat_map(|version| beside(&version.path));
    // One that cannot be read is as good as none: another may hold.
    found.filter(|input| input.profile.is_ok()).collect()
}

/// The newest version of the folder that can be served; if none can be, the newest that can be read, or at least the newest,
/// so that the plan says what is wrong with it. `named` is the folder as the manifest has it.
pub(crate) fn choose(named: &str, folder: &Path, servable: &Servable<'_>) -> Chosen {
    let all = match versions(folder) {
        Ok(all) => all,
        Err(error) => {
            return Chosen {
                package: Err(Arc::new(error)),
                choice: None,
            };
        }
    };
    let mut tried: Vec<Tried> = Vec::new();
    for Version { number, path } in all {
        let file = format!("{}/{number}.punctual", named.trim_end_matches('/'));
        let package = Package::read(&path).map_err(Arc::new);
        let why = match &package {
            Ok(package) => servable.why_not(package, folder, &path),
            Err(error) => Some(WhyNot::Damaged {
                error: error.to_string(),
            }),
        };
        let is_servable = why.is_none();
        tried.push(Tried { file, package, why });
        if is_servable {
            break;
        }
    }
    let good = tried.iter().position(|tried| tried.why.is_none());
    let readable = || tried.iter().position(|tried| tried.package.is_ok());
    let taken = good.or_else(readable).unwrap_or(0);
    let Tried { file, package, .. } = tried.swap_remove(taken);
    tried.truncate(taken);
    let passed_over = tried.into_iter().filter_map(|newer| {
        Some(PassedOver {
            file: newer.file,
            why: newer.why?,
        })
    });
    Chosen {
        package,
        choice: Some(Choice {
            file,
            passed_over: passed_over.collect(),
        }),
    }
}

/// A version, and why it cannot be served if so.
struct Tried {
    file: String,
    package: Result<Package, Arc<PackageError>>,
    why: Option<WhyNot>,
}

impl Servable<'_> {
    fn why_not(&self, package: &Package, folder: &Path, path: &Path) -> Option<WhyNot> {
        let own: Vec<ProfileInput> = if self.named.is_empty() {
            let inside = inside(package, path);
            inside.chain(profiles_in(folder, path)).collect()
        } else {
            self.named.to_vec()
        };
        let mut profiles = own.iter().filter_map(|input| input.profile.as_ref().ok());
        let found = profiles.find(|profile| {
            let key = &profile.key;
            key.is_of(package) && self.conditions.differences(key).is_empty()
        });
        let Some(found) = found else {
            return Some(WhyNot::NotMeasured);
        };
        let failure = found.verified.as_ref()?.failure.as_ref()?;
        let found = failure.to_string();
        Some(WhyNot::Wrong { found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_file_whose_name_is_a_number() {
        for (name, is) in [
            ("7.punctual", Some(7)),
            ("10.punctual", Some(10)),
            ("07.punctual", None),
            ("+7.punctual", None),
            ("-1.punctual", None),
            ("7.punctual.part", None),
            ("7.profile.json", None),
            ("signs.punctual", None),
            (".punctual", None),
            ("99999999999999999999.punctual", None),
        ] {
            assert_eq!(number(Path::new(name)), is, "{name}");
        }
    }
}
