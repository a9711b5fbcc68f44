//! A recording that a command is given.

use std::io;
use std::path::{Path, PathBuf};

use punctual_platform::read;
use punctual_platform::termination::{Terminates, Termination};
use punctual_recording::{BYTES_MAX, ReadError, Recording, Setting};

#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{path}: {source}", path = path.display())]
    Read { path: PathBuf, source: ReadError },
}

impl Terminates for RecordingError {
    fn termination(&self) -> Termination {
        match self {
            Self::File { .. } => Termination::File,
            Self::Read { .. } => Termination::BadInput,
        }
    }
}

/// A file that may be one.
pub struct RecordingFile<'p> {
    path: &'p Path,
    bytes: Vec<u8>,
}

/// One, with what its scheduler was made from.
pub struct Opened<'f> {
    pub recording: Recording<'f>,
    pub setting: Setting,
}

impl<'p> RecordingFile<'p> {
    pub fn read(path: &'p Path) -> Result<Self, RecordingError> {
        let bytes = read::bytes(path, BYTES_MAX).map_err(|source| RecordingError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self { path, bytes })
    }

    pub fn open(&self) -> Result<Opened<'_>, RecordingError> {
        let opened = Recording::of(&self.bytes).and_then(|recording| {
            let setting = recording.setting()?;
            Ok(Opened { recording, setting })
        });
        opened.map_err(|source| unreadable(self.path, source))
    }
}

/// An entry that cannot be read.
pub fn unreadable(path: &Path, source: ReadError) -> RecordingError {
    RecordingError::Read {
        path: path.to_owned(),
        source,
    }
}
