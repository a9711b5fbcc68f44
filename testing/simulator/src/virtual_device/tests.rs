//! What the conformance suite does not ask of a device: shared units, transfers, lost completions.

use punctual_core::{
    ACCURACY_BINS, ActionId, Answer, BatchTime, Criticality, Event, Infer, Instant, ModelConfig,
    ModelId, Nanos, PartitionConfig, PartitionId, RequestId, StageConfig, StageId, StageTime,
    Units, Weights, Window,
};

use super::{Course, Ending, Timing, VirtualDevice};
use punctual_device::{Device, SubmitError};

/// Everything takes its budget; an action with an odd number ends as told.
struct Exact(Ending);

impl Timing for Exact {
    fn course(&mut self, infer: &Infer, _: Instant, time: StageTime) -> Course {
        let odd = infer.id.0 % 2 == 1;
        Course {
            took: time.budget,
            ending: if odd { self.0 } else { Ending::Finished },
        }
    }

    fn stopping(&mut self, partition: &PartitionConfig) -> Nanos {
        partition.preemption_bound
    }
}

type Tested = VirtualDevice<Exact, fn(RequestId, ModelId, StageId) -> Answer>;

fn answer(_: RequestId, _: ModelId, _: StageId) -> Answer {
    Answer::default()
}

/// Partitions of these units; every stage takes 100 ns, every transfer 1000.
fn device(units: &[(u16, u16)], odd: Ending) -> Tested {
    let budget = Nanos::new(100);
    let time = StageTime {
        budget,
        max_seen: budget,
    };
    let model = ModelConfig {
        weights: Some(Weights {
            pages: 1,
            load: Nanos::new(1_000),
        }),
        stages: vec![StageConfig {
            times: vec![BatchTime {
                batch: 1,
                on: vec![time; units.len()],
            }],
            accuracy: [0; ACCURACY_BINS],
            deeper: Vec::new(),
            follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
            answers: true,
            runs_as: None,
        }],
        places: Vec::new(),
    };
    let partition = |&(first, count): &(u16, u16)| PartitionConfig {
        units: Units { first, count },
        preemption_bound: Nanos::new(7),
        share_max: 1000,
    };
    let partitions: Vec<_> = units.iter().map(partition).collect();
    let models = vec![model.clone(), model];
    VirtualDevice::new(models, &partitions, 4, Exact(odd), answer)
}

fn infer(id: u64, partition: u16, earliest: u64) -> Infer {
    Infer {
        id: ActionId(id),
        partition: PartitionId(partition),
        model: ModelId(0),
        stage: StageId(0),
        batch: 1,
        members: [RequestId {
            buffer: partition,
            generation: 0,
        }]
        .into_iter()
        .collect(),
        window: Window {
            earliest: Instant::from_nanos(earliest),
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::BestEffort,
    }
}

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// When each action ended, in order, until nothing is left.
fn ends(device: &mut Tested) -> Vec<(u64, u64)> {
    let mut ends = Vec::new();
    while let Some(next) = device.next_event() {
        device.advance_to(next);
        while let Some(event) = device.poll() {
            let action = match event {
                Event::Finished(finished) => finished.action,
                Event::Preempted { action } | Event::Failed { action } => action,
                Event::Loaded { action, .. } => action,
                other => panic!("{other:?}"),
            };
            ends.push((action.0, device.now().as_nanos()));
        }
    }
    ends
}

fn submit(device: &mut Tested, infer: &Infer) {
    device.submit(infer).expect("it fits");
}

#[test]
fn actions_on_the_same_units_share_them_and_lose_no_time() {
    let mut device = device(&[(0, 2), (0, 2)], Ending::Finished);
    submit(&mut device, &infer(2, 0, 0));
    device.advance_to(at(40));
    submit(&mut device, &infer(4, 1, 0));
    // Alone until 40; then each at half its pace: 60 left takes until 160. The other has done 60
    // by then, and its 40 take until 200: as long as one after the other.
    assert_eq!(ends(&mut device), [(2, 160), (4, 200)]);
    assert_eq!(device.busy(), 2 * 200);
}

#[test]
fn actions_on_other_units_do_not_disturb_each_other() {
    let mut device = device(&[(0, 2), (2, 1), (1, 2)], Ending::Finished);
    submit(&mut device, &infer(2, 0, 0));
    submit(&mut device, &infer(4, 1, 0));
    device.advance_to(at(60));
    assert_eq!(device.busy(), 3 * 60);
    assert_eq!(ends(&mut device), [(2, 100), (4, 100)]);
    // The third partition touches both.
    submit(&mut device, &infer(6, 2, 0));
    submit(&mut device, &infer(8, 1, 0));
    assert_eq!(ends(&mut device), [(6, 300), (8, 300)]);
    assert_eq!(device.busy(), 3 * 100 + 2 * 200);
}

/// A home of four units, and its two cells.
const LENDING: [(u16, u16); 3] = [(0, 4), (0, 2), (2, 2)];

#[test]
fn two_cells_run_at_once_and_then_the_home_that_has_their_units() {
    let mut device = device(&LENDING, Ending::Finished);
    submit(&mut device, &infer(2, 1, 0));
    submit(&mut device, &infer(4, 2, 0));
    assert_eq!(ends(&mut device), [(2, 100), (4, 100)]);
    submit(&mut device, &infer(6, 0, 0));
    assert_eq!(ends(&mut device), [(6, 200)]);
    assert_eq!(device.busy(), 4 * 200);
}

#[test]
fn a_request_changes_partition_between_stages_without_a_cost() {
    let mut device = device(&LENDING, Ending::Finished);
    let mut ended = Vec::new();
    for (id, partition) in [(2, 1), (4, 0), (6, 2)] {
        let mut stage = infer(id, partition, 0);
        stage.members[0].buffer = 3;
        submit(&mut device, &stage);
        ended.extend(ends(&mut device));
    }
    assert_eq!(ended, [(2, 100), (4, 200), (6, 300)]);
    assert_eq!(device.busy(), 2 * 100 + 4 * 100 + 2 * 100);
}

#[test]
fn less_contention_disturbs_less() {
    let mut device = device(&[(0, 1), (0, 1)], Ending::Finished).with_contention(200);
    submit(&mut device, &infer(2, 0, 0));
    submit(&mut device, &infer(4, 1, 0));
    assert_eq!(ends(&mut device), [(2, 120), (4, 120)]);
}

#[test]
fn an_action_that_waits_for_its_window_disturbs_nobody() {
    let mut device = device(&[(0, 1), (0, 1)], Ending::Finished);
    submit(&mut device, &infer(2, 0, 0));
    submit(&mut device, &infer(4, 1, 50));
    // From 50 on they share: 50 left takes until 150, and the other then has 50 left.
    assert_eq!(ends(&mut device), [(2, 150), (4, 200)]);
}

#[test]
fn a_stopped_action_gives_its_units_back() {
    let mut device = device(&[(0, 1), (0, 1)], Ending::Finished);
    submit(&mut device, &infer(2, 0, 0));
    submit(&mut device, &infer(4, 1, 0));
    device.advance_to(at(20));
    device.preempt(PartitionId(0), ActionId(2));
    // Told at 20, gone at 27; the other has done 13 or 14 of its 100 by then.
    let ends = ends(&mut device);
    assert_eq!(ends[0], (2, 27));
    assert!((113..=115).contains(&ends[1].1), "{ends:?}");
}

#[test]
fn a_lost_completion_is_never_reported_and_the_partition_is_free_again() {
    let mut device = device(&[(0, 1)], Ending::Lost);
    submit(&mut device, &infer(1, 0, 0));
    submit(&mut device, &infer(2, 0, 0));
    assert_eq!(ends(&mut device), [(2, 200)]);
    submit(&mut device, &infer(4, 0, 0));
    submit(&mut device, &infer(6, 0, 0));
    assert_eq!(ends(&mut device), [(4, 300), (6, 400)]);
}

#[test]
fn transfers_go_one_after_the_other_beside_the_actions() {
    let mut device = device(&[(0, 1)], Ending::Finished).with_cache(2);
    device.load(ActionId(10), ModelId(0)).expect("fits");
    assert_eq!(ends(&mut device), [(10, 1_000)]);
    device.unload(ModelId(0)).expect("not in use");
    device.load(ActionId(11), ModelId(0)).expect("fits");
    device.load(ActionId(12), ModelId(1)).expect("fits");
    assert_eq!(ends(&mut device), [(11, 2_000), (12, 3_000)]);
    device.unload(ModelId(1)).expect("not in use");
    device.load(ActionId(13), ModelId(1)).expect("fits");
    submit(&mut device, &infer(2, 0, 0));
    assert_eq!(ends(&mut device), [(2, 3_100), (13, 4_000)]);
}

#[test]
fn weights_whose_completion_was_lost_can_leave() {
    let mut device = device(&[(0, 1)], Ending::Lost).with_cache(1);
    device.load(ActionId(10), ModelId(0)).expect("fits");
    assert_eq!(ends(&mut device), [(10, 1_000)]);
    submit(&mut device, &infer(1, 0, 0));
    let in_use = SubmitError::WeightsInUse(ModelId(0));
    assert_eq!(device.unload(ModelId(0)), Err(in_use));
    assert_eq!(ends(&mut device), []);
    device.advance_to(at(2_000));
    assert_eq!(device.unload(ModelId(0)), Ok(()));
}
