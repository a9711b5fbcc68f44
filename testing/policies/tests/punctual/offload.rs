//! Frames that another device takes on because their own cannot.

use super::plans::{at, model, ms, plan, task};
use punctual_core::{
    Action, Actions, Arrival, ClientId, Config, ConfigError, Counters, Criticality, Event, Infer,
    Instant, ModelId, Nanos, PartitionId, PunctualConfig, Rejection, Reply, Scheduler, StageId,
    TaskConfig, TaskId, Ticket, Verdict,
};
use punctual_policy_testing::world::{Exact, World};
use punctual_simulator::audit::Violation;

/// The fast device's task, and the slow one's, which has no frames of its own in most tests.
const OWN: u16 = 0;
const TAKER: u16 = 1;

/// One network on two devices, a partition each: a stage takes `own` on the first and `taker` on the second.
fn config(own: Nanos, taker: Nanos, deadline: Nanos) -> Config {
    let tasks = vec![
        TaskConfig {
            reserved: false,
            offload_to: Some(TaskId(TAKER)),
            ..task(0, deadline, ms(10))
        },
        TaskConfig {
            reserved: false,
            partition: PartitionId(1),
            ..task(1, ms(50), ms(50))
        },
    ];
    let stage = |time| model(&[vec![(1, time)]], 2);
    let mut config = plan(tasks, vec![stage(own), stage(taker)], ms(1));
    let mut second = config.partitions[0].clone();
    second.units.first = 1;
    config.partitions.push(second);
    config
}

/// Submits a frame now, captured `age` ago, and lets it be prepared.
fn submit(world: &mut World<Exact>, task: u16, age: Nanos) -> u64 {
    let now = world.now;
    let frame = world.frame_captured(task, now, now - age, None);
    world.run_until(world.now).expect("no violation");
    frame
}

fn reply(world: &World<Exact>, frame: u64) -> (Instant, Reply) {
    world.reply(frame).expect("a verdict")
}

fn refused(world: &World<Exact>, frame: u64) -> Rejection {
    match reply(world, frame).1.verdict {
        Verdict::Rejected(reason) => reason,
        other => panic!("{other:?}"),
    }
}

fn counters(world: &World<Exact>, task: u16) -> Counters {
    *world.scheduler.counters(TaskId(task))
}

fn infers(world: &World<Exact>) -> Vec<Infer> {
    let infers = world.log.iter().filter_map(|(_, action)| match action {
        Action::Infer(infer) => Some(infer.clone()),
        _ => None,
    });
    infers.collect()
}

#[test]
fn a_frame_without_slack_on_its_own_device_is_answered_on_time_by_the_other() {
    // Two stages of 2 end by 5 on the own device, one of 4 on the other; the fourth frame is one
    // too many for both.
    let mut world = World::new(config(ms(2), ms(4), ms(5)), Exact);
    let frames: [u64; 4] = std::array::from_fn(|_| submit(&mut world, OWN, Nanos::ZERO));
    world.run_until(at(20)).expect("no violation");
    let answered = |frame| {
        let (when, reply) = reply(&world, frame);
        (when, reply.verdict, reply.task, reply.deadline)
    };
    let on_time = |when| (at(when), Verdict::OnTime, TaskId(OWN), at(5));
    assert_eq!(answered(frames[0]), on_time(2));
    assert_eq!(answered(frames[1]), on_time(4));
    assert_eq!(answered(frames[2]), on_time(4));
    assert_eq!(refused(&world, frames[3]), Rejection::NoSlack);
    let ran = infers(&world);
    let on = |infer: &Infer| (infer.model, infer.partition, infer.criticality);
    let offloaded: Vec<_> = ran.iter().map(on).filter(|on| on.0 == ModelId(1)).collect();
    let there = (ModelId(1), PartitionId(1), Criticality::RealTime);
    assert_eq!((ran.len(), offloaded), (3, vec![there]));
}

#[test]
fn what_becomes_of_a_spilled_frame_is_counted_where_it_was_submitted() {
    let mut world = World::new(config(ms(2), ms(4), ms(5)), Exact);
    for _ in 0..4 {
        submit(&mut world, OWN, Nanos::ZERO);
    }
    assert_eq!(counters(&world, OWN).open, 3);
    world.run_until(at(20)).expect("no violation");
    let counted = counters(&world, OWN);
    let counts = (counted.submitted, counted.on_time, counted.exits[0]);
    assert_eq!(counts, (4, 3, 3), "{counted:?}");
    let counts = (counted.offloaded, counted.rejected_no_slack, counted.open);
    assert_eq!(counts, (1, 1, 0), "{counted:?}");
    assert_eq!(counters(&world, TAKER), Counters::default());
}

#[test]
fn the_input_of_a_spilled_frame_is_prepared_for_the_network_that_will_read_it() {
    let mut world = World::new(config(ms(2), ms(4), ms(5)), Exact);
    for _ in 0..3 {
        submit(&mut world, OWN, Nanos::ZERO);
    }
    let prepared = world.log.iter().filter_map(|(_, action)| match action {
        Action::Prepare { task, .. } => Some(task.0),
        _ => None,
    });
    assert_eq!(prepared.collect::<Vec<_>>(), [OWN, OWN, TAKER]);
}

#[test]
fn frames_that_come_together_are_shared_out_before_any_of_them_is_prepared() {
    // Each would fit alone; what is being prepared for a device counts there.
    let mut world = World::new(config(ms(2), ms(4), ms(5)), Exact);
    let frames: [u64; 3] = std::array::from_fn(|_| world.frame(OWN, at(0)));
    world.run_until(at(20)).expect("no violation");
    for frame in frames {
        assert_eq!(reply(&world, frame).1.verdict, Verdict::OnTime);
    }
    assert_eq!(counters(&world, OWN).offloaded, 1);
}

#[test]
fn a_frame_that_is_late_for_its_own_device_runs_on_a_faster_one() {
    let mut world = World::new(config(ms(4), ms(2), ms(5)), Exact);
    world.run_until(at(10)).expect("no violation");
    let late = submit(&mut world, OWN, ms(3));
    world.run_until(at(20)).expect("no violation");
    let (when, reply) = reply(&world, late);
    assert_eq!((when, reply.verdict), (at(12), Verdict::OnTime));
}

#[test]
fn a_frame_that_would_be_late_on_both_devices_is_refused_once_with_its_own_reason() {
    // Late for its own device; without slack on the other, which is busy until 4.
    let mut world = World::new(config(ms(6), ms(4), ms(5)), Exact);
    submit(&mut world, TAKER, Nanos::ZERO);
    submit(&mut world, TAKER, Nanos::ZERO);
    let frame = submit(&mut world, OWN, Nanos::ZERO);
    assert_eq!(refused(&world, frame), Rejection::LateOnArrival);
    // Without slack on its own device, late for the other.
    let mut world = World::new(config(ms(4), ms(6), ms(5)), Exact);
    submit(&mut world, OWN, Nanos::ZERO);
    let frame = submit(&mut world, OWN, Nanos::ZERO);
    assert_eq!(refused(&world, frame), Rejection::NoSlack);
    world.run_until(at(20)).expect("no violation");
    let verdicts = world.log.iter().filter(
        |(_, action)| matches!(action, Action::Reply(reply) if reply.ticket.sequence == frame),
    );
    assert_eq!(verdicts.count(), 1);
    let counted = counters(&world, OWN);
    assert_eq!((counted.offloaded, counted.rejected()), (0, 1));
}

#[test]
fn a_full_queue_spills_into_the_takers_own_queue_and_no_further() {
    let mut config = config(ms(2), ms(2), ms(40));
    config.tasks[usize::from(OWN)].queue_max = 2;
    config.tasks[usize::from(TAKER)].queue_max = 1;
    let mut world = World::new(config, Exact);
    let frames: [u64; 4] = std::array::from_fn(|_| submit(&mut world, OWN, Nanos::ZERO));
    assert_eq!(refused(&world, frames[3]), Rejection::QueueFull);
    // The taker's place is taken, although no frame of its own is inside.
    let of_the_taker = submit(&mut world, TAKER, Nanos::ZERO);
    assert_eq!(refused(&world, of_the_taker), Rejection::QueueFull);
    world.run_until(at(3)).expect("no violation");
    // Both devices have answered one, so each has a place again.
    let next = [OWN, OWN, TAKER].map(|task| submit(&mut world, task, Nanos::ZERO));
    world.run_until(at(20)).expect("no violation");
    for frame in [frames[0], frames[1], frames[2], next[0], next[1]] {
        assert_eq!(reply(&world, frame).1.verdict, Verdict::OnTime);
    }
    assert_eq!(refused(&world, next[2]), Rejection::QueueFull);
}

#[test]
fn a_reserved_task_on_the_takers_partition_is_never_refused_whatever_spills_there() {
    let mut config = config(ms(2), ms(3), ms(8));
    config.tasks.push(TaskConfig {
        partition: PartitionId(1),
        ..task(2, ms(10), ms(10))
    });
    config.models.push(model(&[vec![(1, ms(4))]], 2));
    let mut world = World::new(config, Exact);
    let mut reserved = vec![];
    for n in 0..20 {
        for k in 0..10 {
            world.run_until(at(10 * n + k)).expect("no violation");
            submit(&mut world, OWN, Nanos::ZERO);
            if k == 3 {
                reserved.push(submit(&mut world, 2, Nanos::ZERO));
            }
        }
    }
    world.drain().expect("nothing lost");
    for frame in reserved {
        assert_eq!(reply(&world, frame).1.verdict, Verdict::OnTime);
    }
    let counted = counters(&world, OWN);
    assert!(
        counted.offloaded > 20 && counted.rejected() > 0,
        "{counted:?}"
    );
}

#[test]
fn draining_refuses_at_once_and_spills_nothing() {
    let mut world = World::new(config(ms(2), ms(2), ms(5)), Exact);
    world.step(&Event::Drain).expect("no violation");
    let frame = submit(&mut world, OWN, Nanos::ZERO);
    assert_eq!(refused(&world, frame), Rejection::Draining);
}

#[test]
fn while_a_device_is_silent_its_frames_are_answered_by_the_other() {
    let config = config(ms(2), ms(4), ms(8));
    let mut scheduler =
        Scheduler::new(&config, &PunctualConfig::default()).expect("the plan is valid");
    let mut actions = Actions::for_config(&config);
    let mut step = |now, event: Event| {
        actions.clear();
        scheduler.step(now, &event, &mut actions);
        actions.iter().cloned().collect::<Vec<Action>>()
    };
    let arrived = |now, sequence| {
        Event::Arrived(Arrival {
            task: TaskId(OWN),
            ticket: Ticket {
                client: ClientId(0),
                slot: 0,
                part: 0,
                sequence,
            },
            captured: now,
            deadline: None,
            egress: Nanos::ZERO,
        })
    };
    let order = step(at(0), arrived(at(0), 1));
    let [Action::Prepare { request, .. }] = order[..] else {
        panic!("{order:?}");
    };
    let prepared = Event::Prepared {
        request,
        measured: Nanos::ZERO,
        ready: Ok(()),
    };
    assert!(matches!(step(at(0), prepared)[..], [Action::Infer(_)]));
    // Sixteen times 2 and 100 later the action counts as lost.
    let lost = step(at(140), Event::Tick);
    assert!(matches!(lost[..], [Action::Reply(_)]), "{lost:?}");
    let order = step(at(141), arrived(at(141), 2));
    let [Action::Prepare { task, .. }] = order[..] else {
        panic!("{order:?}");
    };
    assert_eq!(task, TaskId(TAKER));
}

#[test]
fn a_frame_that_is_prepared_for_a_task_it_may_not_spill_to_is_found() {
    let mut config = config(ms(2), ms(2), ms(5));
    config.tasks[usize::from(OWN)].offload_to = None;
    let mut world = World::new(config, Exact);
    world.tamper = Some(|actions| {
        for action in actions {
            if let Action::Prepare { task, .. } = action {
                *task = TaskId(TAKER);
            }
        }
    });
    world.frame(OWN, at(0));
    let found = world.run_until(at(20));
    let named = matches!(
        found,
        Err(Violation::UnaskedPreparation {
            task: TaskId(TAKER)
        })
    );
    assert!(named, "{found:?}");
}

#[test]
fn a_verdict_that_names_the_taker_is_found() {
    let mut world = World::new(config(ms(6), ms(2), ms(5)), Exact);
    world.tamper = Some(|actions| {
        for action in actions {
            if let Action::Reply(reply) = action {
                reply.task = TaskId(TAKER);
            }
        }
    });
    world.frame(OWN, at(0));
    let found = world.run_until(at(20));
    let named = matches!(found, Err(Violation::VerdictWithoutSubmission { .. }));
    assert!(named, "{found:?}");
}

#[test]
fn a_spill_that_could_not_keep_what_it_takes_on_is_refused_with_the_plan() {
    let reason = |change: fn(&mut Config)| {
        let mut config = config(ms(2), ms(4), ms(5));
        change(&mut config);
        match Scheduler::new(&config, &PunctualConfig::default()).expect_err("the plan is wrong") {
            ConfigError::Offload { task, reason, .. } => {
                assert_eq!(task, TaskId(OWN));
                reason
            }
            other => panic!("{other}"),
        }
    };
    assert_eq!(
        reason(|c| c.tasks[0].offload_to = Some(TaskId(7))),
        "there is no such task; name a task of the plan"
    );
    assert_eq!(
        reason(|c| c.tasks[0].offload_to = Some(TaskId(0))),
        "a task cannot offload to itself; name another task"
    );
    assert_eq!(
        reason(|c| c.tasks[0].criticality = Criticality::BestEffort),
        "a best-effort task cannot offload, as its frames would become real-time work; remove offload_to"
    );
    assert_eq!(
        reason(|c| c.tasks[1].criticality = Criticality::BestEffort),
        "the other task is best-effort and cannot promise a deadline; name a real-time task"
    );
    assert_eq!(
        reason(|c| c.tasks[1].reserved = true),
        "the other task's capacity is reserved for its own frames; give it reserved = false"
    );
    assert_eq!(
        reason(|c| {
            let third = TaskConfig {
                offload_to: None,
                ..c.tasks[1].clone()
            };
            c.tasks.push(third);
            c.tasks[1].offload_to = Some(TaskId(2));
        }),
        "the other task has an offload_to itself, and a frame is offloaded once; remove one of the two"
    );
    assert_eq!(
        reason(|c| c.models[1] = model(&[vec![(1, ms(2))], vec![(1, ms(2))]], 2)),
        "the networks of the two tasks have exits at different stages; use the same network"
    );
    assert_eq!(
        reason(|c| {
            for of in &mut c.models {
                *of = model(&[vec![(1, ms(1))], vec![(1, ms(1))]], 2);
            }
            c.tasks[0].mandatory_exit = StageId(1);
        }),
        "the other task's mandatory_exit is shallower, so its answers might not count; make it as deep"
    );
}
