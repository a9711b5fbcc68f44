//! Files that a workload file names.

use std::io;

use punctual_diagnostics::{Place, Problems, Rule};
use thiserror::Error;

/// How they are read: a name as written, and the text.
pub(super) type Files<'f> = &'f dyn Fn(&str) -> io::Result<String>;

/// Some millions of recorded arrivals, or of samples.
pub(super) const BYTES_MAX: u64 = 256 << 20;

/// What is wrong with a file that a workload file names.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileRule {
    #[error("{file} cannot be read: {error}")]
    Unreadable { file: String, error: io::Error },
    /// A profile, calibration or recording that cannot be used.
    #[error("{file}: {reason}")]
    Malformed { file: String, reason: String },
}

impl Rule for FileRule {
    fn rule(&self) -> &'static str {
        "the file and every file that it names can be read"
    }

    fn help(&self) -> String {
        match self {
            Self::Unreadable { .. } => "check its path, which goes from the workload file".into(),
            Self::Malformed { .. } => "correct the file, or make it again".into(),
        }
    }

    fn is_about_a_file(&self) -> bool {
        true
    }
}

/// What `parse` makes of the file.
pub(super) fn load<T, E: ToString>(
    file: &str,
    place: &Place,
    files: Files<'_>,
    problems: &mut Problems<'_>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Option<T> {
    let file = file.to_owned();
    let cause = match files(&file) {
        Err(error) => FileRule::Unreadable { file, error },
        Ok(text) => match parse(&text) {
            Ok(parsed) => return Some(parsed),
            Err(reason) => FileRule::Malformed {
                file,
                reason: reason.to_string(),
            },
        },
    };
    problems.add(place, cause);
    None
}
