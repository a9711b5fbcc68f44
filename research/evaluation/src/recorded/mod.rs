//! Recordings as workloads: the same frames, at the same times, under any policy and plan.
//!
//! | file | what |
//! |---|---|
//! | `log` | what became of each frame of a recording |
//! | `answers` | what the exits say of a frame that did not reach them, and what is right |
//! | `played` | all of it, as a scenario for a plan |

mod answers;
mod log;
mod played;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use punctual_core::{Config, ConfigError};
use punctual_plan::{PolicyChoice, WrittenPolicyError};
use punctual_platform::read;
use punctual_platform::termination::{Terminates, Termination};
use punctual_recording::{Names, ReadError, Recording, Setting};

pub use log::{Log, Omitted};
pub use played::{Played, UNITS_MAX};

/// The longest recording that is read: hours of a busy daemon.
const BYTES_MAX: u64 = 4 << 30;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {source}", path = path.display())]
    Read { path: PathBuf, source: ReadError },
    #[error("{path}: its scheduler: {source}", path = path.display())]
    Policy {
        path: PathBuf,
        source: WrittenPolicyError,
    },
    #[error("{path}: its plan: {source}", path = path.display())]
    Plan { path: PathBuf, source: ConfigError },
    #[error("{path}: a frame names task {task}, and its plan has {tasks}", path = path.display())]
    OtherPlan {
        path: PathBuf,
        task: u16,
        tasks: usize,
    },
    #[error("{path}: it has no frame with a verdict that the plan has a task for", path = path.display())]
    NoFrames { path: PathBuf },
    #[error("{path}: it has more than {limit} frames; record less, or cut it", path = path.display())]
    Frames { path: PathBuf, limit: usize },
    #[error(
        "{path}: its plan has {units} compute units; recordings are played with at most {UNITS_MAX}",
        path = path.display()
    )]
    Units { path: PathBuf, units: u16 },
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::File { .. } => Termination::File,
            _ => Termination::BadInput,
        }
    }
}

/// A file that may be a recording.
pub struct File {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl File {
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = read::bytes(path, BYTES_MAX).map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
        })
    }

    /// # Errors
    /// If it is no recording, or none of a policy that is known.
    pub fn open(&self) -> Result<Opened<'_>, Error> {
        let path = &self.path;
        let unreadable = |source| Error::Read {
            path: path.clone(),
            source,
        };
        let recording = Recording::of(&self.bytes).map_err(unreadable)?;
        let setting = recording.setting().map_err(unreadable)?;
        let policy = punctual_baselines::all().written(&setting.policy);
        let policy = policy.map_err(|source| Error::Policy {
            path: path.clone(),
            source,
        })?;
        Ok(Opened {
            path,
            recording,
            setting,
            policy,
        })
    }
}

/// A recording, with what its scheduler was made from.
pub struct Opened<'f> {
    pub path: &'f Path,
    pub recording: Recording<'f>,
    pub setting: Setting,
    pub policy: PolicyChoice,
}

impl Opened<'_> {
    /// The plan that it was recorded under.
    #[must_use]
    pub fn plan(&self) -> Planned {
        Planned {
            config: self.setting.config.clone(),
            names: self.setting.names.clone(),
            policy: self.policy.clone(),
        }
    }
}

/// A plan with its policy and its names.
#[derive(Clone, Debug)]
pub struct Planned {
    pub config: Config,
    pub names: Names,
    pub policy: PolicyChoice,
}
