//! Writing files so that a reader never sees half of one.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes beside `path`, then renames: a reader sees the old file or the new one.
///
/// # Errors
/// What the operating system says; nothing is left behind then.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    write_whole_with(path, |file| file.write_all(content))
}

/// As [`write_whole`], with content that `write` makes piece by piece.
///
/// # Errors
/// What `write` or the operating system says; nothing is left behind then.
pub fn write_whole_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let written = || {
        let mut file = BufWriter::new(File::create(&beside)?);
        write(&mut file)?;
        file.flush()?;
        std::fs::rename(&beside, path)
    };
    written().inspect_err(|_| {
        // It may not exist; the first error is the one to report.
        let _ = std::fs::remove_file(&beside);
    })
}
