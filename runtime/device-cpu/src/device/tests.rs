//! What only the CPU device can show: faults inside it, and where exactly it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use heapless::Vec;
use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId, Readiness, RequestId,
    StageId, Window,
};
use punctual_kernels::{Image, Isa, Part};
use punctual_platform::{Doorbell, Missing, clock};

use super::*;
use crate::CpuProvider;
use crate::executable::Planted;
use crate::shared::{Operands, Space};
use crate::specialised::ONE_CORE;
use crate::start::tests::damaged;
use punctual_conformance::networks;
use punctual_device::profile::Subject;
use punctual_device::verify;
use punctual_device::{
    Device, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Provider, Start, SubmitError,
};
use punctual_model::{Calibration, Footprint, Network, Package, Promises, SolutionChoice};

/// Longer than any action here takes, even on a busy machine.
const LIMIT_NS: u64 = 30_000_000_000;

fn infer(id: u64, stage: u8, buffers: &[u16]) -> Infer {
    Infer {
        id: ActionId(id),
        partition: PartitionId(0),
        model: ModelId(0),
        stage: StageId(stage),
        batch: 2,
        members: buffers
            .iter()
            .map(|&buffer| RequestId {
                buffer,
                generation: 0,
            })
            .collect::<Vec<_, _>>(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::RealTime,
    }
}

fn answer_to(device: &mut CpuDevice, bell: &Doorbell, infer: &Infer) -> Event {
    device.submit(infer).expect("a free partition");
    next_event(device, bell)
}

fn next_event(device: &mut CpuDevice, bell: &Doorbell) -> Event {
    let limit = clock::now_ns() + LIMIT_NS;
    loop {
        let seen = bell.count();
        if let Some(event) = device.poll() {
            return event;
        }
        assert!(clock::now_ns() < limit, "no event");
        bell.wait(seen, Some(limit));
    }
}

/// A device of two workers whose first operator of stage 1 panics.
fn with_a_fault(bell: &Arc<Doorbell>) -> CpuDevice {
    let fault = |model: &mut LoadedModel| {
        model.stages[1].steps[0].kernel = Box::new(Planted(|_, _| panic!("planted")));
    };
    with_planted(bell, None, fault)
}

/// A device of two workers, with something planted in its network.
fn with_planted(
    bell: &Arc<Doorbell>,
    priority: Option<u8>,
    plant: impl Fn(&mut LoadedModel),
) -> CpuDevice {
    let network = networks::residual(3);
    started_with(
        bell,
        priority,
        ModelSpec::resident(&network, &[1, 2]),
        plant,
    )
}

fn started_with(
    bell: &Arc<Doorbell>,
    priority: Option<u8>,
    model: ModelSpec<'_>,
    plant: impl Fn(&mut LoadedModel),
) -> CpuDevice {
    let network = model.network;
    let spec = DeviceSpec {
        models: &[model],
        partitions: &[PartitionSpec::on_cores("main", vec![0, 1], priority)],
        request_buffers: 3,
        cache: None,
        start: Start::Whole,
    };
    let isa = Isa::detect();
    let mut model = lower(isa, network, None).expect("lowers");
    let source = store::source(isa, &model, &spec.models[0]).expect("packs");
    plant(&mut model);
    CpuDevice::start_loaded(isa, vec![model], vec![source], &spec, bell.clone()).expect("starts")
}

#[test]
fn a_panic_in_a_worker_fails_its_action_and_the_partition_goes_on() {
    let bell = Arc::new(Doorbell::new());
    let mut device = with_a_fault(&bell);
    for id in 0..4 {
        let failed = answer_to(&mut device, &bell, &infer(2 * id, 1, &[0, 1]));
        assert_eq!(
            failed,
            Event::Failed {
                action: ActionId(2 * id)
            }
        );
        let fine = answer_to(&mut device, &bell, &infer(2 * id + 1, 0, &[2]));
        assert!(matches!(fine, Event::Finished(_)), "{fine:?}");
    }
}

#[test]
fn a_stage_that_could_not_be_loaded_is_refused_and_the_one_before_it_answers() {
    let bell = Arc::new(Doorbell::new());
    let network = networks::residual(3);
    let image = damaged(&network);
    let spec = DeviceSpec {
        models: &[ModelSpec {
            image: Some(&image),
            ..ModelSpec::resident(&network, &[1, 2])
        }],
        partitions: &[PartitionSpec::on_cores("main", vec![0, 1], None)],
        request_buffers: 3,
        cache: None,
        start: Start::in_turn(&[]),
    };
    let mut device = CpuDevice::start(&spec, bell.clone()).expect("starts");
    let failures = device.shell_mut().load_failures().expect("a loader");
    let (model, stage) = (ModelId(0), StageId(1));
    for (stages, as_measured) in [(0, false), (1, true)] {
        let said = Event::Readiness(Readiness {
            model,
            stages,
            as_measured,
            stays_general: false,
        });
        assert_eq!(next_event(&mut device, &bell), said);
    }
    let failure = failures.recv_timeout(Duration::from_nanos(LIMIT_NS));
    assert_eq!(failure.expect("it is told").model, model);
    let refused = SubmitError::StageNotReady { model, stage };
    assert_eq!(device.submit(&infer(1, 1, &[0, 1])), Err(refused));
    let answered = answer_to(&mut device, &bell, &infer(2, 0, &[0, 1]));
    assert!(matches!(answered, Event::Finished(_)), "{answered:?}");
}

#[test]
fn a_stage_that_is_faster_on_one_core_is_run_by_the_leader_alone() {
    static PARTS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
    let network = networks::residual(3);
    let choice = |batch, solution: &str| SolutionChoice {
        operator: network.stages[0].operators.len() as u32,
        batch,
        units: 2,
        solution: solution.to_owned(),
    };
    let solutions = [choice(1, ONE_CORE), choice(2, "direct")];
    let model = ModelSpec {
        solutions: &solutions,
        ..ModelSpec::resident(&network, &[1, 2])
    };
    let bell = Arc::new(Doorbell::new());
    let mut device = started_with(&bell, None, model, |model| {
        for stage in &mut model.stages[..2] {
            stage.steps[0].kernel = Box::new(Planted(|part, _| {
                PARTS[part.of()].fetch_add(1, Ordering::Relaxed);
            }));
        }
    });
    let mut parts_of = |id, stage, buffers: &[u16]| {
        let event = answer_to(&mut device, &bell, &infer(id, stage, buffers));
        assert!(matches!(event, Event::Finished(_)), "{event:?}");
        PARTS
            .each_ref()
            .map(|parts| parts.swap(0, Ordering::Relaxed))
    };
    for round in 0..100 {
        assert_eq!(
            parts_of(3 * round, 0, &[0]),
            [0, 0, 2],
            "nothing was chosen"
        );
        assert_eq!(parts_of(3 * round + 1, 1, &[0]), [0, 1, 0]);
        assert_eq!(parts_of(3 * round + 2, 1, &[0, 1]), [0, 0, 2]);
    }
}

#[test]
fn memory_that_a_stage_has_not_written_yet_is_overwritten_for_verification() {
    // Whichever memory the step writes: stage 0 carries its last tensors over.
    fn finds_poison(_: Part, images: &mut [Image<'_>]) {
        let found = images.iter().flat_map(|image| image.output.iter());
        assert!(
            found.clone().all(|value| value.to_bits() == u32::MAX),
            "planted"
        );
    }
    let network = networks::residual(3);
    for poisoned in [true, false] {
        let bell = Arc::new(Doorbell::new());
        let model = ModelSpec {
            poisoned,
            ..ModelSpec::resident(&network, &[1, 2])
        };
        let mut device = started_with(&bell, None, model, |model| {
            for step in &mut model.stages[0].steps {
                step.kernel = Box::new(Planted(finds_poison));
            }
        });
        for id in 0..2 {
            let event = answer_to(&mut device, &bell, &infer(id, 0, &[0, 1]));
            let finds = matches!(event, Event::Finished(_));
            assert_eq!(finds, poisoned, "{event:?}");
        }
    }
}

/// Starts devices that exchange what the first two members of a batch carry over.
struct Exchanging;

impl Provider for Exchanging {
    type Device = CpuDevice;
    type Error = StartError;
    const UNIT: &'static str = "core";
    const PROMISES: Promises = CpuProvider::PROMISES;

    fn machine(&self) -> String {
        "exchanging".to_owned()
    }

    fn clocks(&self) -> String {
        "unknown".to_owned()
    }

    fn partitions(&self, sizes: &[u8]) -> Result<std::vec::Vec<PartitionSpec>, StartError> {
        let one = |_| PartitionSpec::on_cores("exchanging", vec![0], None);
        Ok(sizes.iter().map(one).collect())
    }

    fn footprint(&self, _: &Network, _: &[u8], _: u8) -> Result<Footprint, StartError> {
        unreachable!("nothing is planned")
    }

    fn start(&self, spec: &DeviceSpec<'_>, report: Arc<Doorbell>) -> Result<CpuDevice, StartError> {
        fn exchange(_: Part, images: &mut [Image<'_>]) {
            if let [first, second, ..] = images {
                first.output.swap_with_slice(second.output);
            }
        }
        let (isa, model) = (Isa::detect(), &spec.models[0]);
        let mut lowered = lower(isa, model.network, model.outputs)?;
        let source = store::source(isa, &lowered, model)?;
        let steps = &mut lowered.stages[0].steps;
        let carried = |step: &&Step| step.operands.output().space == Space::Request;
        let carries = steps.iter().find(carried).expect("it carries something");
        let operands = Operands::new([], carries.operands.output());
        let kernel = Box::new(Planted(exchange));
        let last = Step::new(
            "exchange".to_owned(),
            carries.made,
            kernel,
            operands,
            carries.output,
        );
        steps.push(last);
        CpuDevice::start_loaded(isa, vec![lowered], vec![source], spec, report)
    }
}

#[test]
fn two_members_that_are_exchanged_are_found_by_verification() {
    let package = Package::new(networks::residual(3), Calibration::default());
    let subject = Subject {
        package: &package.expect("a valid network"),
        solutions: &[],
    };
    let request = verify::Request {
        batches: vec![1, 2],
        units: vec![1],
        budget: Nanos::ZERO,
        seed: 1,
    };
    let verified = verify::verify(&Exchanging, subject, &request, &mut |_| ()).expect("runs");
    let failure = verified.failure.expect("the fault is found");
    assert_eq!((failure.stage, failure.batch), (1, 2), "{failure}");
}

#[test]
fn a_member_that_is_still_written_to_or_named_twice_fails_the_action() {
    let bell = Arc::new(Doorbell::new());
    let mut device = with_a_fault(&bell);
    let inputs = device.shell().input_buffers();
    let failed = |id| Event::Failed {
        action: ActionId(id),
    };
    let writer = inputs.claim(1, ModelId(0)).expect("free");
    assert_eq!(
        answer_to(&mut device, &bell, &infer(0, 0, &[0, 1])),
        failed(0)
    );
    drop(writer);
    assert_eq!(
        answer_to(&mut device, &bell, &infer(1, 0, &[2, 2])),
        failed(1)
    );
    let fine = answer_to(&mut device, &bell, &infer(2, 0, &[0, 1]));
    assert!(matches!(fine, Event::Finished(_)), "{fine:?}");
}

#[test]
fn partitions_that_share_cores_take_turns_and_find_what_the_other_left() {
    let bell = Arc::new(Doorbell::new());
    let network = networks::residual(3);
    let partition = |name: &str, cores: &[usize]| {
        PartitionSpec::on_cores(name.to_owned(), cores.to_vec(), None)
    };
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(&network, &[1, 2])],
        partitions: &[
            partition("first", &[0]),
            partition("second", &[1]),
            partition("both", &[0, 1]),
        ],
        request_buffers: 3,
        cache: None,
        start: Start::Whole,
    };
    let mut device = CpuDevice::start(&spec, bell.clone()).expect("starts");
    let mut run = |id, stage, on| {
        let mut infer = infer(id, stage, &[0, 1]);
        infer.partition = PartitionId(on);
        match answer_to(&mut device, &bell, &infer) {
            Event::Finished(finished) => finished.members,
            other => panic!("{other:?}"),
        }
    };
    let mut id = 0;
    let mut answers = Vec::<_, 8>::new();
    for (first, second) in [(0, 0), (0, 2), (2, 1), (1, 2)] {
        let shallow = run(id, 0, first);
        let deep = run(id + 1, 1, second);
        answers.push((shallow, deep)).expect("four");
        id += 2;
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

/// Rings as workers enter the planted operator.
static ENTERED: Doorbell = Doorbell::new();
/// Rings when they may leave it. They sleep until then: awake at real-time priority, they would
/// keep this test's thread from running.
static LEAVE: Doorbell = Doorbell::new();
/// How many came to the next operator.
static CAME_FURTHER: AtomicU32 = AtomicU32::new(0);

/// Whether the kernel runs a thread of this process as `SCHED_FIFO`.
fn is_realtime(tid: i32) -> bool {
    const FIFO: &str = "1";
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).expect("is there");
    // proc(5): the policy is field 41; the name, field 2, may contain blanks and ends with `)`.
    let (_, after_name) = stat.rsplit_once(')').expect("a name");
    after_name.split_whitespace().nth(41 - 3) == Some(FIFO)
}

#[test]
fn a_preempted_stage_stops_at_the_next_operator_with_its_priority_back() {
    let bell = Arc::new(Doorbell::new());
    let mut device = with_planted(&bell, Some(3), |model| {
        let steps = &mut model.stages[0].steps;
        steps[0].kernel = Box::new(Planted(|_, _| {
            ENTERED.ring();
            LEAVE.wait(0, Some(clock::now_ns() + LIMIT_NS));
        }));
        steps[1].kernel = Box::new(Planted(|_, _| {
            CAME_FURTHER.fetch_add(1, Ordering::SeqCst);
        }));
    });
    let tids: std::vec::Vec<i32> = device.shell().tids().collect();
    // Where the machine grants no real-time priority, the rest of the test still holds.
    let granted = !device.shell().missing().contains(&Missing::Realtime);
    let all_realtime = || tids.iter().all(|&tid| is_realtime(tid));
    assert!(!granted || all_realtime(), "before");

    let action = ActionId(0);
    let mut best_effort = infer(0, 0, &[0, 1]);
    best_effort.criticality = Criticality::BestEffort;
    device.submit(&best_effort).expect("a free partition");
    for entered in 0..2 {
        ENTERED.wait(entered, Some(clock::now_ns() + LIMIT_NS));
    }
    assert!(!tids.iter().any(|&tid| is_realtime(tid)), "ordinary inside");
    device.preempt(PartitionId(0), action);
    assert!(!granted || all_realtime(), "on the way out");
    LEAVE.ring();
    assert_eq!(next_event(&mut device, &bell), Event::Preempted { action });
    assert_eq!(CAME_FURTHER.load(Ordering::SeqCst), 0);

    best_effort.id = ActionId(1);
    let again = answer_to(&mut device, &bell, &best_effort);
    assert!(matches!(again, Event::Finished(_)), "{again:?}");
    assert_eq!(CAME_FURTHER.load(Ordering::SeqCst), 2, "once a worker");
    assert!(!granted || all_realtime(), "afterwards");
}
