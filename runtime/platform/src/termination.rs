//! How one of our commands ended, as a code that a script can act on.

use std::process::ExitCode;

use crate::output::{self, OutputError};

/// How a command ended. `--help` documents the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    Done,
    /// It ran, and the result is bad.
    BadResult,
    /// The manifest, plan, network or package is invalid.
    BadInput,
    /// A file is missing, unreadable or cannot be written.
    File,
    /// Memory, threads, sockets or processes are unavailable.
    Resources,
    /// The reader of standard output closed it.
    ReaderGone,
    /// A signal asked for it.
    Interrupted,
    /// As another program, whose codes these are.
    Code(u8),
}

/// An error that knows the code it ends the command with.
pub trait Terminates: std::error::Error {
    fn termination(&self) -> Termination;
}

/// As shells say it of a process that SIGINT ended.
const INTERRUPTED_CODE: u8 = 128 + libc::SIGINT as u8;

impl Termination {
    /// The process's code. 2 is left to the command line's own errors.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::BadResult => 1,
            Self::BadInput => 3,
            Self::File => 4,
            Self::Resources => 5,
            Self::ReaderGone => output::READER_GONE_CODE,
            Self::Interrupted => INTERRUPTED_CODE,
            Self::Code(code) => code,
        }
    }

    /// Prints the error of the command called `what`, if there is one.
    #[must_use]
    pub fn of<E: Terminates>(what: &str, result: Result<(), E>) -> Self {
        let Err(error) = result else {
            return Self::Done;
        };
        let termination = error.termination();
        if termination != Self::ReaderGone {
            output::note(format_args!("punctual {what}: {error}"));
        }
        termination
    }

    /// How the command called `what` ends that would end so, after it has printed, or tried to.
    #[must_use]
    pub fn once_printed(self, what: &str, printed: Result<(), OutputError>) -> Self {
        match Self::of(what, printed) {
            Self::Done => self,
            failed => failed,
        }
    }
}

impl Terminates for OutputError {
    fn termination(&self) -> Termination {
        match self {
            Self::ReaderGone => Termination::ReaderGone,
            Self::Write(_) => Termination::File,
        }
    }
}

impl From<Termination> for ExitCode {
    fn from(termination: Termination) -> Self {
        Self::from(termination.code())
    }
}
