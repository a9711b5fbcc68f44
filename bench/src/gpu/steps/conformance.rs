//! The suite that every device passes, on this GPU.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

use punctual_core::{ActionId, Event, Infer, Instant, ModelId, PartitionId};
use punctual_device::conformance::{Subject, networks, suite};
use punctual_device::{Device, DeviceSpec, InputBuffers, Refusal};
use punctual_device_cuda::driver::{Driver, OpenError};
use punctual_device_cuda::{CudaDevice, CudaSpec, StartError};
use punctual_platform::{Doorbell, clock};

use super::super::result::{Sheet, StepResult};
use super::super::rig;
use super::super::step::{Session, Step, StepError};

pub struct Conformance;

/// Functions of the suite by name. Left out: operators on tokens and on bytes, for which there are no kernels.
const CHECKS: &[(&str, fn())] = &[
    (
        "answers equal the reference",
        suite::answers_equal_the_reference::<OnGpu>,
    ),
    ("survivors of different batches run together", || {
        suite::survivors_run_together_on::<OnGpu>(&networks::tangle(12))
    }),
    (
        "request buffers are used again by other models",
        suite::request_buffers_are_used_again_by_other_models::<OnGpu>,
    ),
    ("windows are honoured", suite::windows_are_honoured::<OnGpu>),
    (
        "preempted actions can be run again",
        suite::preempted_actions_can_be_run_again::<OnGpu>,
    ),
    (
        "actions that do not fit are refused",
        suite::actions_that_do_not_fit_are_refused::<OnGpu>,
    ),
    (
        "a third action is refused",
        suite::a_third_action_is_refused::<OnGpu>,
    ),
    (
        "partitions do not disturb each other",
        suite::partitions_do_not_disturb_each_other::<OnGpu>,
    ),
];

impl Step for Conformance {
    fn name(&self) -> &'static str {
        "conformance"
    }

    fn about(&self) -> &'static str {
        "the suite that every device passes, on this GPU"
    }

    fn seconds(&self) -> u32 {
        30
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let cuda = CudaSpec {
            queue: rig::queue(gpu)?,
            ..rig::cuda_spec(session)
        };
        // The suite's functions take nothing: this process runs one step on one GPU.
        let _ = ON.set((gpu.driver(), cuda));
        let mut sheet = Sheet::new(
            "Functions of the suite",
            &["function", "outcome", "seconds"],
            2,
        );
        let mut failed = 0;
        let checks = session.size(CHECKS, &CHECKS[5..6]);
        for (name, check) in checks {
            let start = clock::now_ns();
            let outcome = quietly(check);
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
        result.note("Left out: operators on tokens and on bytes, which have no CUDA kernels, and paged weights.");
        Ok(result)
    }
}

fn quietly(check: &fn()) -> Option<String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = panic::catch_unwind(AssertUnwindSafe(check));
    panic::set_hook(hook);
    let said = outcome.err()?;
    let text = said.downcast_ref::<String>().cloned();
    let text = text.or_else(|| said.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Some(text.unwrap_or_else(|| "it panics".to_owned()))
}

static ON: OnceLock<(Driver, CudaSpec)> = OnceLock::new();

/// A device on the GPU of the step.
struct OnGpu {
    device: CudaDevice,
    inputs: InputBuffers,
    bell: Arc<Doorbell>,
    seen: u32,
}

impl OnGpu {
    fn begin(spec: &DeviceSpec<'_>) -> Result<Self, StartError> {
        let (driver, cuda) = ON.get().ok_or(StartError::Open(OpenError::NoLibrary))?;
        let bell = Arc::new(Doorbell::new());
        let device = CudaDevice::start(*driver, spec, cuda, bell.clone())?;
        Ok(Self {
            inputs: device.input_buffers(),
            device,
            bell,
            seen: 0,
        })
    }
}

impl Device for OnGpu {
    fn submit(&mut self, infer: &Infer) -> Result<(), Refusal> {
        self.device.submit(infer)
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), Refusal> {
        self.device.load(action, model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), Refusal> {
        self.device.unload(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.device.preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        // Read before looking: an event that comes afterwards ends the next wait.
        self.seen = self.bell.count();
        self.device.poll()
    }
}

impl Subject for OnGpu {
    const COMPUTES: bool = true;
    const TOKENS_AND_BYTES: bool = false;
    /// The logistic function is nowhere steeper than a quarter: two scores that are each off by
    /// the tolerance move the larger probability by half of it at most.
    const CONFIDENCE_TOLERANCE: f32 = Self::SCORE_TOLERANCE / 2.0 + 2e-4;
    /// Halves are off by up to 2^-11 of their size, twice a layer (weights and result), at random; scores of
    /// the suite's networks are of size 4 at most behind at most 20 layers: `4 * sqrt(2 * 20) * 2^-11`.
    const SCORE_TOLERANCE: f32 = 0.0125;

    fn start(spec: &DeviceSpec<'_>) -> Self {
        match Self::begin(spec) {
            Ok(subject) => subject,
            Err(error) => panic!("it does not start: {error}"),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(clock::now_ns())
    }

    fn wait(&mut self, limit: Instant) {
        self.bell.wait(self.seen, Some(limit.as_nanos()));
    }

    fn write_input(&mut self, buffer: u16, model: ModelId, image: &[f32]) {
        let mut writer = self.inputs.claim(buffer, model).expect("a free buffer");
        writer.write_planar(image);
    }
}
