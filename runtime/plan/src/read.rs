//! Reading the files that a plan is made from. Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use punctual_diagnostics::{Diagnostics, Invalid, Place, Problems, Rule, read_text};
use punctual_model::{Package, PackageError, Profile};
use thiserror::Error;

use crate::inputs::{
    Board, Conditions, DeviceKind, Host, PackageInput, PlanInputs, Policies, ProfileInput,
};
use crate::manifest::{self, Manifest, PackageSource};
use crate::versions::{self, Chosen, Servable};

/// A board of which there is no file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("board {board:?} is not part of the program, and its file cannot be read: {reason}")]
#[non_exhaustive]
pub struct NoSuchBoard {
    pub board: String,
    /// What the system says.
    pub reason: String,
}

impl Rule for NoSuchBoard {
    fn rule(&self) -> &'static str {
        "every board has a file that states its facts"
    }

    fn help(&self) -> String {
        let names: Vec<&str> = Board::builtin_names().collect();
        format!(
            "use one of {}, or write boards/{}.toml",
            names.join(", "),
            self.board
        )
    }

    fn is_about_a_file(&self) -> bool {
        true
    }
}

/// Where the files lie that a manifest names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Where relative paths go from.
    pub folder: PathBuf,
    /// A folder with copies of the files under their absolute paths, which are read instead; none: the files themselves.
    pub copies: Option<PathBuf>,
    pub check: PackageCheck,
}

/// How much of a package is checked when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackageCheck {
    /// Every byte.
    #[default]
    Whole,
    /// Its description, and the weights that are not packed for this machine: packed ones a device on cores checks page by
    /// page as it loads them. Of a large network this saves most of the time until the first answer.
    AsLoaded,
}

impl PackageCheck {
    fn read(self, file: &Path, lanes: u8) -> Result<Package, PackageError> {
        if self == Self::Whole {
            return Package::read(file);
        }
        let package = Package::open(file)?;
        if package.image(lanes).is_none() {
            package.verify_weights()?;
            package.release();
        }
        Ok(package)
    }
}

impl Files {
    /// Of a manifest whose relative paths go from `folder`.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            copies: None,
            check: PackageCheck::Whole,
        }
    }

    /// Where to read a file of this path, be it absolute or from where this process is.
    #[must_use]
    pub fn read_instead_of(&self, path: &Path) -> PathBuf {
        match &self.copies {
            None => path.to_owned(),
            Some(copies) => copies.join(below_root(path)),
        }
    }

    /// Where to read what the manifest calls `path`.
    #[must_use]
    pub fn locate(&self, path: &Path) -> PathBuf {
        self.read_instead_of(&self.folder.join(path))
    }
}

/// A path without its root, and without steps up, which would lead out of another root.
fn below_root(path: &Path) -> PathBuf {
    let mut below = PathBuf::new();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for component in absolute.components() {
        match component {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => drop(below.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    below
}

impl PlanInputs {
    /// Reads a manifest, its board, the packages that it names, and profiles: those given, or if
    /// none is, those inside each package, then those next to it (`signs.punctual`:
    /// `signs.profile.json`, `signs.gpu.profile.json` of the GPU, and of ONNX Runtime `signs.ort.profile.json`, `signs.ort-cuda.profile.json` and `signs.ort-tensorrt.profile.json`). The board is
    /// one that is part of the program, or else the file `boards/NAME.toml` next to the manifest. `policies` are
    /// those that the manifest may name. A package that is a folder is the newest version in it that can be served.
    pub fn read(
        manifest_path: &Path,
        profiles: &[PathBuf],
        host: Host,
        policies: Policies,
    ) -> Result<Self, Diagnostics> {
        let directory = manifest_path.parent().unwrap_or(Path::new(""));
        let files = Files::of(directory);
        Self::read_from(manifest_path, &files, profiles, host, policies)
    }

    /// As [`read`](Self::read), with the files that the manifest and `profiles` name where `files` says.
    pub fn read_from(
        manifest_path: &Path,
        files: &Files,
        profiles: &[PathBuf],
        host: Host,
        policies: Policies,
    ) -> Result<Self, Diagnostics> {
        let manifest_text = open(manifest_path)?;
        let mut problems = Problems::new(manifest_path, &manifest_text, "plan");
        let Some(manifest) = manifest::read(&policies, PackageSource::Files(files), &mut problems)
        else {
            return Err(problems.into_errors());
        };
        let Some(name) = &manifest.daemon.board else {
            return Err(problems.into_errors());
        };
        let board = board_named(&name.value, &name.place, files, problems)?;
        let named = profiles.iter().map(|path| files.read_instead_of(path));
        let named: Vec<ProfileInput> = named.map(read_profile).collect();
        let servable = Servable {
            conditions: conditions(&manifest, &board, Some(&host.machine)),
            named: &named,
        };
        let packages = read_packages(&manifest, files, host.lanes, &servable);
        let profiles = if named.is_empty() {
            of_packages(&packages, files)
        } else {
            named
        };
        Ok(Self {
            manifest_path: manifest_path.to_owned(),
            manifest_text,
            board,
            board_is_asked: false,
            host,
            policies,
            packages,
            profiles,
        })
    }

    /// The files that were read in addition to the manifest, where they lie.
    #[must_use]
    pub fn files(&self, files: &Files) -> BTreeSet<PathBuf> {
        let packages = self.packages.iter();
        let packages = packages.map(|input| files.locate(Path::new(input.file())));
        let profiles = self.profiles.iter().map(|input| input.path.clone());
        let board = Some(board_file(&self.board.name, files));
        let board = board.filter(|_| Board::builtin(&self.board.name).is_none());
        packages.chain(profiles).chain(board).collect()
    }
}

/// The text of a manifest.
pub(crate) fn open(manifest: &Path) -> Result<String, Diagnostics> {
    read_text(manifest).map_err(|cause| Diagnostics::of_file(manifest, "plan", cause))
}

/// The board of this name; if there is none, that is noted at `place` with the other problems.
pub(crate) fn board_named(
    name: &str,
    place: &Place,
    files: &Files,
    mut problems: Problems<'_>,
) -> Result<Board, Diagnostics> {
    match find_board(name, files) {
        Ok(board) => return Ok(board),
        Err(BoardProblem::Invalid(errors)) => return Err(errors),
        Err(BoardProblem::Unreadable(Invalid::Unreadable { reason })) => {
            let board = name.to_owned();
            problems.add(place, NoSuchBoard { board, reason });
        }
        Err(BoardProblem::Unreadable(refused)) => problems.add(place, refused),
    }
    Err(problems.into_errors())
}

/// What a profile must be of, on this board.
pub(crate) fn conditions<'a>(
    manifest: &'a Manifest,
    board: &'a Board,
    machine: Option<&'a str>,
) -> Conditions<'a> {
    let power_mode = manifest.daemon.power_mode.as_ref();
    Conditions {
        board: &board.name,
        machine,
        power_mode: power_mode.map_or(board.default_power_mode(), |mode| &mode.value),
    }
}

/// Every package once, in the manifest's order.
pub(crate) fn read_packages(
    manifest: &Manifest,
    files: &Files,
    lanes: u8,
    servable: &Servable<'_>,
) -> Vec<PackageInput> {
    let mut packages: Vec<PackageInput> = Vec::new();
    for path in manifest.models.iter().filter_map(|m| m.package.as_ref()) {
        let path = &path.value;
        if packages.iter().all(|known| known.path != *path) {
            let file = files.locate(Path::new(path));
            let Chosen { package, choice } = if file.is_dir() {
                versions::choose(path, &file, servable)
            } else {
                Chosen {
                    package: files.check.read(&file, lanes).map_err(Arc::new),
                    choice: None,
                }
            };
            let layout = package.as_ref().ok().and_then(|p| p.layout(lanes).cloned());
            packages.push(PackageInput {
                path: path.clone(),
                version: choice,
                package,
                layout,
                footprints: BTreeMap::new(),
            });
        }
    }
    packages
}

/// The profiles that lie in and next to the packages; the first that fits is used. That there is
/// none is for the plan to say, which knows whether it is needed.
pub(crate) fn of_packages(packages: &[PackageInput], files: &Files) -> Vec<ProfileInput> {
    let mut profiles = Vec::new();
    for input in packages {
        let path = files.locate(Path::new(input.file()));
        let inside = input.package.iter().flat_map(|p| inside(p, &path));
        let around = if input.version.is_some() {
            versions::profiles_in(&files.locate(Path::new(&input.path)), &path)
        } else {
            beside(&path)
        };
        profiles.extend(inside.chain(around).map(|profile| ProfileInput {
            lies_with: Some(input.path.clone()),
            ..profile
        }));
    }
    profiles
}

/// The profiles that lie next to the package at `path`, whichever package they are of.
pub fn beside(path: &Path) -> Vec<ProfileInput> {
    let files = DeviceKind::ALL.map(|kind| path.with_extension(kind.profile_file()));
    let there = files.into_iter().filter(|file| file.exists());
    there.map(read_profile).collect()
}

/// The profiles that a package carries.
pub fn inside(package: &Package, path: &Path) -> impl Iterator<Item = ProfileInput> {
    package.profiles().iter().map(|profile| ProfileInput {
        path: path.to_owned(),
        lies_with: None,
        profile: Ok(profile.clone()),
    })
}

pub fn read_profile(path: PathBuf) -> ProfileInput {
    ProfileInput {
        profile: Profile::read(&path).map_err(Arc::new),
        lies_with: None,
        path,
    }
}

impl Board {
    /// The board that a manifest calls `name`: one of the program, or else the file next to the manifest. None if there is none
    /// that can be read, which the plan says.
    #[must_use]
    pub fn named(name: &str, files: &Files) -> Option<Self> {
        find_board(name, files).ok()
    }
}

enum BoardProblem {
    Unreadable(Invalid),
    Invalid(Diagnostics),
}

fn board_file(name: &str, files: &Files) -> PathBuf {
    files.locate(Path::new(&format!("boards/{name}.toml")))
}

fn find_board(name: &str, files: &Files) -> Result<Board, BoardProblem> {
    if let Some(board) = Board::builtin(name) {
        return Ok(board);
    }
    let path = board_file(name, files);
    let text = read_text(&path).map_err(BoardProblem::Unreadable)?;
    Board::parse(&text, &path).map_err(BoardProblem::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_under_their_absolute_paths_and_no_path_leads_out_of_their_folder() {
        let files = Files {
            folder: "/etc/punctual".into(),
            copies: Some("/kept".into()),
            ..Files::default()
        };
        for (named, read) in [
            ("signs.punctual", "/kept/etc/punctual/signs.punctual"),
            ("../models/./a.punctual", "/kept/etc/models/a.punctual"),
            ("/srv/a.punctual", "/kept/srv/a.punctual"),
            ("../../../../shadow", "/kept/shadow"),
        ] {
            assert_eq!(files.locate(Path::new(named)), Path::new(read));
        }
        let own = Files::of(Path::new("robot"));
        assert_eq!(
            own.locate(Path::new("a.punctual")),
            Path::new("robot/a.punctual")
        );
    }
}
