//! Reading files that a user named. Whatever the name leads to, reading it ends, and takes no more memory than the file may.

use std::fmt;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The most bytes of a text: one that a person wrote, or a program wrote for a person.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Why a file that is there is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It may block for ever, never end, or have no content.
    #[error("it is {found}, not a regular file; {}", found.remedy())]
    NotRegular { found: Found },
    /// It is larger than any such file is.
    #[error(
        "it has {bytes} bytes or more, and at most {limit} are read of such a file; make it smaller, or name another"
    )]
    TooLarge { bytes: u64, limit: u64 },
}

/// What a path leads to that is not a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Folder,
    /// A pipe with a name, or one of the shell's: `<(...)`, or standard input.
    Pipe,
    Socket,
    Device,
}

impl Found {
    fn of(found: FileType) -> Option<Self> {
        match found {
            found if found.is_file() => None,
            found if found.is_dir() => Some(Self::Folder),
            found if found.is_fifo() => Some(Self::Pipe),
            found if found.is_socket() => Some(Self::Socket),
            _ => Some(Self::Device),
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Folder => "name a file in it",
            Self::Pipe => "write what comes out of it to a file, and name that",
            Self::Socket | Self::Device => "name a file",
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
        })
    }
}

impl Refused {
    /// The refusal behind an error of this module's functions, if it is one.
    #[must_use]
    pub fn behind(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    fn unless_regular(metadata: &Metadata) -> Result<(), Self> {
        match Found::of(metadata.file_type()) {
            None => Ok(()),
            Some(found) => Err(Self::NotRegular { found }),
        }
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        let kind = match refused {
            Refused::NotRegular {
                found: Found::Folder,
            } => io::ErrorKind::IsADirectory,
            Refused::NotRegular { .. } => io::ErrorKind::InvalidInput,
            Refused::TooLarge { .. } => io::ErrorKind::FileTooLarge,
        };
        Self::new(kind, refused)
    }
}

/// Opens a regular file, and nothing else.
pub fn open(path: &Path) -> io::Result<File> {
    // Looked at before it is opened: to open a device may do something (a watchdog starts to run).
    Refused::unless_regular(&std::fs::metadata(path)?)?;
    // It may have been replaced since. Without O_NONBLOCK, opening a pipe waits for its writer.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    Refused::unless_regular(&file.metadata()?)?;
    Ok(file)
}

/// The content of a regular file that has at most `limit` bytes.
pub fn bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let too_large = |bytes| Refused::TooLarge { bytes, limit };
    let size = file.metadata()?.len();
    if size > limit {
        return Err(too_large(size).into());
    }
    let mut content = Vec::new();
    // The size may have been 0, as in /proc, or may grow: one byte more, so that this is noticed and nothing is cut.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    match content.len() as u64 {
        read if read > limit => Err(too_large(read).into()),
        _ => Ok(content),
    }
}

/// As [`bytes`], of a file in UTF-8.
pub fn text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, limit)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let why = format!("it is not text in UTF-8 (byte {at})");
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    /// A folder that is removed when the test is over.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("punctual-read-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, content: &[u8]) -> PathBuf {
            let path = self.0.join("file");
            std::fs::write(&path, content).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn refused(path: &Path) -> Option<Refused> {
        Refused::behind(&bytes(path, 10).expect_err("it is refused"))
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_not_a_byte_further() {
        let scratch = Scratch::new("limit");
        let path = scratch.file(b"0123456789");
        assert_eq!(text(&path, 10).unwrap(), "0123456789");
        let too_large = Refused::TooLarge {
            bytes: 10,
            limit: 9,
        };
        let error = bytes(&path, 9).expect_err("a byte too many");
        assert_eq!(Refused::behind(&error), Some(too_large));
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_file_of_the_kernel_has_no_size_and_is_read_and_bounded_all_the_same() {
        let path = Path::new("/proc/self/status");
        assert!(text(path, TEXT_BYTES_MAX).unwrap().contains("VmRSS"));
        let refusal = refused(path);
        assert!(
            matches!(refusal, Some(Refused::TooLarge { bytes: 11, .. })),
            "{refusal:?}"
        );
    }

    #[test]
    fn whatever_is_no_regular_file_is_refused_at_once_and_named() {
        let scratch = Scratch::new("kinds");
        let socket = scratch.0.join("socket");
        let _listening = UnixListener::bind(&socket).unwrap();
        let pipe = scratch.0.join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: a path that ends in a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let link = scratch.0.join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for (path, found) in [
            (scratch.0.as_path(), Found::Folder),
            (&socket, Found::Socket),
            (&pipe, Found::Pipe),
            (&link, Found::Pipe),
            (Path::new("/dev/zero"), Found::Device),
        ] {
            assert_eq!(refused(path), Some(Refused::NotRegular { found }));
        }
    }

    #[test]
    fn what_is_missing_or_no_text_is_said_to_be_so() {
        let missing = bytes(Path::new("no/such/file"), 10).expect_err("it is missing");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(Refused::behind(&missing), None);
        let scratch = Scratch::new("text");
        let error = text(&scratch.file(b"ab\xff"), 10).expect_err("no text");
        assert!(error.to_string().contains("byte 2"), "{error}");
    }
}
