//! A CUDA device on the emulated driver, as tests start it.
#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;

use emulated_cuda::{Config, Emulator};
use punctual_core::{ActionId, Event, Infer, Instant, ModelId, PartitionId};
use punctual_device::conformance::Subject;
use punctual_device::{Device, DeviceSpec, InputBuffers, PartitionSpec, Refusal};
use punctual_device_cuda::driver::Driver;
use punctual_device_cuda::{CudaDevice, CudaSpec, StartError, Wait, Watchdog};
use punctual_platform::{Doorbell, clock};

/// A page of tests: small, so that networks have several.
pub const PAGE_BYTES: u32 = 128 << 10;

/// How tests start devices, where they do not say otherwise. Leaders nap, as the emulated device runs
/// on the same cores.
pub fn cuda() -> CudaSpec {
    CudaSpec {
        page_bytes: PAGE_BYTES,
        wait: Wait::Nap { ns: 100_000 },
        watchdog: Watchdog {
            unknown_ns: 20_000_000_000,
            grace_ns: 20_000_000_000,
            ..Watchdog::default()
        },
        ..CudaSpec::default()
    }
}

/// A device, and what a test needs around it.
pub struct Cuda {
    pub device: CudaDevice,
    pub inputs: InputBuffers,
    pub bell: Arc<Doorbell>,
    seen: u32,
    /// Last, so that it outlives the device.
    pub emulator: Emulator,
}

impl Cuda {
    /// A device on an emulated machine of its own.
    pub fn on(config: &Config, spec: &DeviceSpec<'_>, cuda: &CudaSpec) -> Self {
        let emulator = Emulator::start(config).expect("the emulated driver beside this test");
        let (device, bell) = begin(spec, cuda).expect("starts");
        Self {
            inputs: device.input_buffers(),
            device,
            bell,
            seen: 0,
            emulator,
        }
    }
}

/// A device on the emulator that is there.
pub fn begin(
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
) -> Result<(CudaDevice, Arc<Doorbell>), StartError> {
    let bell = Arc::new(Doorbell::new());
    let device = CudaDevice::start(Driver::open()?, spec, cuda, bell.clone())?;
    Ok((device, bell))
}

/// Partitions with a leader each, at ordinary priority: a test must not need privileges.
pub fn partitions(count: usize) -> Vec<PartitionSpec> {
    let partition = |index: usize| PartitionSpec {
        name: format!("p{index}"),
        cores: vec![index % 2],
        priority: None,
    };
    (0..count).map(partition).collect()
}

impl Device for Cuda {
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

impl Subject for Cuda {
    const COMPUTES: bool = true;
    const TOKENS_AND_BYTES: bool = false;
    /// Between two classes, a difference of scores that is wrong by `2 s` moves the larger probability by
    /// `s / 2` at most, as the logistic function is nowhere steeper than a quarter.
    const CONFIDENCE_TOLERANCE: f32 = Self::SCORE_TOLERANCE / 2.0 + 2e-4;
    /// Halves are off by up to 2^-11 of their size. Each layer rounds its weights and its result, so a
    /// layer adds up to two such errors, and one in `sqrt(2)` of that where they fall at random; scores
    /// of the suite's networks are of size 4 at most and lie behind at most 20 layers:
    /// `4 * sqrt(20) * sqrt(2) * 2^-11 = 0.012`.
    const SCORE_TOLERANCE: f32 = 0.0125;

    fn start(spec: &DeviceSpec<'_>) -> Self {
        Self::on(&Config::default(), spec, &cuda())
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
