//! How soon the GPU is free of best-effort work, and what that costs while no preemption happens: REEF,
//! Figures 12, 13, 15 and 20.

mod guards;
mod kernels;
mod stages;

use super::super::result::StepResult;
use super::super::step::{Session, Step, StepError};

pub struct Preemption;

impl Step for Preemption {
    fn name(&self) -> &'static str {
        "preemption"
    }

    fn about(&self) -> &'static str {
        "how soon the GPU is free of best-effort work, against waiting, and what checking costs (REEF, Figures 12, 13, 15, 20)"
    }

    fn seconds(&self) -> u32 {
        63
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let mut result = StepResult::default();
        kernels::measure(session, &mut result)?;
        // Three devices at once take memory that a small board may not have.
        let parts: [(&str, Part); 2] = [
            ("Networks preempted at any time", stages::measure),
            ("With and without looks at the epoch", guards::measure),
        ];
        for (what, measure) in parts {
            if let Err(error) = measure(session, &mut result) {
                result.note(format!("{what}: not measured: {error}"));
            }
        }
        result.note(
            "ours: few launches in the driver, every block and tile looks at the epoch. no look while running: as \
             many launches, but what runs is waited for, as REEF-N does on closed GPUs. waiting: everything is in \
             the driver, what waits there empties itself, what runs is waited for: the baseline of REEF, section 7.3.",
        );
        Ok(result)
    }
}

/// Measures and adds what was found.
type Part = fn(&Session<'_>, &mut StepResult) -> Result<(), StepError>;

/// A way to stop best-effort work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ours,
    NoLook,
    Waiting,
}

impl Way {
    const ALL: [Self; 3] = [Self::Ours, Self::NoLook, Self::Waiting];

    const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::NoLook => "no look while running",
            Self::Waiting => "waiting",
        }
    }

    const fn bound(self, ours: u32) -> u32 {
        match self {
            Self::Ours | Self::NoLook => ours,
            // More than any list has.
            Self::Waiting => 100_000,
        }
    }

    const fn looks(self) -> bool {
        matches!(self, Self::Ours)
    }
}
