//! Which requests are admitted.

use super::plans::{at, best_effort, model_alone, ms, plan, task};
use punctual_core::{
    ClientId, Config, ConfigError, Criticality, Event, Failure, Instant, PunctualConfig, Rejection,
    Scheduler, TaskConfig, TaskId, Verdict, offline,
};
use punctual_policy_testing::world::{Exact, World};

/// A reserved task, an unreserved one with a long deadline, and a best-effort one; 2 each.
fn config() -> Config {
    let tasks = vec![
        TaskConfig {
            prepare: ms(1),
            ..task(0, ms(10), ms(10))
        },
        TaskConfig {
            reserved: false,
            ..task(0, ms(500), ms(10))
        },
        best_effort(0),
    ];
    plan(tasks, vec![model_alone(&[ms(2)])], ms(1))
}

fn verdict(world: &World<Exact>, frame: u64) -> (Instant, Verdict) {
    let (when, reply) = world.reply(frame).expect("answered");
    (when, reply.verdict)
}

#[test]
fn a_frame_that_cannot_be_on_time_even_alone_is_rejected_before_its_payload_is_touched() {
    let mut world = World::new(config(), Exact);
    // 10 - 7 = 3 is just enough for 1 to prepare and 2 to run.
    let possible = world.frame_captured(0, at(17), at(10), None);
    let hopeless = world.frame_captured(0, at(48), at(40), None);
    world.run_until(at(60)).expect("no violation");
    assert_eq!(verdict(&world, possible).1, Verdict::OnTime);
    let late = Verdict::Rejected(Rejection::LateOnArrival);
    assert_eq!(verdict(&world, hopeless), (at(48), late));
    let (_, reply) = world.reply(hopeless).expect("answered");
    assert_eq!(reply.request, None, "it never had a buffer");
}

#[test]
fn a_reserved_task_finds_a_buffer_however_many_frames_the_others_send() {
    let mut config = config();
    // Two are kept for the reserved task, so two are left.
    config.request_buffers = 4;
    let mut world = World::new(config, Exact);
    let others: [u64; 6] = std::array::from_fn(|n| world.frame(1 + n as u16 % 2, at(0)));
    let reserved = world.frame(0, at(0));
    world.run_until(at(100)).expect("no violation");
    assert_eq!(verdict(&world, reserved).1, Verdict::OnTime);
    let full = Verdict::Rejected(Rejection::QueueFull);
    let refused = others.iter().filter(|&&f| verdict(&world, f).1 == full);
    assert_eq!(refused.count(), 4);
}

#[test]
fn a_task_has_no_more_requests_inside_than_its_queue_holds() {
    let mut config = config();
    config.tasks[1].queue_max = 3;
    let mut world = World::new(config, Exact);
    let frames: [u64; 5] = std::array::from_fn(|_| world.frame(1, at(0)));
    world.run_until(at(0)).expect("no violation");
    let full = Verdict::Rejected(Rejection::QueueFull);
    assert_eq!(verdict(&world, frames[3]), (at(0), full));
    assert_eq!(verdict(&world, frames[4]), (at(0), full));
    assert_eq!(world.scheduler.counters(TaskId(1)).open, 3);
}

#[test]
fn a_client_gains_nothing_from_a_capture_time_that_it_made_up() {
    // Two frames at once, the first said to be a period old: without the clamp both would be
    // conforming, and both be taken on without a test.
    let mut world = World::new(config(), Exact);
    world.run_until(at(100)).expect("no violation");
    world.frame_captured(0, at(100), at(90), None);
    world.frame_captured(0, at(100), at(93), None);
    world.frame_captured(0, at(100), at(100), None);
    world.frame_captured(0, at(100), at(900), None);
    world.run_until(at(130)).expect("no violation");
    let counters = world.scheduler.counters(TaskId(0));
    assert_eq!(counters.conforming, 1);
    assert_eq!(counters.submitted, 4);
}

#[test]
fn extras_never_use_up_the_reservation() {
    let mut world = World::new(config(), Exact);
    let mut reserved = vec![];
    for n in 0..5 {
        reserved.push(world.frame(0, at(10 * n)));
        for _ in 0..8 {
            world.frame_captured(0, at(10 * n + 1), at(10 * n), None);
        }
    }
    world.run_until(at(100)).expect("no violation");
    for frame in reserved {
        assert_eq!(verdict(&world, frame).1, Verdict::OnTime);
    }
    let counters = world.scheduler.counters(TaskId(0));
    assert!(counters.rejected() > 0, "{counters:?}");
}

#[test]
fn a_client_that_is_gone_costs_only_its_own_requests() {
    let mut world = World::new(config(), Exact);
    let running = world.frame(0, at(0));
    let waiting = world.frame(1, at(0));
    world.run_until(at(1)).expect("no violation");
    for client in [0, 1] {
        let client = ClientId(client);
        world
            .step(&Event::ClientGone { client })
            .expect("no violation");
    }
    let other = world.frame(2, at(1));
    world.run_until(at(20)).expect("no violation");
    let gone = Verdict::Failed(Failure::ClientGone);
    // What runs keeps its buffer until it has ended.
    assert_eq!(verdict(&world, running), (at(2), gone));
    assert_eq!(verdict(&world, waiting), (at(1), gone));
    assert_eq!(verdict(&world, other), (at(4), Verdict::OnTime));
    assert_eq!(world.scheduler.open(), 0);
}

#[test]
fn draining_answers_what_was_accepted_and_rejects_what_comes() {
    let mut world = World::new(config(), Exact);
    let accepted = [world.frame(0, at(0)), world.frame(2, at(0))];
    world.run_until(at(1)).expect("no violation");
    world.step(&Event::Drain).expect("no violation");
    assert!(!world.scheduler.drained());
    let refused = world.frame(0, at(2));
    world.run_until(at(20)).expect("no violation");
    for frame in accepted {
        assert_eq!(verdict(&world, frame).1, Verdict::OnTime);
    }
    let draining = Verdict::Rejected(Rejection::Draining);
    assert_eq!(verdict(&world, refused), (at(2), draining));
    assert!(world.scheduler.drained());
}

#[test]
fn a_plan_that_cannot_keep_its_promises_is_refused_with_the_reason() {
    let mut config = config();
    config.models[0] = model_alone(&[ms(6)]);
    let error =
        Scheduler::new(&config, &PunctualConfig::default()).expect_err("6 and 6 of blocking in 10");
    let ConfigError::Infeasible {
        reason: offline::Infeasible::Overload(point),
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (point.length, point.demand, point.blocking),
        (ms(10), ms(6), ms(6))
    );
}

#[test]
fn what_is_beyond_the_reservations_leaves_the_operating_system_its_share_of_the_time() {
    let mut config = config();
    config.partitions[0].share_max = 900;
    let mut world = World::new(config, Exact);
    let mut reserved = vec![];
    // Asks for all of a second, of which 200 ms are reserved.
    for n in 0..100 {
        reserved.push(world.frame(0, at(10 * n)));
        for k in 0..4 {
            world.frame(1, at(10 * n + 2 * k));
        }
    }
    world.run_until(at(1_000)).expect("no violation");
    for frame in reserved {
        assert_eq!(verdict(&world, frame).1, Verdict::OnTime);
    }
    let busy: usize = world.orders_of(Criticality::RealTime).len() * 2;
    assert!((850..=915).contains(&busy), "{busy} ms of 1000");
    assert!(world.scheduler.counters(TaskId(1)).rejected() > 0);
}

/// Two reserved tasks, 4 and 5 of each 10, the first with a jitter of 1.
fn nearly_full() -> Config {
    let first = TaskConfig {
        jitter: ms(1),
        ..task(0, ms(10), ms(10))
    };
    let models = vec![model_alone(&[ms(4)]), model_alone(&[ms(5)])];
    plan(vec![first, task(1, ms(10), ms(10))], models, ms(1))
}

#[test]
fn a_frame_that_comes_late_takes_nothing_from_the_one_that_comes_in_time_after_it() {
    let mut world = World::new(nearly_full(), Exact);
    let mut frames = vec![];
    for n in 0..10 {
        // Every other one comes 2 later than the jitter allows for.
        let late = if n % 2 == 0 { 3 } else { 0 };
        frames.push(world.frame_captured(0, at(10 * n + late), at(10 * n), None));
        frames.push(world.frame(1, at(10 * n)));
    }
    world.run_until(at(120)).expect("no violation");
    for frame in frames {
        assert_eq!(verdict(&world, frame).1, Verdict::OnTime);
    }
    assert_eq!(world.scheduler.counters(TaskId(0)).conforming, 10);
}

#[test]
fn a_late_frame_that_would_cost_the_next_one_its_reservation_is_refused() {
    let mut config = nearly_full();
    config.tasks.push(TaskConfig {
        reserved: false,
        ..task(2, ms(14), ms(10))
    });
    config.models[0] = model_alone(&[ms(3)]);
    config.models.push(model_alone(&[ms(1)]));
    let mut world = World::new(config, Exact);
    let mut in_time = vec![world.frame(1, at(0))];
    // All that fits before the late frame comes.
    in_time.extend((0..7).map(|_| world.frame(2, at(4))));
    // It could be answered by 10, at the cost of the next one.
    let late = world.frame_captured(0, at(6), at(0), None);
    in_time.extend([world.frame(0, at(10)), world.frame(1, at(10))]);
    world.run_until(at(40)).expect("no violation");
    for frame in in_time {
        assert_eq!(verdict(&world, frame).1, Verdict::OnTime);
    }
    let no_slack = Verdict::Rejected(Rejection::NoSlack);
    assert_eq!(verdict(&world, late), (at(6), no_slack));
}

#[test]
fn frames_that_come_too_often_gain_nothing_by_coming_late() {
    let mut world = World::new(nearly_full(), Exact);
    let mut kept = vec![];
    for n in 0..10 {
        kept.push(world.frame(0, at(10 * n)));
        kept.push(world.frame(1, at(10 * n)));
        // Captured in between, and late.
        world.frame_captured(0, at(10 * n + 8), at(10 * n + 4), None);
    }
    world.run_until(at(120)).expect("no violation");
    for frame in kept {
        assert_eq!(verdict(&world, frame).1, Verdict::OnTime);
    }
}
