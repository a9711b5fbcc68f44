//! Two devices as one, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use punctual_core::{
    ACCURACY_BINS, ActionId, Answer, BatchTime, Criticality, Event, Infer, Instant, ModelConfig,
    ModelId, Nanos, PartitionConfig, PartitionId, Readiness, RequestId, StageConfig, StageId,
    StageTime, Units, Weights, Window,
};
use punctual_device::{Device, DeviceSet, SubmitError};
use punctual_simulator::virtual_device::{Course, Ending, Timing, VirtualDevice};

type Oracle = fn(RequestId, ModelId, StageId) -> Answer;

/// A device whose clock the test advances while a set owns it.
#[derive(Clone)]
struct Virtual(Rc<RefCell<VirtualDevice<Exact, Oracle>>>);

impl Device for Virtual {
    fn submit(&mut self, infer: &Infer) -> Result<(), SubmitError> {
        self.0.borrow_mut().submit(infer)
    }

    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), SubmitError> {
        self.0.borrow_mut().load(action, model)
    }

    fn unload(&mut self, model: ModelId) -> Result<(), SubmitError> {
        self.0.borrow_mut().unload(model)
    }

    fn preempt(&mut self, partition: PartitionId, action: ActionId) {
        self.0.borrow_mut().preempt(partition, action);
    }

    fn poll(&mut self) -> Option<Event> {
        self.0.borrow_mut().poll()
    }
}

/// Devices as a set, with what advances their clocks.
struct Tested {
    set: DeviceSet<Virtual>,
    devices: Vec<Virtual>,
}

impl Tested {
    fn new(devices: Vec<Virtual>, models: &[usize], partitions: &[Option<usize>]) -> Self {
        let boxed = devices.iter().cloned().map(Box::new).collect();
        Self {
            set: DeviceSet::new(boxed, models, partitions),
            devices,
        }
    }

    fn advance(&self, ns: u64) {
        for device in &self.devices {
            device.0.borrow_mut().advance_to(Instant::from_nanos(ns));
        }
    }
}

/// Everything takes its budget.
struct Exact;

impl Timing for Exact {
    fn course(&mut self, _: &Infer, _: Instant, time: StageTime) -> Course {
        Course {
            took: time.budget,
            ending: Ending::Finished,
        }
    }

    fn stopping(&mut self, partition: &PartitionConfig) -> Nanos {
        partition.preemption_bound
    }
}

/// Tells the model's id on its own device.
fn own_id(_: RequestId, model: ModelId, _: StageId) -> Answer {
    Answer {
        class: model.0,
        ..Answer::default()
    }
}

/// Stages of `ns`; weights of one page each, in a cache of `pages`.
fn virtual_device(models: usize, partitions: u16, ns: u64, pages: u32) -> Virtual {
    let span = Nanos::new(ns);
    let time = StageTime {
        budget: span,
        max_seen: span,
    };
    let stage = StageConfig {
        times: vec![BatchTime {
            batch: 1,
            on: vec![time; usize::from(partitions)],
        }],
        accuracy: [0; ACCURACY_BINS],
        deeper: Vec::new(),
        follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
        answers: true,
        runs_as: None,
    };
    let model = ModelConfig {
        stages: vec![stage],
        weights: Some(Weights {
            pages: 1,
            load: Nanos::new(10 * ns),
        }),
        places: Vec::new(),
    };
    let partition = |first| PartitionConfig {
        units: Units { first, count: 1 },
        preemption_bound: Nanos::new(1),
        share_max: 1000,
    };
    let partitions: Vec<PartitionConfig> = (0..partitions).map(partition).collect();
    let device = VirtualDevice::new(vec![model; models], &partitions, 8, Exact, own_id as Oracle);
    Virtual(Rc::new(RefCell::new(device.with_cache(pages))))
}

fn infer(id: u64, partition: u16, model: u16) -> Infer {
    Infer {
        id: ActionId(id),
        partition: PartitionId(partition),
        model: ModelId(model),
        stage: StageId(0),
        batch: 1,
        members: [RequestId {
            buffer: partition,
            generation: 0,
        }]
        .into_iter()
        .collect(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::BestEffort,
    }
}

fn action(event: &Event) -> u64 {
    match event {
        Event::Finished(finished) => finished.action.0,
        Event::Preempted { action } | Event::Loaded { action, .. } => action.0,
        other => panic!("{other:?}"),
    }
}

/// Models 0 and 2 and partition 1 on the first device, models 1 and 3 and partitions 0 and 2 on the second.
fn both(pages: u32) -> Tested {
    Tested::new(
        vec![
            virtual_device(2, 1, 100, pages),
            virtual_device(2, 2, 100, pages),
        ],
        &[0, 1, 0, 1],
        &[Some(1), Some(0), Some(1)],
    )
}

#[test]
fn an_action_runs_on_the_device_of_its_model_under_that_devices_ids() {
    let mut device = both(0);
    device.set.submit(&infer(1, 1, 2)).expect("it fits");
    device.set.submit(&infer(2, 2, 3)).expect("it fits");
    device.set.submit(&infer(3, 0, 1)).expect("it fits");
    device.advance(100);
    let mut seen = Vec::new();
    while let Some(event) = device.set.poll() {
        let Event::Finished(finished) = event else {
            panic!("{event:?}");
        };
        seen.push((finished.action.0, finished.members[0].class));
    }
    seen.sort_unstable();
    assert_eq!(seen, [(1, 1), (2, 1), (3, 0)]);
}

#[test]
fn refusals_name_what_the_caller_named() {
    let mut device = both(1);
    let refused = |device: &mut Tested, infer: &Infer| device.set.submit(infer);
    let (partition, model) = (PartitionId(1), ModelId(1));
    assert_eq!(
        refused(&mut device, &infer(1, 1, 1)),
        Err(SubmitError::OtherDevice { model, partition })
    );
    assert_eq!(
        refused(&mut device, &infer(1, 9, 1)),
        Err(SubmitError::UnknownPartition(PartitionId(9)))
    );
    assert_eq!(
        refused(&mut device, &infer(1, 1, 9)),
        Err(SubmitError::UnknownModel(ModelId(9)))
    );
    assert_eq!(
        refused(&mut device, &infer(1, 2, 3)),
        Err(SubmitError::NotResident(ModelId(3)))
    );
    assert_eq!(
        device.set.unload(ModelId(3)),
        Err(SubmitError::NotResident(ModelId(3)))
    );
    let mut resident = both(0);
    for id in 1..=2 {
        resident.set.submit(&infer(id, 2, 3)).expect("room for two");
    }
    assert_eq!(
        refused(&mut resident, &infer(3, 2, 3)),
        Err(SubmitError::Busy(PartitionId(2)))
    );
    assert_eq!(
        resident.set.load(ActionId(4), ModelId(2)),
        Err(SubmitError::Pinned(ModelId(2)))
    );
    assert_eq!(
        resident.set.load(ActionId(4), ModelId(9)),
        Err(SubmitError::UnknownModel(ModelId(9)))
    );
}

#[test]
fn each_devices_events_are_polled_in_turn() {
    let mut device = both(0);
    for (id, (partition, model)) in (1..).zip([(1, 0), (1, 0), (0, 1), (2, 1)]) {
        device
            .set
            .submit(&infer(id, partition, model))
            .expect("it fits");
    }
    device.advance(1_000);
    let order: Vec<u64> = std::iter::from_fn(|| device.set.poll())
        .map(|event| action(&event))
        .collect();
    assert_eq!(order, [1, 3, 2, 4]);
}

#[test]
fn a_preemption_reaches_the_partition_that_it_names() {
    let mut device = both(0);
    device.set.submit(&infer(1, 1, 0)).expect("it fits");
    device.set.submit(&infer(2, 0, 1)).expect("it fits");
    device.advance(50);
    device.set.preempt(PartitionId(0), ActionId(2));
    device.set.preempt(PartitionId(7), ActionId(1));
    device.advance(99);
    assert_eq!(
        device.set.poll(),
        Some(Event::Preempted {
            action: ActionId(2)
        })
    );
    assert_eq!(device.set.poll(), None);
}

#[test]
fn weights_come_and_go_on_the_device_of_their_model() {
    let mut device = both(1);
    device
        .set
        .load(ActionId(1), ModelId(3))
        .expect("a free page");
    device
        .set
        .load(ActionId(2), ModelId(2))
        .expect("the other device's page");
    let (model, needs, free) = (ModelId(1), 1, 0);
    assert_eq!(
        device.set.load(ActionId(3), ModelId(1)),
        Err(SubmitError::NoFreePages { model, needs, free })
    );
    device.advance(1_000);
    let mut loaded: Vec<u64> = std::iter::from_fn(|| device.set.poll())
        .map(|event| action(&event))
        .collect();
    loaded.sort_unstable();
    assert_eq!(loaded, [1, 2]);
    device
        .set
        .submit(&infer(4, 2, 3))
        .expect("its weights are there");
    assert_eq!(
        device.set.unload(ModelId(3)),
        Err(SubmitError::WeightsInUse(ModelId(3)))
    );
    device.set.unload(ModelId(2)).expect("nothing uses them");
}

/// A device that starts in turn and is at one stage of its second model.
struct Starting(Option<Event>);

impl Device for Starting {
    fn submit(&mut self, infer: &Infer) -> Result<(), SubmitError> {
        let (model, stage) = (infer.model, infer.stage);
        Err(SubmitError::StageNotReady { model, stage })
    }

    fn load(&mut self, _: ActionId, model: ModelId) -> Result<(), SubmitError> {
        Err(SubmitError::Pinned(model))
    }

    fn unload(&mut self, model: ModelId) -> Result<(), SubmitError> {
        Err(SubmitError::Pinned(model))
    }

    fn preempt(&mut self, _: PartitionId, _: ActionId) {}

    fn poll(&mut self) -> Option<Event> {
        self.0.take()
    }
}

#[test]
fn how_far_a_start_is_has_the_callers_names() {
    let at = |model| {
        Event::Readiness(Readiness {
            model: ModelId(model),
            stages: 1,
            as_measured: true,
            stays_general: false,
        })
    };
    let devices = [None, Some(at(1))].map(|event| Box::new(Starting(event)));
    let mut set = DeviceSet::new(devices.into(), &[1, 0, 0, 1], &[Some(0), Some(1)]);
    assert_eq!(set.poll(), Some(at(3)));
    assert_eq!(set.poll(), None);
    let (model, stage) = (ModelId(3), StageId(0));
    let refused = Err(SubmitError::StageNotReady { model, stage });
    assert_eq!(set.submit(&infer(1, 1, 3)), refused);
}

#[test]
fn with_one_device_absent_it_is_the_other() {
    let only = || vec![virtual_device(1, 1, 100, 0)];
    let mut device = Tested::new(only(), &[0], &[Some(0)]);
    device.set.submit(&infer(1, 0, 0)).expect("it fits");
    device.advance(100);
    assert_eq!(device.set.poll().as_ref().map(action), Some(1));
    let mut device = Tested::new(only(), &[0], &[Some(0), None]);
    let (partition, model) = (PartitionId(1), ModelId(0));
    let refused = Err(SubmitError::OtherDevice { model, partition });
    assert_eq!(device.set.submit(&infer(1, 1, 0)), refused);
    device.set.preempt(partition, ActionId(1));
}

#[test]
#[should_panic(expected = "a device that is not there")]
fn nothing_is_on_a_device_that_is_absent() {
    let only = vec![virtual_device(1, 1, 100, 0)];
    let _ = Tested::new(only, &[0, 1], &[Some(0)]);
}
