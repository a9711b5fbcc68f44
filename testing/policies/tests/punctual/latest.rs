//! The newest frame instead of one that still waits.

use super::plans::{at, best_effort, model_alone, ms, plan, task};
use punctual_core::{
    Arrival, ClientId, Config, Criticality, Delivery, Event, Instant, Nanos, Rejection, TaskConfig,
    TaskId, Ticket, Verdict,
};
use punctual_policy_testing::world::{Exact, Nature, World};

const SUPERSEDED: Verdict = Verdict::Rejected(Rejection::Superseded);

fn latest(task: TaskConfig) -> TaskConfig {
    TaskConfig {
        delivery: Delivery::LatestFrame,
        ..task
    }
}

/// Task 0 wants the latest frame (2 each 20); task 1 takes 8 at a time.
fn hurried() -> Config {
    let tasks = vec![latest(task(0, ms(20), ms(20))), task(1, ms(30), ms(30))];
    plan(
        tasks,
        vec![model_alone(&[ms(2)]), model_alone(&[ms(8)])],
        ms(1),
    )
}

fn verdict<N: Nature>(world: &World<N>, frame: u64) -> (Instant, Verdict) {
    let (when, reply) = world.reply(frame).expect("it has a verdict");
    (when, reply.verdict)
}

#[test]
fn a_newer_frame_takes_the_place_of_one_that_waits() {
    let mut world = World::new(hurried(), Exact);
    world.frame(1, at(0));
    let frames: Vec<u64> = (1..=3).map(|n| world.frame(0, at(n))).collect();
    world.run_until(at(50)).expect("no violation");
    let verdicts: Vec<_> = frames.iter().map(|&f| verdict(&world, f)).collect();
    let expected = [
        (at(2), SUPERSEDED),
        (at(3), SUPERSEDED),
        (at(10), Verdict::OnTime),
    ];
    assert_eq!(verdicts, expected);
    let counters = world.scheduler.counters(TaskId(0));
    assert_eq!((counters.rejected_superseded, counters.on_time), (2, 1));
}

#[test]
fn with_every_frame_each_is_answered() {
    let mut config = hurried();
    config.tasks[0].delivery = Delivery::EveryFrame;
    let mut world = World::new(config, Exact);
    world.frame(1, at(0));
    let frames: Vec<u64> = (1..=3).map(|n| world.frame(0, at(n))).collect();
    world.run_until(at(50)).expect("no violation");
    for frame in frames {
        assert_eq!(verdict(&world, frame).1, Verdict::OnTime);
    }
}

#[test]
fn a_frame_whose_first_stage_was_ordered_keeps_its_turn() {
    let mut world = World::new(hurried(), Exact);
    let begun = world.frame(0, at(0));
    let newer = world.frame(0, at(1));
    world.run_until(at(50)).expect("no violation");
    assert_eq!(verdict(&world, begun), (at(2), Verdict::OnTime));
    assert_eq!(verdict(&world, newer), (at(4), Verdict::OnTime));
}

#[test]
fn a_newer_frame_that_is_refused_leaves_the_older_one_where_it_is() {
    let mut world = World::new(hurried(), Exact);
    world.frame(1, at(0));
    let older = world.frame(0, at(1));
    // It would have to be done before the partition is free.
    let hasty = world.frame_captured(0, at(2), at(2), Some(at(9)));
    world.run_until(at(50)).expect("no violation");
    let refused = Verdict::Rejected(Rejection::NoSlack);
    assert_eq!(verdict(&world, hasty), (at(2), refused));
    assert_eq!(verdict(&world, older), (at(10), Verdict::OnTime));
}

#[test]
fn a_newer_frame_with_an_earlier_deadline_is_tested_and_the_older_one_goes() {
    let mut world = World::new(hurried(), Exact);
    world.frame(1, at(0));
    let older = world.frame(0, at(1));
    let hasty = world.frame_captured(0, at(2), at(2), Some(at(15)));
    world.run_until(at(50)).expect("no violation");
    assert_eq!(verdict(&world, older), (at(2), SUPERSEDED));
    assert_eq!(verdict(&world, hasty), (at(10), Verdict::OnTime));
}

#[test]
fn another_clients_frame_is_left_alone() {
    let mut world = World::new(hurried(), Exact);
    world.frame(1, at(0));
    let own = world.frame(0, at(1));
    let ticket = Ticket {
        client: ClientId(7),
        slot: 0,
        part: 0,
        sequence: 1_000,
    };
    let arrival = Arrival {
        task: TaskId(0),
        ticket,
        captured: at(2),
        deadline: None,
        egress: Nanos::ZERO,
    };
    world.schedule(at(2), Event::Arrived(arrival));
    world.run_until(at(50)).expect("no violation");
    assert_eq!(verdict(&world, own), (at(10), Verdict::OnTime));
    assert_eq!(verdict(&world, 1_000).1, Verdict::OnTime);
}

#[test]
fn who_hurries_keeps_the_turn_of_the_first_frame_and_does_not_starve() {
    let mut config = hurried();
    config.tasks.push(task(2, ms(19), ms(40)));
    config.models.push(model_alone(&[ms(3)]));
    let mut world = World::new(config, Exact);
    world.frame(1, at(0));
    let first = world.frame(0, at(1));
    // Due at 25: after the first frame, before the second.
    let between = world.frame(2, at(6));
    let second = world.frame(0, at(7));
    world.run_until(at(50)).expect("no violation");
    assert_eq!(verdict(&world, first), (at(7), SUPERSEDED));
    assert_eq!(verdict(&world, second), (at(10), Verdict::OnTime));
    assert_eq!(verdict(&world, between), (at(13), Verdict::OnTime));
}

/// The first preparation takes long.
#[derive(Clone, Debug)]
struct SlowStart(bool);

impl Nature for SlowStart {
    fn preparation(&mut self, task: TaskId) -> Nanos {
        let slow = task == TaskId(0) && std::mem::take(&mut self.0);
        ms(if slow { 5 } else { 0 })
    }
}

#[test]
fn a_frame_that_is_still_being_prepared_goes_when_the_intake_lets_go_of_it() {
    let mut config = hurried();
    config.tasks[0].jitter = ms(5);
    let mut world = World::new(config, SlowStart(true));
    world.frame(1, at(0));
    let slow = world.frame(0, at(1));
    let newer = world.frame(0, at(2));
    world.run_until(at(50)).expect("no violation");
    assert_eq!(verdict(&world, slow), (at(6), SUPERSEDED));
    assert_eq!(verdict(&world, newer), (at(10), Verdict::OnTime));
}

#[test]
fn best_effort_work_takes_the_place_in_line() {
    let tasks = vec![
        task(0, ms(30), ms(30)),
        latest(best_effort(1)),
        best_effort(2),
    ];
    let models = [8, 2, 2].map(|time| model_alone(&[ms(time)])).to_vec();
    let mut world = World::new(plan(tasks, models, ms(1)), Exact);
    world.frame(0, at(0));
    let older = world.frame(1, at(1));
    let other = world.frame(2, at(2));
    let newer = world.frame(1, at(3));
    world.run_until(at(50)).expect("no violation");
    assert_eq!(verdict(&world, older), (at(3), SUPERSEDED));
    let order: Vec<u16> = world
        .orders_of(Criticality::BestEffort)
        .iter()
        .map(|order| order.0)
        .collect();
    assert_eq!(order, [1, 2]);
    assert_eq!(verdict(&world, newer).1, Verdict::OnTime);
    assert_eq!(verdict(&world, other).1, Verdict::OnTime);
}

#[test]
fn a_newer_frame_that_begins_now_or_not_at_all_ends_no_other_ones_wait() {
    let mut hurried = latest(best_effort(1));
    hurried.deadline = Some(ms(20));
    let tasks = vec![task(0, ms(30), ms(30)), hurried];
    let models = [9, 2].map(|time| model_alone(&[ms(time)])).to_vec();
    let mut world = World::new(plan(tasks, models, ms(1)), Exact);
    world.frame(0, at(0));
    let older = world.frame(1, at(1));
    let newer = world.frame_captured(1, at(8), at(8), Some(at(10)));
    world.run_until(at(50)).expect("no violation");
    let refused = Verdict::Rejected(Rejection::NoSlack);
    assert_eq!(verdict(&world, newer), (at(8), refused));
    assert_eq!(verdict(&world, older), (at(11), Verdict::OnTime));
}
