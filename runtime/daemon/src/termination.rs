//! How the daemon ended, as a code that a supervisor can act on.

use std::process::ExitCode;

/// How the daemon ended. `--help` documents the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Termination {
    Clean,
    /// A reload reached no daemon; the manifest that would be served is valid.
    NotReloaded,
    /// The manifest or the plan made from it is invalid.
    InvalidPlan,
    /// The manifest, a package or a profile is missing, unreadable or damaged.
    MissingFile,
    /// Memory, threads or the socket are unavailable.
    Resources,
    /// The drain took longer than its bound.
    DrainExceeded,
    /// A second signal ended the drain.
    Interrupted,
    /// A real-time thread did not beat for its bound.
    Stuck,
    /// The GPU can no longer be used by this process; what was accepted was answered as far as it could be.
    DeviceLost,
    /// A thread of the daemon panicked or an invariant did not hold.
    Internal,
}

impl Termination {
    /// All of them, for tests and documentation.
    pub const ALL: [Self; 10] = [
        Self::Clean,
        Self::NotReloaded,
        Self::InvalidPlan,
        Self::MissingFile,
        Self::Resources,
        Self::DrainExceeded,
        Self::Interrupted,
        Self::Stuck,
        Self::DeviceLost,
        Self::Internal,
    ];

    /// The process's code. 2 is left to the command line's own errors.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::NotReloaded => 1,
            Self::InvalidPlan => 3,
            Self::MissingFile => 4,
            Self::Resources => 5,
            Self::DrainExceeded => 6,
            Self::Interrupted => 7,
            Self::Stuck => 8,
            Self::DeviceLost => 9,
            Self::Internal => 70,
        }
    }
}

impl From<Termination> for ExitCode {
    fn from(termination: Termination) -> Self {
        Self::from(termination.code())
    }
}

impl std::process::Termination for Termination {
    fn report(self) -> ExitCode {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::Termination;
    use crate::options::AFTER_HELP;

    #[test]
    fn every_termination_code_is_documented_in_the_help() {
        for termination in Termination::ALL {
            let line = format!("\n  {:<4}", termination.code());
            assert!(
                AFTER_HELP.contains(&line),
                "{termination:?} ({}) is not in --help",
                termination.code()
            );
        }
    }

    #[test]
    fn no_two_terminations_share_a_code() {
        let mut codes = Termination::ALL.map(Termination::code).to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Termination::ALL.len());
    }
}
