//! A CUDA device on the emulated driver, as tests start it.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use emulated_cuda::{Config, Emulator, Outcome, REFUSED, is_real};
use punctual_conformance::{
    SCORE_TOLERANCE_OF_HALVES, Subject, Testable, confidence_tolerance, networks,
};
use punctual_core::{
    ActionId, Answer, Criticality, Event, Infer, Instant, ModelId, Nanos, PartitionId, RequestId,
    StageId, Window,
};
use punctual_device::pool::Wait;
use punctual_device::{
    Device, DeviceSpec, HostedDevice, InputBuffers, ModelSpec, PartitionSpec, Shell, Start,
};
use punctual_device_cuda::driver::{Code, Driver, Gpu};
use punctual_device_cuda::host::Host;
use punctual_device_cuda::partition::offer::{self, How, Offer};
use punctual_device_cuda::partition::record;
use punctual_device_cuda::partition::{Mechanism, Refusal, Trial};
use punctual_device_cuda::{Counts, CudaDevice, CudaSpec, Loss, StartError, Watchdog};
use punctual_model::Network;
use punctual_platform::Doorbell;

/// Longer than anything here takes, even on a busy machine.
const STUCK: Nanos = Nanos::from_millis(60_000);

/// A failed assertion of a kernel: an error after which a reset of the context helps.
pub const ASSERT: Code = Code(710);

/// A page of tests: small, so that networks have several.
pub const PAGE_BYTES: u32 = 128 << 10;

/// How tests start devices, where they do not say otherwise. Leaders nap, as the emulated device runs
/// on the same cores.
pub fn cuda() -> CudaSpec {
    CudaSpec {
        page_bytes: PAGE_BYTES,
        wait: Wait::Sleep { ns: 100_000 },
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
    actions: u64,
    images: Vec<Vec<f32>>,
    /// Last, so that it outlives the device.
    pub emulator: Emulator,
}

impl Cuda {
    /// A device on an emulated machine of its own.
    pub fn on(config: &Config, spec: &DeviceSpec<'_>, cuda: &CudaSpec) -> Self {
        let emulator = Emulator::start(config).expect("the emulated driver beside this test");
        Self::beside(emulator, spec, cuda, Arc::new(Doorbell::new()))
    }

    /// A device on an emulated machine.
    pub fn beside(
        emulator: Emulator,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        bell: Arc<Doorbell>,
    ) -> Self {
        let device = begin(spec, cuda, bell.clone()).expect("starts");
        Self {
            inputs: device.shell().input_buffers(),
            device,
            bell,
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
        Self::on_partitions(emulator, network, cuda, &partitions(count))
    }

    /// The same with these partitions.
    pub fn on_partitions(
        emulator: Emulator,
        network: &Network,
        cuda: &CudaSpec,
        partitions: &[PartitionSpec],
    ) -> Self {
        let spec = DeviceSpec {
            models: &[ModelSpec::resident(network, &BATCHES)],
            partitions,
            request_buffers: 8,
            cache: None,
            start: Start::Whole,
        };
        let mut device = Self::beside(emulator, &spec, cuda, Arc::new(Doorbell::new()));
        device.give_images(network);
        device
    }

    /// An image of this network, of model 0, in each of eight request buffers.
    pub fn give_images(&mut self, network: &Network) {
        self.images = (0..8).map(|seed| networks::image(network, seed)).collect();
        for buffer in 0..8 {
            self.write(buffer, u64::from(buffer));
        }
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
            // Read before looking: an event that comes afterwards ends the wait.
            let seen = self.bell.count();
            if let Some(event) = self.poll() {
                return event;
            }
            assert!(self.now() < limit, "no event");
            self.bell.wait(seen, Some(limit.as_nanos()));
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

    /// Waits until at least `launches` launches are in the driver that have not ended.
    pub fn until_launched(&self, launches: usize) {
        self.until("launches", || {
            let all = self.emulator.launches();
            let open = [Outcome::Waiting, Outcome::Running];
            all.iter().filter(|l| open.contains(&l.outcome)).count() >= launches
        });
    }

    /// Waits until at least `streams` streams have launches in the driver that have not ended, from launch `first` on.
    pub fn until_launched_on(&self, streams: usize, first: u64) {
        self.until("launches", || {
            let launches = self.emulator.launches_from(first).into_iter();
            let open =
                launches.filter(|l| [Outcome::Waiting, Outcome::Running].contains(&l.outcome));
            let on: BTreeSet<u64> = open.map(|launch| launch.stream).collect();
            on.len() >= streams
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

    /// Waits until the device has counted what `done` says.
    pub fn until_counted(&self, what: &str, done: impl Fn(&Counts) -> bool) {
        let counters = self.device.counters();
        self.until(what, || done(&counters.read()));
    }

    /// Waits until everything that was asked of a stream is done.
    pub fn until_idle(&self, stream: u64) {
        self.until("the end of all launches", || {
            let streams = self.emulator.streams();
            streams
                .iter()
                .any(|state| state.stream == stream && state.idle)
        });
    }

    /// Waits until the device has been restarted so often.
    pub fn until_restarted(&self, times: u64) {
        let counters = self.device.counters();
        self.until("a restart", || counters.read().restarts == times);
    }

    /// Waits until the device is lost.
    pub fn until_lost(&self) -> Loss {
        let watch = self.device.loss_watch();
        self.until("a loss", || watch.loss().is_some());
        watch.loss().expect("for good")
    }
}

/// A device on the emulator that is there.
pub fn begin(
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
    bell: Arc<Doorbell>,
) -> Result<CudaDevice, StartError> {
    CudaDevice::start(Driver::open()?, spec, cuda, bell)
}

/// What the emulated device of `config` offers, once it is on record in a folder of the test's name that `mechanism` does
/// what it should, as `punctual board detect` would find out.
pub fn offer(test: &str, config: &Config, mechanism: Mechanism) -> Offer {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    let how = How {
        host: Host::at(&folder),
        order: vec![mechanism],
        ..How::usual(None, Some(folder.clone())).expect("no mechanisms are named")
    };
    let facts = offer::look(gpu(), 0, &how).expect("a device").facts;
    let key = facts.key(mechanism, &how);
    assert!(is_real() || facts.compute_capability == config.compute);
    let trial = Trial {
        mechanism,
        device: 0,
        version: facts.version,
        compute_capability: facts.compute_capability,
        libsmctrl: OsString::from("libsmctrl-that-is-not-there.so"),
        place: None,
    };
    let outcome = trial.run();
    if let (true, Err(unknown @ Refusal::UnknownDriver { .. })) = (is_real(), &outcome) {
        panic!("{REFUSED} needs masks: {unknown}");
    }
    record::write(&folder, &key, &outcome).expect("a folder that can be written");
    let offer = offer::look(gpu(), 0, &how).expect("a device");
    assert_eq!(offer.mechanism(), mechanism);
    offer
}

/// The device of the emulated driver that is there.
pub fn gpu() -> Gpu {
    let driver = Driver::open().expect("the emulated driver");
    driver.device(0).expect("a device")
}

/// Partitions with a leader each, at ordinary priority: a test must not need privileges.
pub fn partitions(count: usize) -> Vec<PartitionSpec> {
    let partition =
        |index: usize| PartitionSpec::on_cores(format!("p{index}"), vec![index % 2], None);
    (0..count).map(partition).collect()
}

impl HostedDevice for Cuda {
    fn shell(&self) -> &Shell {
        self.device.shell()
    }

    fn shell_mut(&mut self) -> &mut Shell {
        self.device.shell_mut()
    }

    fn name(&self) -> String {
        self.device.name()
    }
}

/// Starts devices on emulated machines of their own.
pub struct Emulated;

impl Subject for Emulated {
    type Device = Cuda;

    /// Tests of their own compare these: where halves replace floats, a value between two bytes may be rounded a step
    /// away.
    const TOKENS_AND_BYTES: bool = false;
    /// Likewise: halves may be equal, or in another order, where floats are not, so that other positions are chosen.
    const ARITHMETIC: bool = false;
    const CONFIDENCE_TOLERANCE: f32 = confidence_tolerance(Self::SCORE_TOLERANCE);
    const SCORE_TOLERANCE: f32 = SCORE_TOLERANCE_OF_HALVES;

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> Cuda {
        let emulator =
            Emulator::start(&Config::default()).expect("the emulated driver beside this test");
        Cuda::beside(emulator, spec, &cuda(), bell)
    }
}
