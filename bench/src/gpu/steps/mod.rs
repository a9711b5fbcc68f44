//! The steps.

mod calibration;
mod conformance;
mod cudnn;
mod disb;
mod every_kernel;
mod frames;
mod isolation;
mod known_answers;
mod latency;
mod loads;
pub mod locking;
mod memory;
mod networks;
mod numerics;
mod padding;
mod peaks;
mod prediction;
mod preemption;
mod resumption;

use super::step::{Step, Timed};

/// All steps, in the order in which they run.
pub const ALL: &[Timed<'static>] = &[
    timed(&memory::Memory, 8),
    timed(&calibration::Calibration, 25),
    timed(&known_answers::KnownAnswers, 5),
    timed(&latency::Latency, 3),
    timed(&peaks::Peaks, 2),
    timed(&conformance::Conformance, 30),
    timed(&numerics::Numerics, 20),
    timed(&every_kernel::EveryKernel, 20),
    timed(&isolation::Isolation, 40),
    timed(&loads::Loads, 15),
    timed(&frames::Frames, 12),
    timed(&preemption::Preemption, 25),
    timed(&resumption::Resumption, 15),
    timed(&disb::Disb, 50),
    timed(&padding::Padding, 18),
    timed(&prediction::Prediction, 30),
    timed(&cudnn::Cudnn, 40),
];

/// Those of first light, each with what it has of the minute. Starting its process and the driver takes a second or two more.
pub const FIRST: &[Timed<'static>] = &[
    timed(&calibration::Calibration, 10),
    timed(&known_answers::KnownAnswers, 5),
    timed(&latency::Latency, 3),
    timed(&peaks::Peaks, 2),
    timed(&prediction::Prediction, 6),
    timed(&isolation::Isolation, 4),
    timed(&preemption::Preemption, 3),
    timed(&resumption::Resumption, 4),
];

const fn timed(step: &'static dyn Step, seconds: u32) -> Timed<'static> {
    Timed { step, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(steps: &[Timed<'_>]) -> u32 {
        steps.iter().map(|timed| timed.seconds).sum()
    }

    #[test]
    fn all_steps_together_take_six_minutes_at_most() {
        let seconds = seconds(ALL);
        assert!(seconds <= 6 * 60, "{seconds} s");
    }

    /// Starting processes, and trials that hang, have the rest of the minute.
    #[test]
    fn first_light_fits_into_a_minute_with_the_starts_of_its_processes() {
        let seconds = seconds(FIRST);
        assert!(seconds <= 40, "{seconds} s");
    }

    #[test]
    fn what_a_step_needs_stands_before_it() {
        for steps in [ALL, FIRST] {
            for (index, timed) in steps.iter().enumerate() {
                for need in timed.step.needs() {
                    let mut before = steps[..index].iter();
                    let found = before.any(|timed| timed.step.name() == *need);
                    assert!(found, "{} needs {need}", timed.step.name());
                }
            }
        }
    }

    #[test]
    fn names_of_steps_are_unique() {
        for (index, timed) in ALL.iter().enumerate() {
            let name = timed.step.name();
            let same = |other: &Timed<'_>| other.step.name() == name;
            assert!(!ALL[..index].iter().any(same), "{name}");
        }
    }

    #[test]
    fn first_light_is_a_selection_of_the_steps() {
        for timed in FIRST {
            let name = timed.step.name();
            assert!(ALL.iter().any(|each| each.step.name() == name), "{name}");
        }
    }
}
