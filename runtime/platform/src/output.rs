//! Standard output and standard error of a program that may lose its reader, or find the disk full. `println!` panics then.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write as _};

/// The code of a program whose standard output was closed by its reader: 128 + 13, as a shell reports an end by
/// `SIGPIPE`.
pub const READER_GONE_CODE: u8 = 141;

#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Its reader closed it, as `head` does: the program ends with [`READER_GONE_CODE`] and writes no message.
    #[error("the reader of standard output has closed it")]
    ReaderGone,
    /// Anything else, such as a full disk.
    #[error("cannot write to standard output: {0}")]
    Write(io::Error),
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Write(error),
        }
    }
}

impl OutputError {
    /// How a program ends that has nothing to do but to print: with [`READER_GONE_CODE`] or `code`, which its help documents
    /// for files that cannot be written. Says the second on standard error.
    #[must_use]
    pub fn end(&self, program: &str, code: u8) -> u8 {
        match self {
            Self::ReaderGone => READER_GONE_CODE,
            Self::Write(_) => {
                note(format_args!("{program}: {self}"));
                code
            }
        }
    }
}

/// How a program called `program` ends that says its errors and has no codes for them: 0, 1, or as [`OutputError::end`].
#[must_use]
pub fn end_of(program: &str, result: Result<(), Box<dyn Error>>) -> u8 {
    match result.map_err(|error| error.downcast::<OutputError>()) {
        Ok(()) => 0,
        Err(Ok(output)) => output.end(program, 1),
        Err(Err(error)) => {
            note(format_args!("{program}: {error}"));
            1
        }
    }
}

/// The code of a program called `program` whose arguments are wrong, or ask for its help, after its command line's parser has
/// `printed` what there is to say and wants to end with `code`. `write_code` is as for [`OutputError::end`].
#[must_use]
pub fn usage_code(printed: io::Result<()>, code: i32, program: &str, write_code: u8) -> u8 {
    match printed {
        Err(error) if code == 0 => OutputError::from(error).end(program, write_code),
        // What is wrong went to standard error; see `note`.
        _ => code as u8,
    }
}

/// Columns of the terminal that standard output is, or 80.
#[must_use]
pub fn width() -> usize {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the kernel writes one `winsize`, for which there is room, or nothing.
    let done = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    match size.ws_col {
        columns @ 1.. if done == 0 => usize::from(columns),
        _ => 80,
    }
}

/// Writes `text` to standard output, all of it.
pub fn text(text: impl Display) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    // Here and not at the program's end, where the standard library ignores an error.
    Ok(out.flush()?)
}

/// As [`text`], and ends the line.
pub fn line(line: impl Display) -> Result<(), OutputError> {
    text(format_args!("{line}\n"))
}

/// Writes a line to standard error. A failure to write is ignored: there is no other place to report it.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
