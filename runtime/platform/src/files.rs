//! Writing files so that a reader never sees half of one.

use std::io;
use std::path::Path;

/// Writes beside `path`, then renames: a reader sees the old file or the new one.
///
/// # Errors
/// What the operating system says; nothing is left behind then.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    std::fs::write(&beside, content)
        .and_then(|()| std::fs::rename(&beside, path))
        .inspect_err(|_| {
            // It may not exist; the first error is the one to report.
            let _ = std::fs::remove_file(&beside);
        })
}
