//! The suite that every device passes, on this GPU.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use punctual_conformance::{
    SCORE_TOLERANCE_OF_HALVES, Subject, confidence_tolerance, networks, suite,
};
use punctual_device::DeviceSpec;
use punctual_device_cuda::driver::Driver;
use punctual_device_cuda::{CudaDevice, CudaSpec};
use punctual_platform::{Doorbell, clock};

use super::super::result::{Sheet, StepResult};
use super::super::rig;
use super::super::step::{Session, Step, StepError};

pub struct Conformance;

/// A function of the suite, and its name.
type Check = (&'static str, fn(&OnGpu));

/// Functions of the suite by name. Left out: operators on tokens and on bytes and computed positions, where halves may be
/// rounded to another byte or chosen in another order than the suite's floats; the step `networks` has them.
const CHECKS: &[Check] = &[
    (
        "answers equal the reference",
        suite::answers_equal_the_reference,
    ),
    ("survivors of different batches run together", |gpu| {
        suite::survivors_run_together_on(gpu, &networks::tangle(12))
    }),
    (
        "request buffers are used again by other models",
        suite::request_buffers_are_used_again_by_other_models,
    ),
    ("windows are honoured", suite::windows_are_honoured::<OnGpu>),
    (
        "preempted actions can be run again",
        suite::preempted_actions_can_be_run_again,
    ),
    (
        "actions that do not fit are refused",
        suite::actions_that_do_not_fit_are_refused,
    ),
    (
        "a third action is refused",
        suite::a_third_action_is_refused,
    ),
    (
        "partitions do not disturb each other",
        suite::partitions_do_not_disturb_each_other,
    ),
    ("requests may change partition between stages", |gpu| {
        suite::requests_may_change_partition_on(gpu, &networks::tangle(12))
    }),
];

impl Step for Conformance {
    fn name(&self) -> &'static str {
        "conformance"
    }

    fn about(&self) -> &'static str {
        "the suite that every device passes, on this GPU"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let cuda = CudaSpec {
            queue: rig::queue(gpu)?,
            ..rig::cuda_spec(session)
        };
        let gpu = OnGpu {
            driver: gpu.driver(),
            cuda,
        };
        let mut sheet = Sheet::new(
            "Functions of the suite",
            &["function", "outcome", "seconds"],
            2,
        );
        let mut failed = 0;
        let checks = session.size(CHECKS, &CHECKS[5..6]);
        for (name, check) in checks {
            let start = clock::now_ns();
            let outcome = quietly(|| check(&gpu));
            let seconds = (clock::now_ns() - start) as f64 / 1e9;
            failed += usize::from(outcome.is_some());
            let outcome = outcome.unwrap_or_else(|| "passes".to_owned());
            sheet.row([(*name).to_owned(), outcome, format!("{seconds:.1}")]);
        }
        let mut result = StepResult::default();
        result.figure("conformance", "", failed as f64);
        result.tables.push(sheet);
        if checks.len() < CHECKS.len() {
            result.note("Only the quickest functions: sizes are tiny.");
        }
        result.note("Left out: operators on tokens and on bytes and computed positions, which the step `networks` has, and paged weights.");
        Ok(result)
    }
}

fn quietly(check: impl FnOnce()) -> Option<String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = panic::catch_unwind(AssertUnwindSafe(check));
    panic::set_hook(hook);
    let said = outcome.err()?;
    let text = said.downcast_ref::<String>().cloned();
    let text = text.or_else(|| said.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Some(text.unwrap_or_else(|| "it panics".to_owned()))
}

/// Starts devices on the GPU of the step.
struct OnGpu {
    driver: Driver,
    cuda: CudaSpec,
}

impl Subject for OnGpu {
    type Device = CudaDevice;

    /// Where halves replace floats, a value between two bytes may be rounded to the other: a whole step, more than the
    /// suite allows.
    const TOKENS_AND_BYTES: bool = false;
    /// Halves may be equal, or in another order, where floats are not, so that other positions are chosen.
    const ARITHMETIC: bool = false;
    const CONFIDENCE_TOLERANCE: f32 = confidence_tolerance(Self::SCORE_TOLERANCE);
    const SCORE_TOLERANCE: f32 = SCORE_TOLERANCE_OF_HALVES;

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> CudaDevice {
        match CudaDevice::start(self.driver, spec, &self.cuda, bell) {
            Ok(device) => device,
            Err(error) => panic!("it does not start: {error}"),
        }
    }
}
