//! Impossible single steps, reported to the auditor as they are.

use punctual_core::{
    Action, ActionId, Answer, Arrival, ClientId, Confidence, Config, Contract, Criticality, Event,
    Finished, Infer, ModelId, Nanos, PartitionId, Partitioning, PolicySpec, PunctualConfig,
    RequestId, StageId, TaskId, Ticket, Weights, Window,
};

use super::bench::{at, ms, plan};
use crate::audit::{Auditor, Violation};

const REQUEST: RequestId = RequestId {
    buffer: 0,
    generation: 1,
};

/// [`plan`] with weights that come and go.
fn paged() -> Config {
    let mut config = plan();
    config.pages = 4;
    for model in &mut config.models {
        model.weights = Some(Weights {
            pages: 2,
            load: ms(1),
        });
    }
    config
}

fn arrived() -> Event {
    let ticket = Ticket {
        client: ClientId(0),
        slot: 0,
        part: 0,
        sequence: 1,
    };
    Event::Arrived(Arrival {
        task: TaskId(0),
        ticket,
        captured: at(0),
        deadline: None,
        egress: Nanos::ZERO,
    })
}

fn prepare(request: RequestId) -> Action {
    let Event::Arrived(arrival) = arrived() else {
        unreachable!("it is an arrival");
    };
    Action::Prepare {
        request,
        task: arrival.task,
        ticket: arrival.ticket,
    }
}

fn prepared() -> Event {
    Event::Prepared {
        request: REQUEST,
        measured: ms(0),
        ready: Ok(()),
    }
}

fn load(id: u64, model: u16) -> Action {
    Action::Load {
        id: ActionId(id),
        model: ModelId(model),
    }
}

fn loaded(id: u64) -> Event {
    Event::Loaded {
        action: ActionId(id),
        measured: ms(1),
    }
}

fn infer(id: u64, batch: u8) -> Infer {
    Infer {
        id: ActionId(id),
        partition: PartitionId(0),
        model: ModelId(0),
        stage: StageId(0),
        batch,
        members: [REQUEST].into_iter().collect(),
        criticality: Criticality::RealTime,
        window: Window {
            earliest: at(1),
            latest: at(2),
        },
    }
}

fn punctual(config: &Config) -> Auditor {
    Auditor::new(config, PunctualConfig::default().contract())
}

/// The first of the last step's findings, none of which may come before.
fn found(mut auditor: Auditor, steps: &[(u64, Event, Vec<Action>)]) -> Option<Violation> {
    let (last, before) = steps.split_last().expect("there are steps");
    for (now, event, actions) in before {
        assert_eq!(auditor.step(at(*now), event, actions), Ok(()), "{event:?}");
    }
    auditor.step(at(last.0), &last.1, &last.2).err()
}

#[test]
fn a_buffer_that_there_is_not_is_found() {
    let request = RequestId {
        buffer: plan().request_buffers,
        generation: 1,
    };
    let found = found(punctual(&plan()), &[(0, arrived(), vec![prepare(request)])]);
    let task = TaskId(0);
    assert_eq!(found, Some(Violation::BufferInUse { task, request }));
}

#[test]
fn a_frame_that_is_taken_on_after_a_drain_is_found() {
    let steps = [
        (0, Event::Drain, Vec::new()),
        (0, arrived(), vec![prepare(REQUEST)]),
    ];
    let task = TaskId(0);
    assert_eq!(
        found(punctual(&plan()), &steps),
        Some(Violation::UnaskedPreparation { task })
    );
}

#[test]
fn a_second_transfer_beside_the_first_is_found() {
    let both = [(0, Event::Tick, vec![load(0, 0), load(1, 1)])];
    let model = ModelId(1);
    assert_eq!(
        found(punctual(&paged()), &both),
        Some(Violation::TwoTransfers { model })
    );
    let one_by_one = [
        (0, Event::Tick, vec![load(0, 0)]),
        (1, loaded(0), vec![load(1, 1)]),
    ];
    assert_eq!(found(punctual(&paged()), &one_by_one), None);
}

#[test]
fn a_transfer_under_a_used_name_is_found() {
    let steps = [
        (0, Event::Tick, vec![load(7, 0)]),
        (1, loaded(7), vec![load(7, 1)]),
    ];
    let action = ActionId(7);
    assert_eq!(
        found(punctual(&paged()), &steps),
        Some(Violation::UnknownPlace { action })
    );
}

#[test]
fn weights_that_make_room_while_a_request_has_begun_with_them_are_found() {
    let answer = Answer {
        class: 0,
        confidence: Confidence(20_000),
    };
    let finished = Event::Finished(Finished {
        action: ActionId(1),
        started: at(1),
        measured: ms(2),
        members: [answer].into_iter().collect(),
    });
    let model = ModelId(0);
    let steps = |at_the_end: Vec<Action>| {
        [
            (0, arrived(), vec![prepare(REQUEST)]),
            (0, prepared(), vec![load(0, 0)]),
            (1, loaded(0), vec![Action::Infer(infer(1, 1))]),
            (3, finished.clone(), at_the_end),
        ]
    };
    assert_eq!(found(punctual(&paged()), &steps(Vec::new())), None);
    let unload = vec![Action::Unload { model }];
    assert_eq!(
        found(punctual(&paged()), &steps(unload)),
        Some(Violation::WrongWeights { model })
    );
}

#[test]
fn a_batch_that_does_not_shrink_is_found_unless_the_contract_allows_it() {
    let steps = |batch| {
        [
            (0, arrived(), vec![prepare(REQUEST)]),
            (1, prepared(), vec![Action::Infer(infer(1, batch))]),
        ]
    };
    for shrinks_batches in [true, false] {
        let contract = Contract {
            shrinks_batches,
            ..Contract::best_effort(Partitioning::Whole)
        };
        let auditor = Auditor::new(&plan(), contract);
        let wrong = Violation::WrongBatch {
            action: ActionId(1),
            batch: 2,
            members: 1,
        };
        let expected = shrinks_batches.then_some(wrong);
        assert_eq!(found(auditor.clone(), &steps(2)), expected);
        assert_eq!(found(auditor, &steps(1)), None);
    }
}
