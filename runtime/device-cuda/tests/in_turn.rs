//! A device that starts in turn: stages are served as soon as they are there, by general kernels until those that were
//! chosen for them are loaded.

mod subject;

use std::num::NonZeroU32;
use std::sync::Arc;

use emulated_cuda::{Config, Emulator};
use punctual_conformance::{Subject, conforms, networks, suite};
use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId, Readiness, RequestId,
    StageId, Window,
};
use punctual_device::{
    CacheSpec, Device, DeviceSpec, HostedDevice, LoadRate, ModelSpec, Start, StartStep, SubmitError,
};
use punctual_device_cuda::driver::Driver;
use punctual_device_cuda::{InTurnError, Next, SteppedDevice};
use punctual_model::{Network, reference};
use punctual_platform::Doorbell;
use punctual_platform::clock::Clock;
use subject::{ASSERT, BATCHES, Cuda, Emulated, cuda, partitions};

const LOAD_MODULE: &str = "cuModuleLoadData";
const COPY: &str = "cuMemcpyHtoDAsync_v2";
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: u32 = 2;

/// The suite on a device that started in turn and has come to the end of it.
struct InTurn;

impl Subject for InTurn {
    type Device = Cuda;

    const TOKENS_AND_BYTES: bool = Emulated::TOKENS_AND_BYTES;
    const ARITHMETIC: bool = Emulated::ARITHMETIC;
    const CONFIDENCE_TOLERANCE: f32 = Emulated::CONFIDENCE_TOLERANCE;
    const SCORE_TOLERANCE: f32 = Emulated::SCORE_TOLERANCE;

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> Cuda {
        let emulator = Emulator::start(&Config::default()).expect("the emulated driver");
        let spec = DeviceSpec {
            start: Start::in_turn(&[]),
            ..*spec
        };
        let mut device = Cuda::beside(emulator, &spec, &cuda(), bell);
        let networks = spec.models.iter().map(|model| model.network);
        until_measured(&mut device, &networks.collect::<Vec<_>>());
        device
    }
}

conforms!(InTurn =>
    answers_equal_the_reference,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    weights_come_and_go,
    loads_that_do_not_fit_are_refused,
    weights_in_use_stay,
    partitions_do_not_disturb_each_other,
);

#[test]
fn requests_may_change_partition_between_stages() {
    suite::requests_may_change_partition_on(&InTurn, &networks::tangle(18));
}

/// A device of these networks that starts by these steps, with an image in each request buffer; the first network has
/// the numbers.
fn start(emulator: Emulator, networks: &[&Network], steps: &[StartStep]) -> Cuda {
    let models = networks
        .iter()
        .map(|network| ModelSpec::resident(network, &BATCHES));
    let models: Vec<ModelSpec<'_>> = models.collect();
    let spec = DeviceSpec {
        models: &models,
        partitions: &partitions(1),
        request_buffers: 8,
        cache: None,
        start: Start::in_turn(steps),
    };
    let mut device = Cuda::beside(emulator, &spec, &cuda(), Arc::new(Doorbell::new()));
    device.give_images(networks[0]);
    device
}

fn emulator() -> Emulator {
    Emulator::start(&Config::default()).expect("the emulated driver")
}

fn readiness(device: &mut Cuda) -> Readiness {
    match device.event() {
        Event::Readiness(readiness) => readiness,
        other => panic!("{other:?}"),
    }
}

/// Follows readiness until all stages of all networks run as they were measured; what was said.
fn until_measured(device: &mut Cuda, networks: &[&Network]) -> Vec<Readiness> {
    let mut said: Vec<Readiness> = Vec::new();
    let is_there = |said: &[Readiness], model: usize| {
        let of = said.iter().rfind(|of| of.model.index() == model);
        of.is_some_and(|of| {
            of.as_measured && usize::from(of.stages) == networks[model].stages.len()
        })
    };
    while !(0..networks.len()).all(|model| is_there(&said, model)) {
        said.push(readiness(device));
    }
    said
}

/// The answer of the first stage for the image of request buffer 0, which must be right.
fn answer(device: &mut Cuda, network: &Network) {
    let answers = device.answers(0, &[0]);
    let scores = &reference::run(network, &networks::image(network, 0))[0];
    let (class, _) = reference::classify(scores);
    // Two classes may score the same within what halves tell apart.
    let behind = scores[class] - scores[usize::from(answers[0].class)];
    assert!(behind < 0.05, "{behind}");
}

fn tiles(device: &Cuda) -> usize {
    let launches = device.emulator.launches();
    let tile = |kernel: &str| kernel.starts_with("conv_gemm");
    launches.iter().filter(|each| tile(&each.kernel)).count()
}

#[test]
fn nothing_is_there_first_and_then_stage_after_stage_in_the_order_of_the_steps() {
    let (first, second) = (networks::residual(4), networks::tangle(12));
    let step = |model, stages| StartStep {
        model: ModelId(model),
        stages,
    };
    let mut device = start(emulator(), &[&first, &second], &[step(1, 1), step(0, 9)]);
    let said = until_measured(&mut device, &[&first, &second]);
    let nothing: Vec<_> = said[..2].iter().map(|of| (of.model.0, of.stages)).collect();
    assert_eq!(nothing, [(0, 0), (1, 0)]);
    let position = |model: u16, stages: u8| {
        let found = said
            .iter()
            .position(|of| of.model.0 == model && of.stages >= stages);
        found.expect("it was said")
    };
    let all = |network: &Network| network.stages.len() as u8;
    assert!(position(1, 1) < position(0, all(&first)), "{said:?}");
    assert!(
        position(0, all(&first)) < position(1, all(&second)),
        "{said:?}"
    );
    for model in [ModelId(0), ModelId(1)] {
        let stages = said
            .iter()
            .filter(|of| of.model == model)
            .map(|of| of.stages);
        assert!(stages.is_sorted(), "{said:?}");
    }
    answer(&mut device, &first);
}

#[test]
fn a_stage_that_is_not_there_is_refused_and_runs_when_it_is_said_to_be_there() {
    let network = networks::residual(4);
    let emulator = emulator();
    // Its weights stay on their way.
    let mut device = start(emulator, &[&network], &[]);
    let infer = device.action(0, &[0]);
    loop {
        let refused = device.submit(&infer);
        let (model, stage) = (infer.model, infer.stage);
        match refused {
            Err(error) => assert_eq!(error, SubmitError::StageNotReady { model, stage }),
            Ok(()) => break,
        }
    }
    while !matches!(device.event(), Event::Finished(_)) {}
}

/// A device that the test carries on, step by step, and the readiness that it said last.
struct Steps {
    device: SteppedDevice,
    said: Vec<Readiness>,
    _emulator: Emulator,
}

impl Steps {
    fn new(network: &Network) -> Self {
        Self::at_rate(network, None)
    }

    fn at_rate(network: &Network, rate: Option<LoadRate>) -> Self {
        let emulator = emulator();
        let spec = DeviceSpec {
            models: &[ModelSpec::resident(network, &BATCHES)],
            partitions: &partitions(1),
            request_buffers: 8,
            cache: None,
            start: Start::InTurn { steps: &[], rate },
        };
        let driver = Driver::open().expect("the emulated driver");
        let device = SteppedDevice::start(driver, &spec, &cuda(), &Clock::Machine);
        Self {
            device: device.expect("starts"),
            said: Vec::new(),
            _emulator: emulator,
        }
    }

    fn load_next(&mut self, at_ms: u64) -> Next {
        let loaded = self
            .device
            .load_next(Instant::from_nanos(1_000_000 * at_ms));
        while let Some(event) = self.device.device_mut().poll() {
            let Event::Readiness(readiness) = event else {
                panic!("{event:?}");
            };
            self.said.push(readiness);
        }
        loaded.expect("everything can be loaded")
    }

    /// Loads until the first stage is there, and has an action of it begin.
    fn until_a_stage_runs(&mut self) {
        while self.said.last().is_none_or(|of| of.stages == 0) {
            assert_eq!(self.load_next(0), Next::Loaded);
        }
        self.begin();
        // Pages are copied at a bounded rate.
        assert_eq!(self.load_next(0), Next::Waits);
    }

    /// The same, and loads what may be loaded meanwhile.
    fn until_pages_are_there_while_a_stage_runs(&mut self) {
        self.until_a_stage_runs();
        for at_ms in 0..500 {
            self.load_next(at_ms);
        }
    }

    /// Has an action begin that does not end before the next look.
    fn begin(&mut self) {
        let infer = Infer {
            id: ActionId(1),
            partition: PartitionId(0),
            model: ModelId(0),
            stage: StageId(0),
            batch: 1,
            members: [RequestId {
                buffer: 0,
                generation: 1,
            }]
            .into_iter()
            .collect(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::FAR_FUTURE,
            },
            criticality: Criticality::RealTime,
        };
        self.device
            .device_mut()
            .submit(&infer)
            .expect("it is there");
        self.device.carry_on();
    }

    fn until_nothing_runs(&mut self) {
        while !matches!(self.device.device_mut().poll(), Some(Event::Finished(_))) {
            self.device.carry_on();
        }
    }
}

#[test]
fn while_a_stage_runs_general_kernels_stay_and_a_gap_brings_the_others() {
    let network = networks::residual(4);
    let mut steps = Steps::new(&network);
    steps.until_pages_are_there_while_a_stage_runs();
    let general = Readiness {
        model: ModelId(0),
        stages: network.stages.len() as u8,
        as_measured: false,
        stays_general: false,
    };
    assert_eq!(steps.said.last(), Some(&general));
    assert_eq!(steps.load_next(900), Next::Waits);
    steps.until_nothing_runs();
    while steps.load_next(900) == Next::Loaded {}
    assert_eq!(steps.load_next(900), Next::Over);
    let measured = Readiness {
        as_measured: true,
        ..general
    };
    assert_eq!(steps.said.last(), Some(&measured));
}

#[test]
fn beside_a_stage_pages_come_at_the_rate_that_is_asked_for() {
    let network = networks::residual(4);
    // A page is due after as many milliseconds as it has thousands of bytes.
    let slow = LoadRate::of_mb_per_s(NonZeroU32::MIN);
    let mut steps = Steps::at_rate(&network, Some(slow));
    steps.until_a_stage_runs();
    let due_ms = (cuda().page_bytes as u64).div_ceil(1_000);
    assert_eq!(steps.load_next(due_ms - 1), Next::Waits);
    assert_eq!(steps.load_next(due_ms), Next::Loaded);
    steps.until_nothing_runs();
}

#[test]
fn a_module_for_which_there_is_no_gap_for_a_second_is_loaded_all_the_same() {
    let network = networks::residual(4);
    let mut steps = Steps::new(&network);
    steps.until_pages_are_there_while_a_stage_runs();
    let mut second = 0;
    while steps.load_next(1_000 * second + 999) == Next::Waits {
        second += 1;
        assert_eq!(steps.load_next(1_000 * second), Next::Loaded);
        // The next one waits as long.
        let next = steps.load_next(1_000 * second);
        assert!(next == Next::Waits || next == Next::Over);
    }
    assert!(second > 0);
    assert!(steps.said.last().is_some_and(|of| of.as_measured));
    steps.until_nothing_runs();
}

#[test]
fn a_module_that_cannot_be_loaded_stays_replaced_and_is_said() {
    let network = networks::residual(4);
    let emulator = emulator();
    // The general module is the first one; no network has more than four others.
    for later in 1..5 {
        emulator.fail_call(LOAD_MODULE, later, OUT_OF_MEMORY);
    }
    let mut device = start(emulator, &[&network], &[]);
    let failures = device.shell_mut().load_failures().expect("not taken yet");
    let failure = failures.recv().expect("it is said");
    assert_eq!((failure.model, failure.stays_general), (ModelId(0), true));
    let reason = failure.reason.downcast_ref().expect("of a start in turn");
    assert!(matches!(reason, InTurnError::Replacement(_)), "{reason}");
    let mut last = readiness(&mut device);
    while usize::from(last.stages) < network.stages.len() {
        last = readiness(&mut device);
    }
    device.until_counted("every module", |counts| {
        counts.not_loaded + counts.loaded_later > 0
    });
    answer(&mut device, &network);
    assert_eq!(tiles(&device), 0);
    assert_eq!(device.device.counters().read().failed, 0);
    while !last.stays_general {
        last = readiness(&mut device);
    }
    assert!(!last.as_measured);
}

#[test]
fn a_model_whose_weights_cannot_be_loaded_stays_as_it_is_and_the_others_go_on() {
    let (first, second) = (networks::residual(4), networks::tangle(12));
    let emulator = emulator();
    emulator.fail_call(COPY, 0, 1);
    let mut device = start(emulator, &[&first, &second], &[]);
    let failures = device.shell_mut().load_failures().expect("not taken yet");
    let failure = failures.recv().expect("it is said");
    assert_eq!((failure.model, failure.stays_general), (ModelId(0), false));
    let mut said = Vec::new();
    let all = second.stages.len() as u8;
    while !said
        .iter()
        .any(|of: &Readiness| of.model.0 == 1 && of.stages == all && of.as_measured)
    {
        said.push(readiness(&mut device));
    }
    assert!(
        said.iter().all(|of| of.model.0 == 1 || of.stages == 0),
        "{said:?}"
    );
}

#[test]
fn after_a_fault_everything_is_there_again_before_anything_is_served() {
    let network = networks::residual(4);
    let mut device = start(emulator(), &[&network], &[]);
    until_measured(&mut device, &[&network]);
    device.emulator.fail_launch(0, ASSERT.0);
    let infer = device.action(0, &[0]);
    device.submit(&infer).expect("it is there");
    assert_eq!(device.event(), Event::Failed { action: infer.id });
    device.until_restarted(1);
    device.write(0, 0);
    answer(&mut device, &network);
    assert!(tiles(&device) > 0);
}

#[test]
fn a_paged_model_is_there_once_its_code_is_and_its_weights_come_by_its_loads() {
    let network = networks::residual(4);
    let paged = ModelSpec {
        paged: true,
        ..ModelSpec::resident(&network, &BATCHES)
    };
    let spec = DeviceSpec {
        models: &[paged],
        partitions: &partitions(1),
        request_buffers: 8,
        cache: Some(CacheSpec {
            pages: 64,
            core: None,
            priority: None,
        }),
        start: Start::in_turn(&[]),
    };
    let mut device = Cuda::beside(emulator(), &spec, &cuda(), Arc::new(Doorbell::new()));
    device.give_images(&network);
    until_measured(&mut device, &[&network]);
    assert_eq!(device.emulator.calls(COPY), 0);
    device.load(ActionId(7), ModelId(0)).expect("it fits");
    assert!(matches!(device.event(), Event::Loaded { .. }));
    answer(&mut device, &network);
}
