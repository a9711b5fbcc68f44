//! A workload file, which finds no other files.

use std::io::{Error, ErrorKind};

use punctual_evaluation::format;

use super::entry::diagnosed;

/// Reads a workload: it is complete, or there is a diagnosis of bounded length. Whether it is complete.
pub fn workload(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let path = "fuzzed.toml".as_ref();
    let nothing = |_: &str| Err(Error::from(ErrorKind::NotFound));
    let Some(workload) = diagnosed(format::parse(path, &text, &nothing)) else {
        return false;
    };
    assert!(
        !workload.scenario.tasks.is_empty(),
        "something is to be done"
    );
    true
}
