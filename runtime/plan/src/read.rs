//! Reading the files that a plan is made from. Nothing is decided here.

use std::path::Path;
use std::sync::Arc;

use punctual_model::{Package, Profile};

use crate::board::Board;
use crate::cause::Cause;
use crate::inputs::{Host, PackageInput, PlanInputs};
use crate::manifest::Manifest;
use crate::problem::{Place, PlanErrors, Problems};

impl PlanInputs {
    /// Reads a manifest and the packages that it names. The board is one that is part of the
    /// program, or else the file `boards/NAME.toml` beside the manifest.
    ///
    /// # Errors
    /// When the manifest or the board cannot be read. A package that cannot be is noted in its
    /// place, so that [`Plan::build`](crate::Plan::build) reports it together with all else.
    pub fn read(
        manifest_path: &Path,
        profiles: Vec<Profile>,
        host: Host,
    ) -> Result<Self, PlanErrors> {
        let manifest_text = read_text(manifest_path)?;
        let mut problems = Problems::new(manifest_path, &manifest_text);
        let manifest = Manifest::read(&manifest_text, &mut problems);
        let directory = manifest_path.parent().unwrap_or(Path::new(""));
        let board = match &manifest.daemon.board {
            Some(name) => match find_board(&name.value, directory) {
                Ok(board) => board,
                Err(BoardProblem::Unreadable(kind)) => {
                    let board = name.value.clone();
                    problems.add(&name.place, Cause::NoSuchBoard { board, kind });
                    return Err(problems.into_errors());
                }
                Err(BoardProblem::Invalid(errors)) => return Err(errors),
            },
            None => return Err(problems.into_errors()),
        };
        let mut packages: Vec<PackageInput> = Vec::new();
        for model in &manifest.models {
            let Some(path) = model.package.as_ref().map(|at| &at.value) else {
                continue;
            };
            if packages.iter().all(|known| known.path != *path) {
                packages.push(PackageInput {
                    path: path.clone(),
                    package: Package::read(&directory.join(path)).map_err(Arc::new),
                });
            }
        }
        Ok(Self {
            manifest_path: manifest_path.to_owned(),
            manifest_text,
            board,
            host,
            packages,
            profiles,
        })
    }
}

enum BoardProblem {
    Unreadable(std::io::ErrorKind),
    Invalid(PlanErrors),
}

fn find_board(name: &str, directory: &Path) -> Result<Board, BoardProblem> {
    if let Some(board) = Board::builtin(name) {
        return Ok(board);
    }
    let path = directory.join("boards").join(format!("{name}.toml"));
    let text =
        std::fs::read_to_string(&path).map_err(|error| BoardProblem::Unreadable(error.kind()))?;
    Board::parse(&text, &path).map_err(BoardProblem::Invalid)
}

fn read_text(path: &Path) -> Result<String, PlanErrors> {
    std::fs::read_to_string(path).map_err(|error| {
        let mut problems = Problems::new(path, "");
        let kind = error.kind();
        problems.add(&Place::default(), Cause::Unreadable { kind });
        problems.into_errors()
    })
}
