//! Reading the files that a plan is made from. Nothing is decided here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_model::{Package, Profile};
use punctual_platform::read::{self, Refused};

use crate::board::Board;
use crate::cause::Cause;
use crate::document::FILE_BYTES_MAX;
use crate::inputs::{Host, PackageInput, PlanInputs, ProfileInput};
use crate::manifest::Manifest;
use crate::policy::Policies;
use crate::problem::{Place, PlanErrors, Problems};

impl PlanInputs {
    /// Reads a manifest, its board, the packages that it names, and profiles: those given, or if
    /// none is, those inside each package, then those beside it (`signs.punctual`:
    /// `signs.profile.json`, and `signs.gpu.profile.json` of the GPU). The board is
    /// one that is part of the program, or else the file `boards/NAME.toml` beside the manifest. `policies` are
    /// those that the manifest may name.
    pub fn read(
        manifest_path: &Path,
        profiles: &[PathBuf],
        host: Host,
        policies: Policies,
    ) -> Result<Self, PlanErrors> {
        let directory = manifest_path.parent().unwrap_or(Path::new(""));
        Self::read_from(manifest_path, directory, profiles, host, policies)
    }

    /// As [`read`](Self::read), with the manifest's relative paths going from `directory`.
    pub fn read_from(
        manifest_path: &Path,
        directory: &Path,
        profiles: &[PathBuf],
        host: Host,
        policies: Policies,
    ) -> Result<Self, PlanErrors> {
        let manifest_text = read_text(manifest_path).map_err(|cause| {
            let mut problems = Problems::new(manifest_path, "");
            problems.add(&Place::default(), cause);
            problems.into_errors()
        })?;
        let mut problems = Problems::new(manifest_path, &manifest_text);
        let manifest = Manifest::read(&manifest_text, &policies, &mut problems);
        let Some(name) = &manifest.daemon.board else {
            return Err(problems.into_errors());
        };
        let board = match find_board(&name.value, directory) {
            Ok(board) => board,
            Err(BoardProblem::Unreadable(cause)) => {
                let board = name.value.clone();
                let cause = match cause {
                    Cause::Unreadable { kind } => Cause::NoSuchBoard { board, kind },
                    refused => refused,
                };
                problems.add(&name.place, cause);
                return Err(problems.into_errors());
            }
            Err(BoardProblem::Invalid(errors)) => return Err(errors),
        };
        let packages = read_packages(&manifest, directory, host.lanes);
        let profiles = if profiles.is_empty() {
            of_packages(&packages, directory)
        } else {
            profiles.iter().cloned().map(read_profile).collect()
        };
        Ok(Self {
            manifest_path: manifest_path.to_owned(),
            manifest_text,
            board,
            host,
            policies,
            packages,
            profiles,
        })
    }
}

/// Every package once, in the manifest's order.
fn read_packages(manifest: &Manifest, directory: &Path, lanes: u8) -> Vec<PackageInput> {
    let mut packages: Vec<PackageInput> = Vec::new();
    for path in manifest.models.iter().filter_map(|m| m.package.as_ref()) {
        let path = &path.value;
        if packages.iter().all(|known| known.path != *path) {
            let package = Package::read(&directory.join(path)).map_err(Arc::new);
            let layout = package.as_ref().ok().and_then(|p| p.layout(lanes).cloned());
            packages.push(PackageInput {
                path: path.clone(),
                package,
                layout,
                cuda: None,
            });
        }
    }
    packages
}

/// The profiles that lie in and beside the packages; the first that fits is used. That there is
/// none is for the plan to say, which knows whether it is needed.
fn of_packages(packages: &[PackageInput], directory: &Path) -> Vec<ProfileInput> {
    let mut profiles = Vec::new();
    for input in packages {
        let path = directory.join(&input.path);
        if let Ok(package) = &input.package {
            profiles.extend(inside(package, &path));
        }
        let beside = ["profile.json", "gpu.profile.json"].map(|kind| path.with_extension(kind));
        let there = beside.into_iter().filter(|file| file.exists());
        profiles.extend(there.map(read_profile));
    }
    profiles
}

/// The profiles that a package carries.
pub fn inside(package: &Package, path: &Path) -> impl Iterator<Item = ProfileInput> {
    package.profiles().iter().map(|profile| ProfileInput {
        path: path.to_owned(),
        profile: Ok(profile.clone()),
    })
}

pub fn read_profile(path: PathBuf) -> ProfileInput {
    ProfileInput {
        profile: Profile::read(&path).map_err(Arc::new),
        path,
    }
}

enum BoardProblem {
    Unreadable(Cause),
    Invalid(PlanErrors),
}

fn find_board(name: &str, directory: &Path) -> Result<Board, BoardProblem> {
    if let Some(board) = Board::builtin(name) {
        return Ok(board);
    }
    let path = directory.join("boards").join(format!("{name}.toml"));
    let text = read_text(&path).map_err(BoardProblem::Unreadable)?;
    Board::parse(&text, &path).map_err(BoardProblem::Invalid)
}

/// A text file, no larger than anybody writes.
pub fn read_text(path: &Path) -> Result<String, Cause> {
    read::text(path, FILE_BYTES_MAX).map_err(|error| match Refused::behind(&error) {
        Some(refused) => Cause::Refused(path.to_owned(), refused),
        None => Cause::Unreadable { kind: error.kind() },
    })
}
