//! How deep a request goes.

use super::SURE;
use super::plans::{at, best_effort, model, model_alone, ms, plan, task};
use punctual_core::{
    Answers, Confidence, Criticality, Infer, Nanos, StageId, StageTime, TaskConfig, TaskId, Verdict,
};
use punctual_policy_testing::world::{Nature, UNSURE, World};

/// Exact times; sure at one exit and unsure before.
#[derive(Clone, Debug)]
struct SureAt(StageId);

impl Nature for SureAt {
    fn confidence(&mut self, infer: &Infer) -> Confidence {
        if infer.stage == self.0 { SURE } else { UNSURE }
    }
}

fn exit_and_time(world: &World<SureAt>, frame: u64) -> (u8, u64) {
    let (when, reply) = world.reply(frame).expect("answered");
    assert_eq!(reply.verdict, Verdict::OnTime);
    let (exit, _) = reply.answer.expect("on time");
    (exit.0, when.as_nanos() / 1_000_000)
}

fn alone(sure_at: u8, mandatory: u8, deadline: u64) -> (u8, u64) {
    let tasks = vec![TaskConfig {
        mandatory_exit: StageId(mandatory),
        ..task(0, ms(deadline), ms(100))
    }];
    let models = vec![model_alone(&[ms(2), ms(2), ms(2)])];
    let mut world = World::new(plan(tasks, models, ms(1)), SureAt(StageId(sure_at)));
    let frame = world.frame(0, at(0));
    world.run_until(at(100)).expect("no violation");
    exit_and_time(&world, frame)
}

#[test]
fn a_sure_answer_ends_the_request() {
    assert_eq!(alone(1, 0, 50), (1, 4));
}

#[test]
fn a_sure_answer_that_does_not_count_yet_does_not_end_it() {
    assert_eq!(alone(0, 1, 50), (2, 6));
}

#[test]
fn the_last_exit_ends_it_however_unsure() {
    assert_eq!(alone(9, 0, 50), (2, 6));
}

#[test]
fn a_stage_that_would_end_after_the_deadline_is_not_begun() {
    assert_eq!(alone(9, 0, 5), (1, 4));
}

#[test]
fn an_answer_waits_for_capacity_until_the_next_stage_could_not_end_in_time() {
    // The second stage of 4 would take the slack of the other task, which may come any time and
    // has only 2 to spare: so the answer waits until 20 - 4.
    let tasks = vec![task(0, ms(20), ms(40)), task(1, ms(4), ms(8))];
    let models = vec![model_alone(&[ms(2), ms(4)]), model_alone(&[ms(2)])];
    let mut world = World::new(plan(tasks, models, ms(1)), SureAt(StageId(9)));
    let frame = world.frame(0, at(0));
    world.run_until(at(100)).expect("no violation");
    assert_eq!(exit_and_time(&world, frame), (0, 16));
}

#[test]
fn an_eager_task_does_not_wait_for_capacity() {
    let eager = TaskConfig {
        answers: Answers::Early,
        ..task(0, ms(20), ms(40))
    };
    let tasks = vec![eager, task(1, ms(4), ms(8))];
    let models = vec![model_alone(&[ms(2), ms(4)]), model_alone(&[ms(2)])];
    let mut world = World::new(plan(tasks, models, ms(1)), SureAt(StageId(9)));
    let frame = world.frame(0, at(0));
    world.run_until(at(100)).expect("no violation");
    assert_eq!(exit_and_time(&world, frame), (0, 2));
}

/// A stage of these takes longer than its budget by this much.
#[derive(Clone, Debug)]
struct Overruns {
    stage: StageId,
    by: Nanos,
}

impl Nature for Overruns {
    fn duration(&mut self, infer: &Infer, time: StageTime) -> Nanos {
        if infer.stage == self.stage {
            time.budget + self.by
        } else {
            time.budget
        }
    }
}

#[test]
fn an_answer_leaves_in_time_though_a_deeper_stage_still_runs() {
    let tasks = vec![task(0, ms(10), ms(100))];
    let models = vec![model_alone(&[ms(2), ms(2)])];
    let nature = Overruns {
        stage: StageId(1),
        by: ms(30),
    };
    let mut world = World::new(plan(tasks, models, ms(1)), nature);
    let (frame, next) = (world.frame(0, at(0)), world.frame(0, at(100)));
    world.run_until(at(300)).expect("no violation");
    for (frame, expected) in [(frame, 10), (next, 110)] {
        let (when, reply) = world.reply(frame).expect("answered");
        let (exit, _) = reply.answer.expect("the first stage has ended");
        assert_eq!(
            (when, reply.verdict, exit.0),
            (at(expected), Verdict::OnTime, 0)
        );
    }
}

#[test]
fn a_client_that_takes_long_to_hear_gets_its_answer_that_much_earlier() {
    let tasks = vec![task(0, ms(20), ms(40)), task(1, ms(4), ms(8))];
    let models = vec![model_alone(&[ms(2), ms(4)]), model_alone(&[ms(2)])];
    for (egress, exit, left) in [(ms(0), 0, 16), (ms(3), 0, 13), (ms(19), 0, 2)] {
        let plan = plan(tasks.clone(), models.clone(), ms(1));
        let mut world = World::new(plan, SureAt(StageId(9)));
        let frame = world.frame_of_slow_client(0, at(0), egress);
        world.run_until(at(100)).expect("no violation");
        assert_eq!(exit_and_time(&world, frame), (exit, left), "{egress}");
    }
}

#[test]
fn survivors_of_different_batches_run_the_next_stage_together() {
    let tasks = vec![TaskConfig {
        reserved: false,
        mandatory_exit: StageId(1),
        ..task(0, ms(50), ms(100))
    }];
    // A batch pays in the second stage only.
    let first = vec![(1, ms(2)), (2, ms(6))];
    let second = vec![(1, ms(4)), (2, ms(5)), (4, ms(6))];
    let mut world = World::new(
        plan(tasks, vec![model(&[first, second], 1)], ms(1)),
        SureAt(StageId(9)),
    );
    // Later frames are more urgent, so each first stage goes before the second of those before.
    for n in 0..4_u64 {
        let deadline = at(40 - 5 * n);
        world.frame_captured(0, at(2 * n), at(2 * n), Some(deadline));
    }
    world.run_until(at(100)).expect("no violation");
    let orders = world.orders_of(Criticality::RealTime);
    let orders: Vec<_> = orders.iter().map(|o| (o.1, o.2)).collect();
    assert_eq!(orders, [(0, 1), (0, 1), (0, 1), (0, 1), (1, 4)]);
}

#[test]
fn spare_time_goes_where_it_gains_most_accuracy() {
    // Both end their first stage together; there is time for one second stage. The second task's
    // gains are worth three times as much.
    let worth = |weight| TaskConfig {
        weight,
        ..task(0, ms(7), ms(100))
    };
    let stages = [vec![(1, ms(2)), (2, ms(2))], vec![(1, ms(4))]];
    let models = vec![model(&stages, 1), model_alone(&[ms(1)])];
    let tasks = vec![worth(1), worth(3), task(1, ms(10), ms(100))];
    let mut world = World::new(plan(tasks, models, ms(1)), SureAt(StageId(9)));
    // Keeps the partition busy until both are there.
    world.frame(2, at(0));
    let (cheap, dear) = (world.frame(0, at(0)), world.frame(1, at(0)));
    world.run_until(at(100)).expect("no violation");
    assert_eq!(exit_and_time(&world, dear), (1, 7));
    assert_eq!(exit_and_time(&world, cheap), (0, 3));
}

#[test]
fn a_first_answer_beyond_the_reservations_comes_before_deeper_ones() {
    let tasks = vec![TaskConfig {
        reserved: false,
        ..task(0, ms(50), ms(100))
    }];
    let models = vec![model_alone(&[ms(2), ms(2)])];
    let mut world = World::new(plan(tasks, models, ms(1)), SureAt(StageId(9)));
    let (first, second) = (world.frame(0, at(0)), world.frame(0, at(1)));
    world.run_until(at(100)).expect("no violation");
    let orders = world.orders_of(Criticality::RealTime);
    let stages: Vec<_> = orders.iter().map(|o| o.1).collect();
    assert_eq!(stages, [0, 0, 1, 1]);
    assert_eq!(exit_and_time(&world, first), (1, 6));
    assert_eq!(exit_and_time(&world, second), (1, 8));
}

#[test]
fn a_frame_that_finds_the_queue_full_gets_the_place_of_an_answer_that_waits_to_go_deeper() {
    // As above, the second stage of 4 finds no slack; but another frame needs the only place.
    let narrow = TaskConfig {
        reserved: false,
        queue_max: 1,
        ..task(0, ms(20), ms(40))
    };
    let tasks = vec![narrow, task(1, ms(4), ms(8))];
    let models = vec![model_alone(&[ms(2), ms(4)]), model_alone(&[ms(2)])];
    let mut world = World::new(plan(tasks, models, ms(1)), SureAt(StageId(9)));
    let (first, second) = (world.frame(0, at(0)), world.frame(0, at(5)));
    world.run_until(at(100)).expect("no violation");
    assert_eq!(exit_and_time(&world, first), (0, 5));
    assert_eq!(exit_and_time(&world, second), (0, 21));
}

/// 60 in one go are 1 more than depth may take of a share of nine tenths: 10/9 of rest. Returns how the
/// frame was answered, when best-effort work that takes so long was there, and how often it was stopped.
fn after_a_rest(best_effort_work: Option<u64>) -> ((u8, u64), u64) {
    let tasks = vec![task(0, ms(200), ms(200)), best_effort(1)];
    let work = best_effort_work.unwrap_or(1);
    let models = vec![model_alone(&[ms(60), ms(10)]), model_alone(&[ms(work)])];
    let mut config = plan(tasks, models, ms(1));
    config.partitions[0].share_max = 900;
    let mut world = World::new(config, SureAt(StageId(9)));
    let frame = world.frame(0, at(0));
    if best_effort_work.is_some() {
        world.frame(1, at(0));
    }
    world.run_until(at(400)).expect("no violation");
    let stopped = world.scheduler.counters(TaskId(1)).preempted;
    (exit_and_time(&world, frame), stopped)
}

#[test]
fn a_deeper_stage_goes_on_when_the_share_of_the_time_allows() {
    assert_eq!(after_a_rest(None), ((1, 71), 0));
}

#[test]
fn best_effort_work_keeps_the_gap_that_the_share_of_the_time_left_to_it() {
    assert_eq!(after_a_rest(Some(20)), ((1, 90), 0));
}
