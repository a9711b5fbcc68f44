//! What a step is, and what it runs in.

use punctual_core::{ConfigError, Event};
use punctual_cuda_measuring::holding::HoldError;
use punctual_cuda_measuring::launcher::LaunchError;
use punctual_device::frames::FramesRefused;
use punctual_device::{ClaimError, SubmitError};
use punctual_device_cuda::StartError;
use punctual_device_cuda::driver::{CallError, Driver, Gpu, OpenError};
use punctual_device_cuda::partition::StreamError;
use punctual_device_cuda::partition::offer::OfferError;
use punctual_kernels::preprocess::PreprocessError;
use punctual_model::PackageError;
use punctual_platform::clock;
use punctual_simulator::arrivals::PatternError;

use super::folder::{Folder, FolderError};
use super::result::StepResult;

pub trait Step {
    /// As on the command line, and of its file.
    fn name(&self) -> &'static str;

    /// What it finds out, in a sentence without a full stop.
    fn about(&self) -> &'static str;

    /// Steps whose results it builds on.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// What trials that hang may take in addition, in seconds, on a device of this number of TPCs.
    fn reserve(&self, _tpcs: u32) -> u32 {
        0
    }

    /// Whether its figures are times, which mean something only while clocks stay.
    fn of_time(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError>;
}

/// A step, and how long it may measure.
#[derive(Clone, Copy)]
pub struct Timed<'s> {
    pub step: &'s dyn Step,
    /// More or less, on a machine for which it is meant.
    pub seconds: u32,
}

/// Why a step has no result.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// What it needs is not there: nothing is wrong.
    #[error(transparent)]
    Prerequisite(#[from] Prerequisite),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Call(#[from] CallError),
    /// An earlier result cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Start(#[from] StartError),
    /// It refuses an action that must be measured.
    #[error("the device refused an action of the measurement: {0}")]
    Refused(#[from] SubmitError),
    /// A request buffer is in use that should not be.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Frames(#[from] FramesRefused),
    #[error("the device failed while it prepared a frame: see the step `known-answers`")]
    NotPrepared,
    /// No core prepares such frames.
    #[error(transparent)]
    Preprocess(#[from] PreprocessError),
    #[error("no event from the device for {seconds} s")]
    Silent { seconds: u64 },
    /// Kernels that only take time were not preempted.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// A kernel cannot be launched alone.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The GPU cannot be looked at.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// It cannot be divided as calibration said.
    #[error(transparent)]
    Divide(#[from] StreamError),
    /// The CPU device does not start.
    #[error("the CPU device for the comparison: {0}")]
    Cpu(#[from] punctual_device_cpu::StartError),
    /// PyTorch does not do what it is asked.
    #[error("the process that runs PyTorch {said}")]
    Torch { said: String },
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error("a process of the measurement cannot be started: {0}")]
    Process(std::io::Error),
    #[error("a process of the measurement ended with {0}, without an answer")]
    Started(std::process::ExitStatus),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The scheduler refuses the plan: an error of ours.
    #[error(transparent)]
    Plan(#[from] ConfigError),
    #[error("an action of the measurement failed with {0:?}")]
    Unexpected(Box<Event>),
}

/// What is not there, so that something is not measured.
#[derive(Debug, thiserror::Error)]
pub enum Prerequisite {
    /// An earlier step has no result.
    #[error("it needs the result of step `{0}`, which has none")]
    Step(&'static str),
    #[error("no mechanism divides this GPU: see the step `calibration`")]
    Undivided,
    /// The TPCs of a stream cannot be changed between two launches.
    #[error(
        "only masks of streams can be changed from launch to launch, and this GPU is not divided by them: see the \
             step `calibration`"
    )]
    Masks,
    #[error("PyTorch with CUDA is not installed: {said}")]
    Torch { said: String },
}

/// What a step runs in: how much is asked of it, and what is there.
pub struct Session<'s> {
    /// Tiny sizes: to see that everything works. Its figures mean nothing.
    pub quick: bool,
    /// In first light: one network, and the way that ships.
    pub brief: bool,
    /// Which GPU, as the driver numbers them.
    pub device: u32,
    /// Results, and what steps keep for others.
    pub folder: &'s Folder,
    /// When the step shall have ended.
    end_ns: u64,
}

impl<'s> Session<'s> {
    /// For a step that has this many seconds from now on.
    pub fn new(folder: &'s Folder, device: u32, quick: bool, seconds: u32) -> Self {
        Self {
            quick,
            brief: false,
            device,
            folder,
            end_ns: clock::now_ns() + u64::from(seconds) * 1_000_000_000,
        }
    }

    /// The same for first light.
    #[must_use]
    pub fn brief(self) -> Self {
        Self {
            brief: true,
            ..self
        }
    }

    pub fn gpu(&self) -> Result<Gpu, StepError> {
        Ok(Driver::open()?.device(self.device)?)
    }

    /// `full`, or `quick` when everything is tiny.
    pub const fn size<T: Copy>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Repetitions: at most this many, and only for a part of the step's remaining time, in permille;
    /// but always a few.
    pub fn rounds(&self, full: usize, quick: usize, permille: u64) -> Rounds {
        let now = clock::now_ns();
        let remaining = self.end_ns.saturating_sub(now);
        Rounds {
            left: self.size(full, quick),
            at_least: 3,
            until_ns: now + remaining / 1000 * permille,
        }
    }
}

pub struct Rounds {
    left: usize,
    at_least: usize,
    until_ns: u64,
}

impl Iterator for Rounds {
    type Item = ();

    fn next(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let few = self.at_least > 0;
        self.at_least = self.at_least.saturating_sub(1);
        (few || clock::now_ns() < self.until_ns).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_with_their_number_or_their_time_but_are_never_fewer_than_three() {
        let rounds = |left, until_ns| Rounds {
            left,
            at_least: 3,
            until_ns,
        };
        assert_eq!(rounds(10, u64::MAX).count(), 10);
        assert_eq!(rounds(10, 0).count(), 3);
        assert_eq!(rounds(2, 0).count(), 2);
    }
}
