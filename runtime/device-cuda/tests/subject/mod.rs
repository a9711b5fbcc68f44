//! A CUDA device on the emulated driver, as tests start it.
#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;

use emulated_cuda::{Config, Emulator, Outcome};
use punctual_core::{
    ActionId, Answer, Criticality, Event, Infer, Instant, ModelId, Nanos, PartitionId, RequestId,
    StageId, Window,
};
use punctual_device::conformance::{Subject, networks};
use punctual_device::{Device, DeviceSpec, InputBuffers, ModelSpec, PartitionSpec, Refusal};
use punctual_device_cuda::driver::Driver;
use punctual_device_cuda::{CudaDevice, CudaSpec, StartError, Wait, Watchdog};
use punctual_model::Network;
use punctual_platform::{Doorbell, clock};

/// Longer than anything here takes, even on a busy machine.
const STUCK: Nanos = Nanos::from_millis(60_000);

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

/// Batch sizes of the devices that [`Cuda::with`] starts.
pub const BATCHES: [u8; 3] = [1, 2, 4];

/// A device, and what a test needs around it.
pub struct Cuda {
    pub device: CudaDevice,
    pub inputs: InputBuffers,
    pub bell: Arc<Doorbell>,
    seen: u32,
    actions: u64,
    images: Vec<Vec<f32>>,
    /// Last, so that it outlives the device.
    pub emulator: Emulator,
}

impl Cuda {
    /// A device on an emulated machine of its own.
    pub fn on(config: &Config, spec: &DeviceSpec<'_>, cuda: &CudaSpec) -> Self {
        let emulator = Emulator::start(config).expect("the emulated driver beside this test");
        Self::beside(emulator, spec, cuda)
    }

    /// A device on an emulated machine.
    pub fn beside(emulator: Emulator, spec: &DeviceSpec<'_>, cuda: &CudaSpec) -> Self {
        let (device, bell) = begin(spec, cuda).expect("starts");
        Self {
            inputs: device.input_buffers(),
            device,
            bell,
            seen: 0,
            actions: 0,
            images: Vec::new(),
            emulator,
        }
    }

    /// A device for one network, with eight request buffers that have an image each.
    pub fn with(config: &Config, network: &Network, cuda: &CudaSpec, count: usize) -> Self {
        let emulator = Emulator::start(config).expect("the emulated driver beside this test");
        Self::of_network(emulator, network, cuda, count)
    }

    /// As [`with`](Self::with), on an emulated machine that is there.
    pub fn of_network(
        emulator: Emulator,
        network: &Network,
        cuda: &CudaSpec,
        count: usize,
    ) -> Self {
        let spec = DeviceSpec {
            models: &[ModelSpec::resident(network, &BATCHES)],
            partitions: &partitions(count),
            request_buffers: 8,
            cache: None,
        };
        let mut device = Self::beside(emulator, &spec, cuda);
        device.images = (0..8).map(|seed| networks::image(network, seed)).collect();
        for buffer in 0..8 {
            device.write(buffer, u64::from(buffer));
        }
        device
    }

    /// Writes image `image` to a request buffer.
    pub fn write(&mut self, buffer: u16, image: u64) {
        let image = self.images[image as usize].clone();
        self.write_input(buffer, ModelId(0), &image);
    }

    /// A real-time action of model 0 on partition 0, at any time.
    pub fn action(&mut self, stage: u8, buffers: &[u16]) -> Infer {
        self.actions += 1;
        let member = |&buffer: &u16| RequestId {
            buffer,
            generation: 1,
        };
        Infer {
            id: ActionId(self.actions),
            partition: PartitionId(0),
            model: ModelId(0),
            stage: StageId(stage),
            batch: (buffers.len() as u8).next_power_of_two(),
            members: buffers.iter().map(member).collect(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::FAR_FUTURE,
            },
            criticality: Criticality::RealTime,
        }
    }

    pub fn event(&mut self) -> Event {
        let limit = self.now() + STUCK;
        loop {
            if let Some(event) = self.poll() {
                return event;
            }
            assert!(self.now() < limit, "no event");
            self.wait(limit);
        }
    }

    /// Waits until a stage whose launches began with launch `first` has run to its end, and leaves its
    /// event where it is.
    pub fn until_answered(&self, first: u64) {
        self.until("the end of a stage", || {
            let launches = self.emulator.launches_from(first);
            let last = launches.last();
            last.is_some_and(|last| last.kernel == "answers" && last.outcome == Outcome::Done)
        });
    }

    /// Runs an action to its end.
    fn finish(&mut self, infer: &Infer) -> Vec<Answer> {
        self.submit(infer).expect("room");
        match self.event() {
            Event::Finished(finished) => finished.members.to_vec(),
            other => panic!("{other:?} for {infer:?}; {}", self.emulator.complaint()),
        }
    }

    /// Runs a stage as a real-time action.
    pub fn answers(&mut self, stage: u8, buffers: &[u16]) -> Vec<Answer> {
        let infer = self.action(stage, buffers);
        self.finish(&infer)
    }

    /// Runs a stage as a best-effort action.
    pub fn best_effort(&mut self, stage: u8, buffers: &[u16]) -> Vec<Answer> {
        let mut infer = self.action(stage, buffers);
        infer.criticality = Criticality::BestEffort;
        self.finish(&infer)
    }

    /// The stream that partition 0 launched into.
    pub fn stream(&self) -> u64 {
        let launches = self.emulator.launches();
        launches.first().expect("something ran").stream
    }

    pub fn launched(&self) -> u64 {
        let launches = self.emulator.launches();
        launches.last().map_or(0, |launch| launch.number + 1)
    }

    fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let limit = self.now() + STUCK;
        while !done() {
            assert!(self.now() < limit, "{what}");
            std::thread::yield_now();
        }
    }

    /// Waits until so many launches are in the driver that have not ended.
    pub fn until_launched(&self, launches: usize) {
        self.until("launches", || {
            let all = self.emulator.launches();
            let open = [Outcome::Waiting, Outcome::Running];
            all.iter().filter(|l| open.contains(&l.outcome)).count() >= launches
        });
    }

    /// Waits until eviction number `eviction` has come to the device, while `stream` stands still: its
    /// leader is emptying the stream, and no other stream has work left.
    pub fn until_evicted(&self, stream: u64, eviction: u64) {
        let counters = self.device.counters();
        self.until("an eviction", || {
            let streams = self.emulator.streams();
            let mut others = streams.iter().filter(|other| other.stream != stream);
            counters.read().evictions >= eviction && others.all(|other| other.idle)
        });
    }

    /// Waits until the device has been restarted so often.
    pub fn until_restarted(&self, times: u64) {
        let counters = self.device.counters();
        self.until("a restart", || counters.read().restarts == times);
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
