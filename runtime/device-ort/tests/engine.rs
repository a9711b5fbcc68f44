//! Engines on the GPU, by the emulated driver and ONNX Runtime's CPU provider. The emulated driver's device memory is memory that
//! cores can use: sessions are bound in it and queued as on a GPU, and run on cores when the stream has come so far. What
//! providers would be told is recorded.
//!
//! Left out, with the reason: everything about weights that come and go, and operators on tokens and on bytes, as on cores;
//! preemption within a stage, which runs to its end.
#![allow(
    unsafe_code,
    reason = "the stand-in promises what sessions take on trust"
)]

mod both;
#[path = "../../device-cuda/tests/subject/mod.rs"]
mod subject;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use emulated_cuda::{After, Config, Emulator, REFUSED, is_real};
use libsmctrl_sys::{CudaVersion, DriverKey, Soc, stream_mask};
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::builder::SessionBuilder;
use ort::session::{IoBinding, RunOptions, Session};
use punctual_conformance::{Subject, Testable, networks, suite};
use punctual_core::{ActionId, Criticality, Event, Infer, Instant, ModelId, Nanos};
use punctual_core::{PartitionId, RequestId, StageId, Window};
use punctual_device::pool::Wait;
use punctual_device::{Device, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Shell, Start};
use punctual_device_cuda::driver::{Code, Driver, Stream};
use punctual_device_cuda::partition::Mechanism;
use punctual_device_cuda::{DeviceError, Division, Loss, Watchdog};
use punctual_device_ort::StartError;
use punctual_device_ort::gpu::{
    BroughtEngines, EngineDevice, EngineSpec, Execution, GpuEngine, QueueError, SessionSetup,
    StageToBuild,
};
use punctual_platform::Doorbell;

use both::{conforms, is_there, library};

/// Longer than anything here takes, even on a busy machine.
const STUCK: Nanos = Nanos::from_millis(60_000);

/// In the place of the GPU's providers.
#[derive(Default)]
struct OnCores {
    /// By session.
    setups: Mutex<Vec<SessionSetup>>,
    /// Whether the next run fails.
    fails: AtomicBool,
}

// SAFETY: the emulated driver's device memory is ordinary memory at the same addresses, and a session runs when all that was
// queued before it is over, to its end.
unsafe impl Execution for OnCores {
    fn prepare(
        &self,
        builder: SessionBuilder,
        setup: &SessionSetup,
    ) -> ort::Result<SessionBuilder> {
        let mut setups = self.setups.lock().expect("no test panics with it");
        setups.push(setup.clone());
        Ok(builder)
    }

    fn memory(&self) -> ort::Result<MemoryInfo<'static>> {
        let device = AllocationDevice::CPU;
        MemoryInfo::new(device, 0, AllocatorType::Device, MemoryType::Default)
    }

    fn queue(
        &self,
        session: &mut Session,
        binding: &IoBinding,
        options: &RunOptions,
        stream: &Stream,
    ) -> Result<(), QueueError> {
        // Relaxed: set while no stage runs, and published by the action that follows.
        if self.fails.swap(false, Ordering::Relaxed) {
            return Err(ort::Error::new("a run that fails").into());
        }
        stream.synchronize()?;
        session.run_binding_with_options(binding, options)?;
        Ok(())
    }
}

/// A device, and what a test needs around it.
struct Engine {
    device: EngineDevice,
    execution: Arc<OnCores>,
    bell: Arc<Doorbell>,
    actions: u64,
    /// Last, so that it outlives the device.
    emulator: Emulator,
}

impl HostedDevice for Engine {
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

/// How tests start devices, where they do not say otherwise. Leaders nap, as the emulated device runs on the same cores.
fn engine(kind: GpuEngine, execution: Arc<OnCores>) -> EngineSpec {
    let driver = Driver::open().expect("the emulated driver");
    EngineSpec {
        gpu: driver.device(0).expect("a device"),
        ordinal: 0,
        division: Division::Whole,
        engine: kind,
        cache: PathBuf::from("/cache"),
        brought: None,
        watchdog: Watchdog {
            unknown_ns: 20_000_000_000,
            ..Watchdog::default()
        },
        wait: Wait::Sleep { ns: 100_000 },
        execution,
    }
}

impl Engine {
    fn start(
        kind: GpuEngine,
        spec: &DeviceSpec<'_>,
        bell: Arc<Doorbell>,
        change: impl FnOnce(&mut EngineSpec),
    ) -> Result<Self, StartError> {
        // Cores cannot use the memory of a real device.
        assert!(!is_real(), "{REFUSED} runs sessions on cores");
        let config = Config::default();
        let emulator = Emulator::start(&config).expect("the emulated driver beside this test");
        let execution = Arc::new(OnCores::default());
        let mut engine = engine(kind, execution.clone());
        change(&mut engine);
        Ok(Self {
            device: EngineDevice::start(library(), spec, &engine, bell.clone())?,
            execution,
            bell,
            actions: 0,
            emulator,
        })
    }

    /// A best-effort action of model 0 on partition 0, at any time, for request buffer 0.
    fn submit(&mut self) -> ActionId {
        self.actions += 1;
        let (buffer, generation) = (0, 1);
        let infer = Infer {
            id: ActionId(self.actions),
            partition: PartitionId(0),
            model: ModelId(0),
            stage: StageId(0),
            batch: 1,
            members: [RequestId { buffer, generation }].into_iter().collect(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::FAR_FUTURE,
            },
            criticality: Criticality::BestEffort,
        };
        Device::submit(self, &infer).expect("room");
        infer.id
    }

    fn event(&mut self) -> Event {
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

    /// The stream of partition 0.
    fn stream(&self) -> u64 {
        self.execution.setups.lock().expect("no test panics")[0].stream
    }

    /// Begins an action whose inputs are brought, and whose results are not.
    fn submit_held(&mut self) -> ActionId {
        let stream = self.stream();
        self.emulator.hold(stream, After::Commands(1));
        let action = self.submit();
        self.emulator.wait_until_held(stream);
        action
    }
}

struct Engines;

impl Subject for Engines {
    type Device = Engine;

    const TOKENS_AND_BYTES: bool = false;

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> Engine {
        Engine::start(GpuEngine::Cuda, spec, bell, |_| {}).expect("starts")
    }
}

conforms!(
    Engines,
    answers_equal_the_reference,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    partitions_do_not_disturb_each_other,
);

#[test]
fn survivors_of_different_batches_run_together() {
    both::survivors_of_different_batches_run_together(&Engines);
}

#[test]
fn requests_may_change_partition_between_stages() {
    if is_there() {
        suite::requests_may_change_partition_on(&Engines, &networks::residual(18));
    }
}

/// What reductions on cores give a later stage comes to the device with the next stage's inputs.
#[test]
fn what_reductions_give_is_carried_to_later_stages() {
    both::what_reductions_give_is_carried_to_later_stages(&Engines);
}

fn partition() -> PartitionSpec {
    PartitionSpec::on_cores("engine", vec![0], None)
}

#[test]
fn each_stage_and_batch_size_has_a_session_on_the_partitions_stream() {
    if !is_there() {
        return;
    }
    let network = networks::residual(5);
    let batches = [1, 2, 4];
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &batches)],
        partitions: &[partition(), partition()],
        request_buffers: 4,
        cache: None,
        start: Start::Whole,
    };
    let bell = Arc::new(Doorbell::new());
    let engine = Engine::start(GpuEngine::Tensorrt, &spec, bell, |_| {}).expect("starts");
    let setups = engine.execution.setups.lock().expect("no test panics");
    let of_a_partition = network.stages.len() * batches.len();
    assert_eq!(setups.len(), 2 * of_a_partition);
    let (first, second) = setups.split_at(of_a_partition);
    for (setups, other) in [(first, second), (second, first)] {
        // Each is what was asked for, on one stream, which is not that of the other partition.
        let expected = GpuEngine::Tensorrt.setup(0, setups[0].stream, "/cache".as_ref());
        assert!(setups.iter().all(|setup| *setup == expected), "{setups:?}");
        assert_ne!(setups[0].stream, other[0].stream);
    }
    let streams: Vec<u64> = engine.emulator.streams().iter().map(|s| s.stream).collect();
    for setup in [&first[0], &second[0]] {
        assert!(streams.contains(&setup.stream), "{streams:?}");
    }
}

/// On TPCs, with a leader of its own.
fn on_tpcs(tpcs: std::ops::Range<u16>, leader: usize) -> PartitionSpec {
    PartitionSpec {
        tpcs,
        ..PartitionSpec::on_cores("engine", vec![leader], None)
    }
}

/// Whatever is launched into a stream has its mask; of green contexts the driver says the same.
#[test]
fn sessions_run_on_streams_that_are_kept_to_their_partitions_tpcs() {
    if !is_there() {
        return;
    }
    let network = networks::residual(5);
    let partitions = [on_tpcs(0..2, 0), on_tpcs(2..8, 1)];
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &[1])],
        partitions: &partitions,
        request_buffers: 4,
        cache: None,
        start: Start::Whole,
    };
    // The emulated driver is that of an Orin.
    let key = DriverKey::here(CudaVersion::new(12, 6), Some(Soc::Orin)).expect("a known processor");
    let place = stream_mask::find(key).expect("a known driver").place();
    for mechanism in [Mechanism::StreamMask, Mechanism::GreenContexts] {
        let bell = Arc::new(Doorbell::new());
        let mut engine = Engine::start(GpuEngine::Cuda, &spec, bell, |engine| {
            let offer = subject::offer("engine", &Config::default(), mechanism);
            engine.division = Division::Tpcs {
                partitioner: Arc::new(offer.partitioner(engine.gpu).expect("it works here")),
                ranges: partitions.iter().map(|each| each.tpcs.clone()).collect(),
            };
        })
        .expect("starts");
        if mechanism == Mechanism::StreamMask {
            let setups = engine.execution.setups.lock().expect("no test panics");
            let of_a_partition = network.stages.len();
            for (partition, setups) in partitions.iter().zip(setups.chunks(of_a_partition)) {
                let stream = setups[0].stream as usize as *mut std::ffi::c_void;
                // SAFETY: the stream of a device that is there, and the place where its driver has masks.
                let mask = unsafe { stream_mask::read(stream, place) };
                let tpcs = 0..8_u16;
                let enabled: Vec<u16> = tpcs.filter(|tpc| mask.enables(u32::from(*tpc))).collect();
                assert_eq!(enabled, partition.tpcs.clone().collect::<Vec<_>>());
            }
        }
        engine.write_input(0, ModelId(0), &networks::image(&network, 1));
        let action = engine.submit();
        let event = engine.event();
        assert!(answered(&event, action), "{mechanism}: {event:?}");
    }
}

/// A device for one request at a time, whose input is there.
fn of_one(change: impl FnOnce(&mut EngineSpec)) -> Engine {
    let network = networks::residual(5);
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &[1])],
        partitions: &[partition()],
        request_buffers: 1,
        cache: None,
        start: Start::Whole,
    };
    let bell = Arc::new(Doorbell::new());
    let mut engine = Engine::start(GpuEngine::Cuda, &spec, bell, change).expect("starts");
    engine.write_input(0, ModelId(0), &networks::image(&network, 1));
    engine
}

fn answered(event: &Event, action: ActionId) -> bool {
    matches!(event, Event::Finished(finished) if finished.action == action)
}

#[test]
fn a_stage_that_has_begun_is_not_stopped() {
    if !is_there() {
        return;
    }
    let mut engine = of_one(|_| {});
    let action = engine.submit_held();
    engine.preempt(PartitionId(0), action);
    let stream = engine.stream();
    engine.emulator.go_on(stream);
    let event = engine.event();
    assert!(answered(&event, action), "{event:?}");
}

#[test]
fn a_stage_that_does_not_end_loses_the_device_and_says_which_it_was() {
    if !is_there() {
        return;
    }
    let limit_ns = 50_000_000;
    let mut engine = of_one(|engine| engine.watchdog.unknown_ns = limit_ns);
    let action = engine.submit_held();
    assert_eq!(engine.event(), Event::Failed { action });
    let lost = engine.device.loss_watch().loss();
    let expected = Loss::Unstoppable {
        model: 0,
        stage: 0,
        limit_ns,
    };
    assert_eq!(lost, Some(expected));
    let action = engine.submit();
    assert_eq!(engine.event(), Event::Failed { action });
    engine.emulator.go_on_all();
}

#[test]
fn a_run_that_the_library_refuses_fails_and_the_next_one_is_as_ever() {
    if !is_there() {
        return;
    }
    let mut engine = of_one(|_| {});
    // Relaxed: see `OnCores::queue`.
    engine.execution.fails.store(true, Ordering::Relaxed);
    let action = engine.submit();
    assert_eq!(engine.event(), Event::Failed { action });
    assert_eq!(engine.device.loss_watch().loss(), None);
    let action = engine.submit();
    let event = engine.event();
    assert!(answered(&event, action), "{event:?}");
}

#[test]
fn an_error_that_asks_for_the_end_of_the_process_loses_the_device() {
    if !is_there() {
        return;
    }
    let mut engine = of_one(|_| {});
    let lost = Code::ILLEGAL_ADDRESS;
    engine.emulator.fail_call("cuMemcpyDtoHAsync_v2", 0, lost.0);
    let action = engine.submit();
    assert_eq!(engine.event(), Event::Failed { action });
    let Some(Loss::Fault(DeviceError::Driver(error))) = engine.device.loss_watch().loss() else {
        panic!("another loss");
    };
    assert_eq!(error.code, lost);
}

/// The library for cores knows the node, and has nothing to run it with: it is TensorRT's.
#[test]
fn an_engine_that_was_brought_is_handed_to_the_library_as_a_context_of_its_provider() {
    if !is_there() {
        return;
    }
    let network = networks::residual(3);
    let folder = std::env::temp_dir().join(format!("punctual-brought-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for stage in 0..network.stages.len() {
        let stage = StageToBuild::new(&network, stage, 1).expect("it can be written");
        let path = folder.join(format!("{}.engine", stage.name));
        std::fs::write(path, b"no engine at all").expect("a file");
    }
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &[1])],
        partitions: &[partition()],
        request_buffers: 1,
        cache: None,
        start: Start::Whole,
    };
    let brought = BroughtEngines::read(&folder).expect("a folder");
    let bell = Arc::new(Doorbell::new());
    let started = Engine::start(GpuEngine::Tensorrt, &spec, bell, |engine| {
        engine.brought = Some(Arc::new(brought));
    });
    let refused = started.err().expect("nothing runs it here").to_string();
    assert!(refused.contains("EPContext"), "{refused}");
}

#[test]
fn paged_weights_are_refused_with_the_models_name() {
    both::paged_weights_are_refused_with_the_models_name(|spec| {
        Engine::start(GpuEngine::Cuda, spec, Arc::new(Doorbell::new()), |_| {}).err()
    });
}
