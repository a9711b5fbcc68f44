use std::path::Path;

use punctual_platform::read::{self, Refused};

use crate::invalid::Invalid;
use crate::section::FILE_BYTES_MAX;

/// The text of a hand-written file: regular, and of at most [`FILE_BYTES_MAX`] bytes.
pub fn read_text(path: &Path) -> Result<String, Invalid> {
    read::text(path, FILE_BYTES_MAX).map_err(|error| match Refused::behind(&error) {
        Some(refused) => Invalid::Refused(path.to_owned(), refused),
        None => Invalid::Unreadable {
            reason: error.to_string(),
        },
    })
}
