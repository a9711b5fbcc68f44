//! Requests with one capture time: a reservation is for all of them.

use super::plans::{at, model_alone, ms, plan, task};
use punctual_core::{Config, Delivery, Event, Rejection, TaskConfig, TaskId, Verdict};
use punctual_policy_testing::world::{Exact, World};

/// Task 0 has bursts of three, 2 each, due within 12, one burst in 20; task 1 has no reservation.
fn config(takes: u64) -> Config {
    let crops = TaskConfig {
        burst: 3,
        ..task(0, ms(12), ms(20))
    };
    let other = TaskConfig {
        reserved: false,
        ..task(1, ms(12), ms(20))
    };
    plan(
        vec![crops, other],
        vec![model_alone(&[ms(2)]), model_alone(&[ms(takes)])],
        ms(1),
    )
}

fn verdict(world: &World<Exact>, frame: u64) -> Verdict {
    let (_, reply) = world.reply(frame).expect("it has a verdict");
    reply.verdict
}

#[test]
fn each_request_of_a_burst_conforms_and_so_does_the_next_burst_a_period_later() {
    let mut world = World::new(config(5), Exact);
    let bursts = [0, 20].map(|start| [(); 3].map(|()| world.frame(0, at(start))));
    world.run_until(at(60)).expect("no violation");
    for frame in bursts.into_iter().flatten() {
        assert_eq!(verdict(&world, frame), Verdict::OnTime);
    }
    assert_eq!(world.scheduler.counters(TaskId(0)).conforming, 6);
}

#[test]
fn more_requests_than_a_burst_has_and_others_before_the_period_is_over_are_extras() {
    let mut world = World::new(config(5), Exact);
    let frames = [0, 0, 0, 0, 10].map(|start| world.frame(0, at(start)));
    world.run_until(at(60)).expect("no violation");
    for frame in frames {
        assert_eq!(verdict(&world, frame), Verdict::OnTime);
    }
    assert_eq!(world.scheduler.counters(TaskId(0)).conforming, 3);
}

#[test]
fn what_a_burst_leaves_of_its_reservation_is_free_once_that_is_known() {
    let other_beside = |announced: Option<u8>| {
        let mut world = World::new(config(7), Exact);
        if let Some(requests) = announced {
            let (task, captured) = (TaskId(0), at(0));
            let burst = Event::Burst {
                task,
                captured,
                requests,
            };
            world.schedule(at(0), burst);
        }
        world.frame(0, at(0));
        // It takes 7, and what is reserved 6 of the 12 until the burst is due.
        let other = world.frame_captured(1, at(0), at(0), Some(at(9)));
        world.run_until(at(60)).expect("no violation");
        verdict(&world, other)
    };
    assert_eq!(other_beside(None), Verdict::Rejected(Rejection::NoSlack));
    assert_eq!(other_beside(Some(3)), Verdict::Rejected(Rejection::NoSlack));
    assert_eq!(other_beside(Some(1)), Verdict::OnTime);
}

#[test]
fn a_further_frame_with_the_same_capture_time_takes_nothing_from_the_first() {
    let mut world = World::new(config(5), Exact);
    for requests in [2, 0] {
        let (task, captured) = (TaskId(0), at(0));
        let burst = Event::Burst {
            task,
            captured,
            requests,
        };
        world.schedule(at(0), burst);
    }
    world.frame(0, at(0));
    world.frame(0, at(0));
    world.run_until(at(60)).expect("no violation");
    assert_eq!(world.scheduler.counters(TaskId(0)).conforming, 2);
}

#[test]
fn the_next_burst_may_begin_while_requests_of_the_last_are_still_to_come() {
    let mut config = config(5);
    config.tasks[0].jitter = ms(25);
    config.tasks[0].deadline = Some(ms(40));
    let mut world = World::new(config, Exact);
    for captured in [0, 20] {
        let burst = Event::Burst {
            task: TaskId(0),
            captured: at(captured),
            requests: 2,
        };
        world.schedule(at(20), burst);
    }
    for captured in [0, 20, 0, 20] {
        world.frame_captured(0, at(21), at(captured), None);
    }
    world.run_until(at(80)).expect("no violation");
    assert_eq!(world.scheduler.counters(TaskId(0)).conforming, 4);
}

#[test]
fn nothing_comes_of_a_frame_in_which_nothing_was_found_and_its_period_is_over_all_the_same() {
    let mut world = World::new(config(5), Exact);
    let none = Event::Burst {
        task: TaskId(0),
        captured: at(0),
        requests: 0,
    };
    world.schedule(at(0), none);
    // Captured too early to conform: the burst of 0 was the last.
    world.frame(0, at(10));
    world.frame(0, at(20));
    world.run_until(at(60)).expect("no violation");
    assert_eq!(world.scheduler.counters(TaskId(0)).conforming, 1);
}

#[test]
fn a_burst_that_is_announced_before_an_older_one_takes_its_place() {
    // So the daemon hands over frames in the order in which they arrived (docs/proof.md).
    let conforming = |announced: [u64; 2]| {
        let mut config = config(5);
        config.tasks[0].jitter = ms(22);
        config.tasks[0].deadline = Some(ms(40));
        let mut world = World::new(config, Exact);
        for (told, captured) in [20, 21].into_iter().zip(announced) {
            let burst = Event::Burst {
                task: TaskId(0),
                captured: at(captured),
                requests: 3,
            };
            world.schedule(at(told), burst);
            world.frame_captured(0, at(told), at(captured), None);
        }
        world.run_until(at(60)).expect("no violation");
        world.scheduler.counters(TaskId(0)).conforming
    };
    assert_eq!(conforming([0, 20]), 2);
    assert_eq!(conforming([20, 0]), 1);
}

#[test]
fn the_newest_burst_replaces_an_older_one_as_a_whole_and_no_part_of_its_own() {
    let mut config = config(5);
    config.tasks[0].delivery = Delivery::LatestFrame;
    let mut world = World::new(config, Exact);
    world.frame(1, at(0));
    let older = [(); 3].map(|()| world.frame(0, at(1)));
    let newer = [(); 3].map(|()| world.frame(0, at(3)));
    world.run_until(at(60)).expect("no violation");
    let superseded = Verdict::Rejected(Rejection::Superseded);
    assert_eq!(older.map(|frame| verdict(&world, frame)), [superseded; 3]);
    assert_eq!(
        newer.map(|frame| verdict(&world, frame)),
        [Verdict::OnTime; 3]
    );
}
