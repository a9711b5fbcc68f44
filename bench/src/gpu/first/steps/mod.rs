//! The steps of first light.

mod answers;
mod beside;
mod calibration;
mod latency;
mod network;
mod peaks;
mod preemption;
mod resumption;

use std::sync::Arc;

use punctual_cuda_measuring::launcher::{Launcher, Looks};
use punctual_cuda_measuring::recipe::rates::{self, Size};
use punctual_device_cuda::driver::Context;
use punctual_platform::clock;

use super::super::step::{Session, StepError};
use super::finding::Finding;

pub trait FirstStep {
    /// As in the report.
    fn name(&self) -> &'static str;

    /// What it shows, in a sentence without a full stop.
    fn shows(&self) -> &'static str;

    /// How long it may measure. Starting its process and the driver takes a second or two more.
    fn seconds(&self) -> u32;

    /// When it is given up, in seconds, on a device of this number of TPCs; on an emulated one later.
    fn patience(&self, _tpcs: u32) -> u32 {
        2 * self.seconds() + 10
    }

    /// Whether its figures are times, which mean something only while clocks stay.
    fn of_time(&self) -> bool;

    fn run(&self, session: &Session<'_>) -> Result<Finding, StepError>;
}

/// All of them, in the order in which they run.
pub const ALL: &[&dyn FirstStep] = &[
    &calibration::Calibration,
    &answers::Answers,
    &latency::Latency,
    &peaks::Peaks,
    &network::OneNetwork,
    &beside::Beside,
    &preemption::Preemption,
    &resumption::Resumption,
];

pub fn find(name: &str) -> Option<&'static dyn FirstStep> {
    ALL.iter().find(|step| step.name() == name).copied()
}

/// How much launches are asked of.
fn size(session: &Session<'_>) -> Size {
    session.size(Size::Full, Size::Tiny)
}

/// A governor raises the clocks of a device that has work within this time.
const WARM_NS: u64 = 400_000_000;

/// Gives the device work until its clocks are up. As long as somebody has the context, they stay.
pub fn warm(session: &Session<'_>) -> Result<Arc<Context>, StepError> {
    let context = Context::retain(session.gpu()?)?;
    let launcher = Launcher::new(&context)?;
    let copy = launcher.prepare(&rates::copy(size(session)).recipe)?;
    let until_ns = clock::now_ns() + session.size(WARM_NS, 0);
    loop {
        launcher.nanoseconds(&copy, Looks::Never, 4)?;
        if clock::now_ns() >= until_ns {
            return Ok(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the minute, so that starting processes, and trials that hang, have the rest.
    const SECONDS_MAX: u32 = 40;

    #[test]
    fn all_steps_fit_into_a_minute_with_the_starts_of_their_processes() {
        let seconds: u32 = ALL.iter().map(|step| step.seconds()).sum();
        assert!(seconds <= SECONDS_MAX, "{seconds} s");
    }

    #[test]
    fn every_step_is_found_by_its_name() {
        for step in ALL {
            let found = find(step.name()).expect("it is one of them");
            assert_eq!(found.shows(), step.shows());
        }
        assert!(find("speed").is_none());
    }
}
