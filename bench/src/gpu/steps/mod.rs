//! The steps.

pub mod calibration;
pub mod cold_start;
mod conformance;
mod cudnn;
mod disb;
mod every_kernel;
mod isolation;
pub mod locking;
mod memory;
pub mod networks;
mod numerics;
mod padding;
mod prediction;
mod preemption;
mod scaling;

use super::course::Steps;

/// All steps, in the order in which they run.
pub const ALL: &Steps<'static> = &[
    &memory::Memory,
    &calibration::Calibration,
    &conformance::Conformance,
    &numerics::Numerics,
    &every_kernel::EveryKernel,
    &isolation::Isolation,
    &scaling::Scaling,
    &preemption::Preemption,
    &disb::Disb,
    &padding::Padding,
    &cold_start::ColdStart,
    &prediction::Prediction,
    &cudnn::Cudnn,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// All of it shall take no longer.
    const SECONDS_MAX: u32 = 8 * 60;

    #[test]
    fn all_steps_together_take_eight_minutes_at_most() {
        let seconds: u32 = ALL.iter().map(|step| step.seconds()).sum();
        assert!(seconds <= SECONDS_MAX, "{seconds} s");
    }

    #[test]
    fn what_a_step_needs_stands_before_it() {
        for (index, step) in ALL.iter().enumerate() {
            for need in step.needs() {
                let before = ALL[..index].iter().any(|step| step.name() == *need);
                assert!(before, "{} needs {need}", step.name());
            }
        }
    }

    #[test]
    fn names_of_steps_are_unique() {
        for (index, step) in ALL.iter().enumerate() {
            let same = |other: &&dyn super::super::step::Step| other.name() == step.name();
            assert!(!ALL[..index].iter().any(same), "{}", step.name());
        }
    }
}
