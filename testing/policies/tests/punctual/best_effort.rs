//! Work in the gaps.

use super::plans::{at, best_effort, model, model_alone, ms, plan, task};
use punctual_core::{Confidence, Criticality, Rejection, TaskConfig, TaskId, Verdict};
use punctual_policy_testing::world::{Exact, World};

#[test]
fn real_time_work_waits_for_best_effort_work_no_longer_than_the_preemption_bound() {
    let tasks = vec![task(0, ms(10), ms(10)), best_effort(1)];
    let models = vec![model_alone(&[ms(2)]), model_alone(&[ms(50)])];
    let mut world = World::new(plan(tasks, models, ms(1)), Exact);
    world.frame(1, at(0));
    world.frame(0, at(5));
    world.run_until(at(100)).expect("no violation");
    assert_eq!(world.orders_of(Criticality::RealTime), [(0, 0, 1, at(6))]);
    // Stopped, and run again from its inputs.
    let runs: Vec<_> = world
        .orders_of(Criticality::BestEffort)
        .iter()
        .map(|o| o.3)
        .collect();
    assert_eq!(runs, [at(0), at(8)]);
    assert_eq!(world.scheduler.counters(TaskId(1)).preempted, 1);
    assert_eq!(world.scheduler.counters(TaskId(1)).on_time, 1);
}

#[test]
fn tasks_share_the_gaps_by_time_not_by_requests() {
    // One asks for 1, the other for 4 at a time; both always wait.
    let alone = |model| TaskConfig {
        batch_max: 1,
        queue_max: 60,
        ..best_effort(model)
    };
    let models = vec![model_alone(&[ms(1)]), model_alone(&[ms(4)])];
    let mut world = World::new(plan(vec![alone(0), alone(1)], models, ms(1)), Exact);
    for _ in 0..40 {
        world.frame(0, at(0));
    }
    for _ in 0..20 {
        world.frame(1, at(0));
    }
    world.run_until(at(40)).expect("no violation");
    let orders = world.orders_of(Criticality::BestEffort);
    let time = |task| orders.iter().filter(|o| o.0 == task).count() * [1, 4][usize::from(task)];
    assert!((16..=24).contains(&time(0)), "{} of 40", time(0));
    assert!((16..=24).contains(&time(1)), "{} of 40", time(1));
}

#[test]
fn a_gap_goes_to_the_batch_that_costs_least_a_member() {
    let models = vec![model(&[vec![(1, ms(4)), (2, ms(5)), (4, ms(12))]], 1)];
    let mut world = World::new(plan(vec![best_effort(0)], models, ms(1)), Exact);
    for _ in 0..4 {
        world.frame(0, at(0));
    }
    world.run_until(at(100)).expect("no violation");
    // The first came alone; then 2 at 5 beats 3 at 12.
    let members: Vec<_> = world
        .orders_of(Criticality::BestEffort)
        .iter()
        .map(|o| o.2)
        .collect();
    assert_eq!(members, [1, 2, 1]);
}

#[test]
fn best_effort_requests_whose_deadline_no_gap_came_for_are_rejected_then() {
    let impatient = TaskConfig {
        deadline: Some(ms(6)),
        ..best_effort(1)
    };
    let tasks = vec![task(0, ms(20), ms(20)), impatient];
    let models = vec![model_alone(&[ms(8)]), model_alone(&[ms(2)])];
    let mut world = World::new(plan(tasks, models, ms(1)), Exact);
    world.frame(0, at(0));
    let frame = world.frame(1, at(0));
    world.run_until(at(20)).expect("no violation");
    let (when, reply) = world.reply(frame).expect("answered");
    assert_eq!(reply.verdict, Verdict::Rejected(Rejection::NoSlack));
    assert_eq!(when, at(4), "as soon as it is hopeless");
}

#[test]
fn best_effort_work_that_is_stopped_again_and_again_gets_through_in_smaller_batches() {
    // A real-time frame each 10 leaves gaps of 9: a batch of four takes 16 and never ends.
    let tasks = vec![
        task(0, ms(10), ms(10)),
        TaskConfig {
            batch_max: 4,
            ..best_effort(1)
        },
    ];
    let sizes = vec![(1, ms(4)), (2, ms(8)), (4, ms(16))];
    let models = vec![model_alone(&[ms(1)]), model(&[sizes], 1)];
    let mut world = World::new(plan(tasks, models, ms(1)), Exact);
    for n in 0..40 {
        world.frame(0, at(10 * n));
    }
    for _ in 0..12 {
        world.frame(1, at(1));
    }
    world.run_until(at(400)).expect("no violation");
    assert_eq!(world.scheduler.counters(TaskId(1)).on_time, 12);
}

/// A real-time frame at 5 meets one of two best-effort stages of 4; both are unsure throughout.
fn interrupted(task_two: TaskConfig) -> (u64, u8) {
    let tasks = vec![task(0, ms(10), ms(10)), task_two];
    let models = vec![model_alone(&[ms(2)]), model_alone(&[ms(4), ms(4)])];
    let mut world = World::new(plan(tasks, models, ms(1)), Exact);
    let frame = world.frame(1, at(0));
    world.frame(0, at(5));
    world.run_until(at(100)).expect("no violation");
    let (when, reply) = world.reply(frame).expect("answered");
    let (exit, _) = reply.answer.expect("an answer");
    assert_eq!(reply.verdict, Verdict::OnTime);
    (when.as_nanos() / 1_000_000, exit.0)
}

#[test]
fn a_best_effort_request_without_a_deadline_does_not_wait_for_depth() {
    assert_eq!(interrupted(best_effort(1)), (6, 0));
}

#[test]
fn a_best_effort_request_with_a_deadline_waits_for_depth_until_then() {
    let patient = TaskConfig {
        deadline: Some(ms(50)),
        ..best_effort(1)
    };
    assert_eq!(interrupted(patient), (12, 1));
}

#[test]
fn a_best_effort_answer_below_the_least_threshold_goes_deeper_in_the_next_gap() {
    let choosy = TaskConfig {
        threshold_min: Confidence(u16::MAX / 2),
        ..best_effort(1)
    };
    assert_eq!(interrupted(choosy), (12, 1));
}

/// A real-time frame and a best-effort one come together; the answer of the first exit is unsure. When and by
/// which exit each is answered.
fn contested(threshold_min: Confidence) -> [(u64, u8); 2] {
    let deep = TaskConfig {
        threshold_min,
        ..task(0, ms(40), ms(40))
    };
    let tasks = vec![deep, best_effort(1)];
    let models = vec![model_alone(&[ms(2), ms(6)]), model_alone(&[ms(3), ms(5)])];
    let mut world = World::new(plan(tasks, models, ms(1)), Exact);
    let frames = [world.frame(0, at(0)), world.frame(1, at(0))];
    world.run_until(at(100)).expect("no violation");
    frames.map(|frame| {
        let (when, reply) = world.reply(frame).expect("answered");
        let (exit, _) = reply.answer.expect("an answer");
        (when.as_nanos() / 1_000_000, exit.0)
    })
}

#[test]
fn a_first_answer_of_best_effort_work_comes_before_depth_beyond_the_least_threshold() {
    let enough = Confidence(0);
    assert_eq!(contested(enough), [(11, 1), (5, 0)]);
}

#[test]
fn depth_below_the_least_threshold_comes_before_best_effort_work() {
    let too_little = Confidence(u16::MAX / 2);
    assert_eq!(contested(too_little), [(8, 1), (16, 1)]);
}
