//! How the rig ended, as a code that a script can act on.

use std::process::ExitCode;

use punctual_platform::output::READER_GONE_CODE;

/// How a run ended. `--help` documents the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    Passed,
    /// A case did not hold.
    Failed,
    /// The board, its bounds, a suite's or a case's name is wrong.
    BadInput,
    /// A file is missing, unreadable or cannot be written.
    File,
    /// The target cannot be reached, or not be prepared.
    Target,
    /// Every case was skipped: nothing was tested.
    NothingRun,
    /// Told to end; what had been started was cleared away.
    Interrupted,
    /// The reader of standard output went away.
    ReaderGone,
}

impl Termination {
    /// The process's code. 2 is left to the command line's own errors.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::BadInput => 3,
            Self::File => 4,
            Self::Target => 5,
            Self::NothingRun => 6,
            Self::Interrupted => 7,
            Self::ReaderGone => READER_GONE_CODE,
        }
    }
}

impl From<Termination> for ExitCode {
    fn from(termination: Termination) -> Self {
        Self::from(termination.code())
    }
}
