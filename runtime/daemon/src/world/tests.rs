//! The world against a device that does nothing by itself.

use std::collections::VecDeque;

use punctual_core::{
    Arrival, ClientId, Criticality, Failure, Finished, ModelId, Nanos, PunctualConfig, Readiness,
    StageId, TaskId, TaskReadiness, Window,
};
use punctual_device::SubmitError;
use punctual_device::regions::ClaimedRegions;
use punctual_ipc::internals::{Fields, pair_with_outputs};
use punctual_ipc::{ClientChannel, HandedOver, Submissions};
use punctual_policy_testing::load::{Due, Load};

use super::*;
use crate::channels::{Channels, Room};
use crate::metrics::LendingMetrics;

/// Reports the events that it was given; refuses all actions if `refuses`.
#[derive(Default)]
struct ScriptedDevice {
    events: VecDeque<Event>,
    refuses: bool,
}

impl Device for ScriptedDevice {
    fn submit(&mut self, infer: &Infer) -> Result<(), SubmitError> {
        if self.refuses {
            return Err(SubmitError::Busy(infer.partition));
        }
        Ok(())
    }

    fn load(&mut self, _: ActionId, model: ModelId) -> Result<(), SubmitError> {
        if self.refuses {
            return Err(SubmitError::Pinned(model));
        }
        Ok(())
    }

    fn unload(&mut self, model: ModelId) -> Result<(), SubmitError> {
        if self.refuses {
            return Err(SubmitError::Pinned(model));
        }
        Ok(())
    }

    fn preempt(&mut self, _: PartitionId, _: ActionId) {}

    fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

const REQUEST: RequestId = RequestId {
    buffer: 0,
    generation: 1,
};

fn ticket(slot: u16) -> Ticket {
    Ticket {
        client: ClientId(0),
        slot,
        part: 0,
        sequence: u64::from(slot) + 1,
    }
}

fn arrival(slot: u16) -> Inbound {
    Inbound::Arrived {
        arrival: Arrival {
            task: TaskId(0),
            ticket: ticket(slot),
            captured: Instant::ZERO,
            deadline: None,
            egress: Nanos::ZERO,
        },
        payload: Payload {
            slot,
            sequence: u64::from(slot) + 1,
            task: TaskId(0),
            crop_x: 3,
            crop_y: 4,
            size: None,
            captured_ns: 0,
        },
    }
}

fn failed(slot: u16) -> Action {
    Action::Reply(Reply {
        request: None,
        task: TaskId(0),
        ticket: ticket(slot),
        verdict: Verdict::Failed(Failure::ClientGone),
        answer: None,
        captured: Instant::ZERO,
        deadline: Instant::ZERO,
        delivered: None,
    })
}

fn infer(id: u64) -> Infer {
    Infer {
        id: ActionId(id),
        partition: PartitionId(0),
        model: ModelId(0),
        stage: StageId(0),
        batch: 1,
        members: [REQUEST].into_iter().collect(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::RealTime,
    }
}

const ROOM: Room = Room {
    slots: 2,
    parts: 0,
    records: 8,
};

/// One client slot with two channel slots, two tasks for one model, one partition.
fn world(device: ScriptedDevice) -> (DaemonWorld<ScriptedDevice>, Channels) {
    world_over(device, &Arc::new(ClaimedRegions::new(2, 16)))
}

/// As [`world`], whose request buffers are these. Clients of task 0 get outputs of stage 1, in the second part.
fn world_over(
    device: ScriptedDevice,
    regions: &Arc<ClaimedRegions>,
) -> (DaemonWorld<ScriptedDevice>, Channels) {
    let outputs = TaskOutputs {
        regions: Arc::clone(regions),
        parts: [None, Some(1)].into(),
    };
    let mut channels = Channels::with_room(&[ROOM]).expect("descriptors");
    let spare = Channels::with_room(&[ROOM]).expect("descriptors").scheduler;
    let ends = std::mem::replace(&mut channels.scheduler, spare);
    let metrics = Metrics {
        lending: Some(LendingMetrics::with_counts(2, 1)),
        ..Metrics::with_counts(2, 1, 8)
    };
    let metrics = Arc::new(metrics);
    // One model, whose weights come and go.
    let weights = WeightTracker::of([true].into_iter(), [ModelId(0), ModelId(0)].into_iter());
    let outputs = LentAreas::new(vec![Some(outputs), None], 2);
    let trackers = Trackers {
        weights,
        running: [[0, 1].map(TaskId).into()].into(),
        outputs,
        tasks: Some(TaskOfBuffer::with_buffers(2)),
    };
    let world = DaemonWorld::new(ends, device, 1, trackers, metrics, Arc::default());
    (world, channels)
}

/// What the world tells the scheduler now.
fn told(world: &mut DaemonWorld<ScriptedDevice>) -> Vec<Event> {
    let mut events = Events::with_capacity(8);
    world.wait(Some(Instant::ZERO), &mut events);
    events.iter().cloned().collect()
}

#[test]
fn how_ready_tasks_are_is_known_once_the_scheduler_was_told_what_its_devices_said_at_first() {
    let said = Event::Readiness(Readiness {
        model: ModelId(0),
        stages: 0,
        as_measured: true,
        stays_general: false,
    });
    let device = ScriptedDevice {
        events: [said.clone()].into(),
        ..ScriptedDevice::default()
    };
    let (mut world, _channels) = world(device);
    let ready_ns = |world: &DaemonWorld<_>| world.metrics.tasks[0].start.ready_ns();
    world.metrics.tasks[0].start.is(TaskReadiness::Whole);
    assert_eq!(told(&mut world), [said]);
    assert_eq!(ready_ns(&world), None, "the scheduler has not decided yet");
    assert_eq!(told(&mut world), []);
    assert!(ready_ns(&world).is_some());
}

#[test]
fn what_is_said_of_a_model_is_copied_of_its_own_tasks_alone() {
    let (mut world, _channels) = world(ScriptedDevice::default());
    world.trackers.running = [0, 1].map(|task| [TaskId(task)].into()).into();
    // A model for each of two tasks.
    let mut load = Load::of_paged(2, &PunctualConfig::default());
    let due = Due {
        now: Instant::ZERO,
        event: Event::Readiness(Readiness {
            model: ModelId(1),
            stages: 3,
            as_measured: true,
            stays_general: false,
        }),
    };
    load.decide(&due);
    let (scheduler, actions) = load.decided();
    let step = Step {
        now: due.now,
        event: &due.event,
        actions,
        took: Nanos::ZERO,
    };
    world.stepped(scheduler, &step);
    let copied = [0, 1].map(|task| world.metrics.tasks[task].start.readiness());
    assert_eq!(copied, [TaskReadiness::NotReady, TaskReadiness::Whole]);
}

#[test]
fn a_preparation_is_ordered_with_the_payload_of_its_submission() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    channels.ports[0].inbound.push(arrival(1)).expect("room");
    assert!(matches!(told(&mut world)[..], [Event::Arrived(_)]));
    world.carry_out(&Action::Prepare {
        request: REQUEST,
        task: TaskId(0),
        ticket: ticket(1),
    });
    let order = channels.intakes[0].orders.pop().expect("an order");
    let IntakeOrder::Prepare {
        request,
        task,
        payload,
    } = order
    else {
        panic!("{order:?}");
    };
    assert_eq!((request, task), (REQUEST, TaskId(0)));
    assert_eq!((payload.slot, payload.sequence), (1, 2));
    assert_eq!((payload.crop_x, payload.crop_y), (3, 4));
}

#[test]
fn a_frame_that_another_task_takes_on_is_prepared_for_that_one_and_counted_where_it_came_from() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    channels.ports[0].inbound.push(arrival(1)).expect("room");
    told(&mut world);
    world.carry_out(&Action::Prepare {
        request: REQUEST,
        task: TaskId(1),
        ticket: ticket(1),
    });
    let order = channels.intakes[0].orders.pop().expect("an order");
    assert!(
        matches!(order, IntakeOrder::Prepare { task, .. } if task == TaskId(1)),
        "{order:?}"
    );
    let offloaded = |task: usize| world.metrics.tasks[task].offloaded.load(Relaxed);
    assert_eq!((offloaded(0), offloaded(1)), (1, 0));
}

#[test]
fn a_client_that_is_gone_hears_nothing_and_is_retired_with_its_last_verdict() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    for message in [arrival(0), arrival(1), Inbound::Gone] {
        channels.ports[0].inbound.push(message).expect("room");
    }
    let gone = Event::ClientGone {
        client: ClientId(0),
    };
    assert_eq!(told(&mut world).last(), Some(&gone));
    world.carry_out(&failed(0));
    assert!(channels.ports[0].outbound.pop().is_err());
    assert!(channels.intakes[0].orders.pop().is_err());
    world.carry_out(&failed(1));
    let retire = channels.ports[0].outbound.pop();
    assert_eq!(retire, Ok(Outbound::Retire));
    assert_eq!(channels.intakes[0].orders.pop(), Ok(IntakeOrder::Retire));
    assert_eq!(
        world.metrics.tasks[0].outcomes.now().failed().client_gone,
        2
    );
}

#[test]
fn a_finished_stage_counts_for_its_first_member_s_task_and_each_member_for_its_own() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    let other = RequestId {
        buffer: 1,
        generation: 1,
    };
    for (slot, request, task) in [(0, REQUEST, TaskId(0)), (1, other, TaskId(1))] {
        channels.ports[0].inbound.push(arrival(slot)).expect("room");
        told(&mut world);
        world.carry_out(&Action::Prepare {
            request,
            task,
            ticket: ticket(slot),
        });
    }
    let both = Infer {
        members: [other, REQUEST].into_iter().collect(),
        ..infer(7)
    };
    world.carry_out(&Action::Infer(both));
    world.carry_out(&Action::Infer(infer(8)));
    // Whatever becomes of the buffer: the stage that runs is the earlier request's.
    world
        .trackers
        .tasks
        .as_mut()
        .expect("places")
        .set(other, TaskId(0));
    let finished = |action, us| {
        Event::Finished(Finished {
            action: ActionId(action),
            started: Instant::ZERO,
            measured: Nanos::from_micros(us),
            members: heapless::Vec::new(),
        })
    };
    let failed = Event::Failed {
        action: ActionId(8),
    };
    world.device.events.extend([finished(7, 30), failed]);
    told(&mut world);
    let lending = world.metrics.lending.as_ref().expect("places");
    let tally = |task| lending.tally(TaskId(task), PartitionId(0));
    let counts = |task| (tally(task).ran.stages, tally(task).members);
    assert_eq!((counts(0), counts(1)), ((0, 1), (1, 1)));
    assert_eq!(tally(1).ran.busy, Nanos::from_micros(30));
}

#[test]
fn an_action_that_the_device_refuses_fails() {
    let (mut world, _channels) = world(ScriptedDevice {
        refuses: true,
        ..ScriptedDevice::default()
    });
    world.carry_out(&Action::Infer(infer(7)));
    let failure = Event::Failed {
        action: ActionId(7),
    };
    assert_eq!(told(&mut world), [failure]);
}

#[test]
fn a_load_that_the_device_refuses_fails() {
    let (mut world, _channels) = world(ScriptedDevice {
        refuses: true,
        ..ScriptedDevice::default()
    });
    let (id, model) = (ActionId(7), ModelId(0));
    world.carry_out(&Action::Load { id, model });
    assert_eq!(told(&mut world), [Event::Failed { action: id }]);
}

#[test]
fn what_requests_find_of_their_weights_is_counted() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    let (id, model) = (ActionId(7), ModelId(0));
    let mut ask = |world: &mut DaemonWorld<ScriptedDevice>, slot| {
        channels.ports[0].inbound.push(arrival(slot)).expect("room");
        told(world);
        world.carry_out(&Action::Prepare {
            request: REQUEST,
            task: TaskId(0),
            ticket: ticket(slot),
        });
        let _ = channels.intakes[0].orders.pop();
    };
    ask(&mut world, 0);
    world.carry_out(&Action::Load { id, model });
    ask(&mut world, 1);
    let measured = Nanos::new(3_000);
    let loaded = Event::Loaded {
        action: id,
        measured,
    };
    world.device.events.push_back(loaded.clone());
    assert_eq!(told(&mut world), [loaded]);
    ask(&mut world, 0);
    world.carry_out(&Action::Unload { model });
    ask(&mut world, 1);
    let paging = &world.metrics.paging;
    assert_eq!(
        (paging.hits.load(Relaxed), paging.misses.load(Relaxed)),
        (1, 3)
    );
    assert_eq!(paging.evictions.load(Relaxed), 1);
    assert_eq!(paging.loads.quantiles().count, 1);
}

#[test]
fn what_frees_capacity_is_told_before_what_asks_for_it() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    world.carry_out(&Action::Infer(infer(7)));
    channels.ports[0].inbound.push(arrival(0)).expect("room");
    let prepared = Prepared {
        request: REQUEST,
        measured: Nanos::new(1),
        ready: Ok(()),
    };
    channels.intakes[0].prepared.push(prepared).expect("room");
    world.device.events.push_back(Event::Finished(Finished {
        action: ActionId(7),
        started: Instant::ZERO,
        measured: Nanos::new(500),
        members: heapless::Vec::new(),
    }));
    let told = told(&mut world);
    assert!(
        matches!(
            told[..],
            [
                Event::Finished(_),
                Event::Prepared { .. },
                Event::Arrived(_)
            ]
        ),
        "{told:?}"
    );
    let partition = &world.metrics.partitions[0];
    assert_eq!(partition.finished.load(Relaxed), 1);
    assert_eq!(partition.busy_ns.load(Relaxed), 500);
}

#[test]
fn the_world_ends_at_the_drains_bound_and_not_before() {
    let (world, _channels) = world(ScriptedDevice::default());
    assert!(!world.ended());
    world.drain.give(u64::MAX);
    assert!(!world.ended());
    world.drain.give(1);
    assert!(world.ended());
}

#[test]
fn an_order_to_shed_is_told_once_and_so_is_its_end() {
    let (mut world, _channels) = world(ScriptedDevice::default());
    assert!(world.drain.shed.give(true));
    assert!(!world.drain.shed.give(true), "it holds already");
    assert_eq!(told(&mut world), [Event::Shed { hold: true }]);
    assert_eq!(told(&mut world), []);
    assert!(world.drain.shed.give(false));
    assert_eq!(told(&mut world), [Event::Shed { hold: false }]);
}

/// A client with areas has come; it, and what its port has.
fn with_client(channels: &mut Channels) -> (ClientChannel, Submissions) {
    let (mut server, client) = pair_with_outputs();
    let areas = server.areas().expect("the terms have areas");
    let ends = &mut channels.housekeeping[0];
    assert!(ends.to_scheduler.push(areas).is_ok());
    (client, server.split().0)
}

/// Of the request in `buffer`: that of the submission in `slot`.
fn prepare(slot: u16, buffer: u16) -> Action {
    Action::Prepare {
        request: RequestId {
            buffer,
            generation: 1,
        },
        task: TaskId(0),
        ticket: ticket(slot),
    }
}

fn on_time(slot: u16, buffer: u16, exit: u8) -> Action {
    let Action::Reply(reply) = failed(slot) else {
        unreachable!("it makes replies")
    };
    Action::Reply(Reply {
        request: Some(RequestId {
            buffer,
            generation: 1,
        }),
        verdict: Verdict::OnTime,
        answer: Some((StageId(exit), punctual_core::Answer::default())),
        ..reply
    })
}

fn answered(channels: &mut Channels) -> Answered {
    match channels.ports[0].outbound.pop() {
        Ok(Outbound::Verdict(answered)) => answered,
        other => panic!("{other:?}"),
    }
}

/// What a worker does at the end of a stage.
fn write(regions: &ClaimedRegions, buffer: usize, not_finite: u32) {
    let mut claim = regions.claim(buffer).expect("free");
    let area = claim.area().expect("it was lent");
    area.as_mut_slice()[4..8].copy_from_slice(&not_finite.to_ne_bytes());
    let head = area.as_slice()[..8].to_vec();
    claim.note_not_finite(&head);
}

#[test]
fn all_answers_of_a_frame_are_in_one_area_which_no_other_frame_gets() {
    let regions = Arc::new(ClaimedRegions::new(2, 16));
    let (mut world, mut channels) = world_over(ScriptedDevice::default(), &regions);
    let (_client, _submissions) = with_client(&mut channels);
    channels.ports[0].inbound.push(arrival(1)).expect("room");
    assert!(matches!(told(&mut world)[..], [Event::Arrived(_)]));
    world.carry_out(&prepare(1, 0));
    let before_ns = clock::now_ns();
    let Action::Reply(reply) = on_time(1, 0, 1) else {
        unreachable!("it makes replies")
    };
    let handed = Some(HandedOver {
        area: 0,
        generation: 1,
    });
    for _ in 0..2 {
        write(&regions, 0, 0);
        world.carry_out(&Action::Deliver(reply));
        let Ok(Outbound::Answer(answered)) = channels.ports[0].outbound.pop() else {
            panic!("it is no verdict")
        };
        assert_eq!(answered.outputs, handed);
        assert!(answered.decided_ns >= before_ns);
        assert!(regions.claim(0).expect("free").area().is_some());
    }
    assert_eq!(world.clients[0].open, 1, "it has no verdict");
    world.carry_out(&on_time(1, 0, 1));
    assert_eq!(answered(&mut channels).outputs, handed);
    assert_eq!(world.clients[0].open, 0);
    assert!(regions.claim(0).expect("free").area().is_none());
}

#[test]
fn an_area_is_in_the_request_buffer_while_stages_run_and_the_clients_afterwards() {
    let regions = Arc::new(ClaimedRegions::new(2, 16));
    let (mut world, mut channels) = world_over(ScriptedDevice::default(), &regions);
    let (client, submissions) = with_client(&mut channels);
    for turn in 0..4 {
        channels.ports[0].inbound.push(arrival(1)).expect("room");
        assert!(matches!(told(&mut world)[..], [Event::Arrived(_)]));
        world.carry_out(&prepare(1, 0));
        channels.intakes[0].orders.pop().expect("an order");
        write(&regions, 0, turn % 2);
        world.carry_out(&on_time(1, 0, 1));
        let answered = answered(&mut channels);
        let area = turn as u16;
        let generation = 1;
        assert_eq!(answered.outputs, Some(HandedOver { area, generation }));
        assert_eq!(answered.not_finite, turn % 2 == 1);
        assert!(regions.claim(0).expect("free").area().is_none());
    }
    assert_eq!(world.metrics.tasks[0].not_finite.load(Relaxed), 2);
    // The client holds all four.
    channels.ports[0].inbound.push(arrival(0)).expect("room");
    assert_eq!(told(&mut world), []);
    let refused = channels.ports[0].outbound.pop();
    assert!(
        matches!(refused, Ok(Outbound::Refused(refusal)) if refusal.reason == Refused::NoArea),
        "{refused:?}"
    );
    assert_eq!(world.metrics.tasks[0].outcomes.now().rejected().no_area, 1);
    let fields = Fields::of(&client);
    let word = fields.requests.word32(fields.released + 4 * 2);
    word.store(1, Relaxed);
    submissions.see_released();
    channels.ports[0].inbound.push(arrival(0)).expect("room");
    assert!(matches!(told(&mut world)[..], [Event::Arrived(_)]));
}

#[test]
fn an_answer_without_outputs_and_a_rejection_leave_their_areas_free() {
    let regions = Arc::new(ClaimedRegions::new(2, 16));
    let (mut world, mut channels) = world_over(ScriptedDevice::default(), &regions);
    let _client = with_client(&mut channels);
    for _ in 0..10 {
        channels.ports[0].inbound.push(arrival(1)).expect("room");
        told(&mut world);
        world.carry_out(&prepare(1, 0));
        channels.intakes[0].orders.pop().expect("an order");
        world.carry_out(&on_time(1, 0, 0));
        assert_eq!(answered(&mut channels).outputs, None);
        channels.ports[0].inbound.push(arrival(0)).expect("room");
        told(&mut world);
        world.carry_out(&failed(0));
        assert_eq!(answered(&mut channels).outputs, None);
    }
}

#[test]
fn an_area_that_a_stage_still_writes_to_comes_back_when_that_has_ended() {
    let regions = Arc::new(ClaimedRegions::new(2, 16));
    let (mut world, mut channels) = world_over(ScriptedDevice::default(), &regions);
    let _client = with_client(&mut channels);
    channels.ports[0].inbound.push(arrival(1)).expect("room");
    told(&mut world);
    world.carry_out(&prepare(1, 0));
    write(&regions, 0, 3);
    let deeper = regions.claim(0).expect("free");
    world.carry_out(&on_time(1, 0, 1));
    let answered = answered(&mut channels);
    assert!(answered.outputs.is_some() && answered.not_finite);
    let gone = Inbound::Gone;
    channels.ports[0].inbound.push(gone).expect("room");
    told(&mut world);
    let back = &mut channels.housekeeping[0].from_scheduler;
    assert!(back.pop().is_err(), "a stage writes to one of them");
    drop(deeper);
    told(&mut world);
    let areas = back.pop().expect("all are back");
    assert!(areas.are_all_back());
    assert!(regions.claim(0).expect("free").area().is_none());
    let retire = channels.ports[0].outbound.pop();
    assert_eq!(retire, Ok(Outbound::Retire));
    // The place's next client begins anew.
    let _client = with_client(&mut channels);
    channels.ports[0].inbound.push(arrival(1)).expect("room");
    assert!(matches!(told(&mut world)[..], [Event::Arrived(_)]));
}

#[test]
fn areas_of_a_client_that_never_submitted_go_back_with_the_rest() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    let _client = with_client(&mut channels);
    let gone = Inbound::Gone;
    channels.ports[0].inbound.push(gone).expect("room");
    told(&mut world);
    let ends = &mut channels.housekeeping[0];
    assert!(ends.from_scheduler.pop().is_ok());
}

#[test]
fn a_failure_of_a_vector_has_its_own_reason_and_count() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    for failure in [Failure::Vector, Failure::Payload] {
        channels.ports[0].inbound.push(arrival(1)).expect("room");
        told(&mut world);
        world.carry_out(&prepare(1, 0));
        channels.intakes[0].orders.pop().expect("an order");
        let prepared = Prepared {
            request: REQUEST,
            measured: Nanos::new(1),
            ready: Err(failure),
        };
        channels.intakes[0].prepared.push(prepared).expect("room");
        let events = told(&mut world);
        assert!(
            matches!(events[..], [Event::Prepared { ready: Err(f), .. }] if f == failure),
            "{events:?}"
        );
        let Action::Reply(reply) = failed(1) else {
            unreachable!("it makes replies")
        };
        world.carry_out(&Action::Reply(Reply {
            request: Some(REQUEST),
            verdict: Verdict::Failed(failure),
            ..reply
        }));
        answered(&mut channels);
    }
    let failed = world.metrics.tasks[0].outcomes.now().failed();
    assert_eq!((failed.vector, failed.payload), (1, 1));
}

#[test]
fn the_scheduler_hears_that_a_partition_starves_once_its_action_was_held_for_long() {
    let (mut world, _channels) = world(ScriptedDevice::default());
    world.drain.starved.are([PartitionId(0)].into_iter());
    assert_eq!(told(&mut world), [], "it holds nothing");
    world.carry_out(&Action::Infer(infer(7)));
    assert_eq!(told(&mut world), [], "it may have begun at once");
    let held = world.held[0].actions[0].as_mut().expect("it is held");
    held.ordered_ns -= HELD_NS_MIN + 1;
    let news = |starved| {
        [Event::Starved {
            partition: PartitionId(0),
            starved,
        }]
    };
    assert_eq!(told(&mut world), news(true));
    assert_eq!(told(&mut world), [], "it knows");
    world.drain.starved.are(std::iter::empty());
    assert_eq!(told(&mut world), news(false));
}

#[test]
fn a_frame_that_was_starved_is_counted_and_answered_as_such() {
    let (mut world, mut channels) = world(ScriptedDevice::default());
    channels.ports[0].inbound.push(arrival(0)).expect("room");
    told(&mut world);
    let Action::Reply(reply) = failed(0) else {
        unreachable!("it is one");
    };
    world.carry_out(&Action::Reply(Reply {
        verdict: Verdict::Failed(Failure::Starved),
        ..reply
    }));
    let counted = world.metrics.tasks[0].outcomes.now().failed();
    assert_eq!((counted.starved, counted.total()), (1, 1));
}
