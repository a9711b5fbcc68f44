//! The folder of results: one file a step, written as the step ends, so that a run can continue where
//! another one stopped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punctual_platform::{files, read};
use serde::{Deserialize, Serialize};

use super::clocks::Reading;
use super::machine::Machine;
use super::result::StepResult;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub step: String,
    pub outcome: Outcome,
    /// What the clocks were meanwhile; read in first light only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<Reading>,
    pub began: String,
    pub seconds: f64,
    pub machine: Machine,
    pub quick: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<R = StepResult> {
    Measured(R),
    /// What it needs is not there.
    NotMeasured {
        /// What, in words.
        why: String,
    },
    Failed {
        /// What, in words.
        why: String,
    },
}

impl<R> Outcome<R> {
    pub const fn is_measured(&self) -> bool {
        matches!(self, Self::Measured(_))
    }
}

#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// What is wrong with the folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file or the folder itself.
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file that no version of ours, or another one, wrote.
    #[error("{path} is no result of this version ({source}): remove it, or name another folder with --out", path = path.display())]
    Unreadable {
        path: PathBuf,
        source: serde_json::Error,
    },
    /// Results of different machines, or of tiny and full sizes, are not mixed.
    #[error("{path} is of {found}; this run is of {wanted}: name another folder with --out", path = path.display())]
    Other {
        path: PathBuf,
        found: String,
        wanted: String,
    },
}

impl Folder {
    /// The folder, made if it is not there.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let folder = Self {
            path: path.to_owned(),
        };
        fs::create_dir_all(path).map_err(|source| FolderError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, step: &str) -> PathBuf {
        self.path.join(format!("{step}.json"))
    }

    /// The outcome of a step; none if it has not ended yet.
    pub fn read(&self, step: &str) -> Result<Option<Record>, FolderError> {
        let path = self.file(step);
        let text = match read::bytes(&path, read::TEXT_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FolderError::File { path, source }),
        };
        let record = serde_json::from_slice(&text);
        record
            .map(Some)
            .map_err(|source| FolderError::Unreadable { path, source })
    }

    /// As [`read`](Self::read), but refuses what was measured elsewhere or with other sizes.
    pub fn read_of(
        &self,
        step: &str,
        machine: &Machine,
        quick: bool,
    ) -> Result<Option<Record>, FolderError> {
        let Some(record) = self.read(step)? else {
            return Ok(None);
        };
        if record.quick == quick && record.machine.is(machine) {
            return Ok(Some(record));
        }
        let of = |machine: &Machine, quick: bool| {
            let sizes = if quick { "--quick" } else { "full sizes" };
            format!("{} ({}), {sizes}", machine.device, machine.uuid)
        };
        Err(FolderError::Other {
            path: self.file(step),
            found: of(&record.machine, record.quick),
            wanted: of(machine, quick),
        })
    }

    /// Writes the outcome of a step; a reader sees all of it or the former content.
    pub fn write(&self, record: &Record) -> Result<(), FolderError> {
        let text = serde_json::to_string_pretty(record).expect("plain data");
        self.write_text(&format!("{}.json", record.step), &text)
            .map(|_| ())
    }

    /// Writes a file of that name; says where it is.
    pub fn write_text(&self, name: &str, text: &str) -> Result<PathBuf, FolderError> {
        let path = self.path.join(name);
        match files::write_whole(&path, text.as_bytes()) {
            Ok(()) => Ok(path),
            Err(source) => Err(FolderError::File { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{machine, made, record};
    use super::*;

    fn measured() -> Record {
        let mut result = StepResult::default();
        result.figure("guards", "resnet50", 1.25);
        record(result)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let made = made("read", &[]);
        let folder = Folder::open(&made).expect("a folder");
        assert_eq!(folder.read("preemption").expect("no file"), None);
        folder.write(&measured()).expect("written");
        let found = folder.read_of("preemption", &machine("a"), false);
        assert_eq!(found.expect("read"), Some(measured()));
    }

    #[test]
    fn results_of_another_gpu_or_of_other_sizes_are_refused() {
        let made = made("other", &[]);
        let folder = Folder::open(&made).expect("a folder");
        folder.write(&measured()).expect("written");
        let quick = folder.read_of("preemption", &machine("a"), true);
        assert!(matches!(quick, Err(FolderError::Other { .. })), "{quick:?}");
        let other = folder.read_of("preemption", &machine("b"), false);
        let text = other.expect_err("another GPU").to_string();
        assert!(text.contains("--out"), "{text}");
    }

    #[test]
    fn a_file_that_is_no_result_is_named() {
        let made = made("broken", &[]);
        let folder = Folder::open(&made).expect("a folder");
        folder
            .write_text("disb.json", "{\"step\": 3}")
            .expect("written");
        let error = folder.read("disb").expect_err("no result").to_string();
        assert!(
            error.contains("disb.json") && error.contains("remove"),
            "{error}"
        );
    }
}
