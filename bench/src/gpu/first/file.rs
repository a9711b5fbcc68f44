//! The one file of first light: claimed before anything is measured, so that a minute of work is not lost at its end.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use punctual_platform::files;

/// A file that is ours to write. Unless it was written, it is gone with this.
#[derive(Debug)]
pub struct Claimed {
    path: PathBuf,
    written: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(
        "{path} is there already, and a report is not overwritten: move it away, or name another file with --file",
        path = path.display()
    )]
    Exists { path: PathBuf },
    #[error(
        "{path} cannot be written: {source}; name a file in a folder of yours with --file",
        path = path.display()
    )]
    Unwritable { path: PathBuf, source: io::Error },
}

impl Claimed {
    /// An empty file counts as free: a run that was interrupted leaves one behind.
    pub fn claim(path: &Path) -> Result<Self, FileError> {
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !is_empty(path) {
                    return Err(FileError::Exists {
                        path: path.to_owned(),
                    });
                }
            }
            Err(source) => {
                return Err(FileError::Unwritable {
                    path: path.to_owned(),
                    source,
                });
            }
        }
        Ok(Self {
            path: path.to_owned(),
            written: false,
        })
    }

    /// Writes a text, compressed; how many bytes that are.
    pub fn write(mut self, text: &str) -> Result<usize, FileError> {
        let bytes = compressed(text.as_bytes());
        let bytes = bytes.and_then(|bytes| {
            files::write_whole(&self.path, &bytes)?;
            Ok(bytes.len())
        });
        self.written = bytes.is_ok();
        bytes.map_err(|source| FileError::Unwritable {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if !self.written {
            // An empty file left behind does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_empty(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::super::super::fixtures::made;
    use super::*;

    #[test]
    fn a_written_file_is_the_text_compressed_and_is_not_overwritten() {
        let folder = made("file", &[]);
        let path = folder.join("report.json.gz");
        let text = "all of it ".repeat(100);
        let bytes = Claimed::claim(&path).expect("free").write(&text);
        assert!(bytes.expect("written") < text.len());
        let mut read = String::new();
        GzDecoder::new(&fs::read(&path).expect("the file")[..])
            .read_to_string(&mut read)
            .expect("compressed text");
        assert_eq!(read, text);
        let error = Claimed::claim(&path).expect_err("it is there");
        assert!(error.to_string().contains("--file"), "{error}");
        assert!(path.exists(), "a report of before was removed");
    }

    #[test]
    fn a_claim_leaves_nothing_behind_and_may_take_what_an_interrupted_run_left() {
        let folder = made("claim", &[("left", "")]);
        let path = folder.join("left");
        drop(Claimed::claim(&path).expect("it is empty"));
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_before_anything_is_measured() {
        let folder = made("nowhere", &[]);
        let path = folder.join("folder/report.json.gz");
        let error = Claimed::claim(&path).expect_err("no folder");
        assert!(matches!(error, FileError::Unwritable { .. }), "{error}");
        assert!(error.to_string().contains("report.json.gz"), "{error}");
    }
}
