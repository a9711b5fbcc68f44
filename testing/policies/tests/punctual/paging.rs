//! Requests for weights that are not on the device.

use super::plans::{at, best_effort, model_alone, ms, plan, task};
use punctual_core::{
    Action, Config, ConfigError, Event, Failure, ModelId, Nanos, PunctualConfig, Rejection,
    Scheduler, TaskConfig, Verdict, Weights,
};
use punctual_policy_testing::world::{Exact, Nature, World};

/// A reserved task whose model is resident for good, and three tasks without a reservation that
/// ask a model of a page each, brought in 8 ms and run in 3; room for two.
fn config() -> Config {
    let unreserved = |model| TaskConfig {
        reserved: false,
        ..task(model, ms(100), ms(100))
    };
    let tasks = vec![
        task(0, ms(20), ms(20)),
        unreserved(1),
        unreserved(2),
        unreserved(3),
    ];
    let mut models = vec![model_alone(&[ms(3)]); 4];
    for model in &mut models[1..] {
        model.weights = Some(Weights {
            pages: 1,
            load: ms(8),
        });
    }
    Config {
        pages: 2,
        ..plan(tasks, models, ms(1))
    }
}

/// (time, model, whether it comes) of each transfer and eviction.
fn transfers<N: Nature>(world: &World<N>) -> Vec<(u64, u16, bool)> {
    let log = world.log.iter().filter_map(|(at, action)| match action {
        Action::Load { model, .. } => Some((at, model.0, true)),
        Action::Unload { model } => Some((at, model.0, false)),
        _ => None,
    });
    log.map(|(at, model, comes)| (at.as_nanos() / 1_000_000, model, comes))
        .collect()
}

#[test]
fn a_request_waits_for_its_weights_and_is_then_served() {
    let mut world = World::new(config(), Exact);
    let asked = world.frame(1, at(0));
    world.run_until(at(50)).expect("no violation");
    assert_eq!(transfers(&world), [(0, 1, true)]);
    let (when, reply) = world.reply(asked).expect("answered");
    assert_eq!((when, reply.verdict), (at(11), Verdict::OnTime));
}

#[test]
fn the_least_recently_used_weights_make_room() {
    let mut world = World::new(config(), Exact);
    world.frame(1, at(0));
    world.frame(2, at(20));
    world.frame(1, at(40));
    world.frame(3, at(60));
    world.run_until(at(200)).expect("no violation");
    let expected = [(0, 1, true), (20, 2, true), (60, 2, false), (60, 3, true)];
    assert_eq!(transfers(&world), expected);
}

#[test]
fn the_model_with_the_most_work_waiting_for_it_comes_next() {
    let mut world = World::new(config(), Exact);
    world.frame(1, at(0));
    world.frame(2, at(1));
    world.frame(3, at(2));
    world.frame(3, at(3));
    world.run_until(at(9)).expect("no violation");
    assert_eq!(transfers(&world), [(0, 1, true), (8, 3, true)]);
}

#[test]
fn a_request_that_a_transfer_cannot_help_in_time_is_refused_and_no_transfer_begins() {
    let mut world = World::new(config(), Exact);
    let hopeless = world.frame_captured(1, at(0), at(0), Some(at(10)));
    let just = world.frame_captured(2, at(1), at(1), Some(at(12)));
    // The bus is busy until 9, then 8 and 3: 20.
    let behind = world.frame_captured(3, at(2), at(2), Some(at(19)));
    world.run_until(at(40)).expect("no violation");
    let verdict = |sequence| world.reply(sequence).map(|(_, reply)| reply.verdict);
    let no_slack = Some(Verdict::Rejected(Rejection::NoSlack));
    assert_eq!(verdict(hopeless), no_slack);
    assert_eq!(verdict(just), Some(Verdict::OnTime));
    assert_eq!(verdict(behind), no_slack);
    assert_eq!(transfers(&world), [(1, 2, true)]);
}

#[test]
fn nothing_is_promised_before_the_weights_are_there() {
    let mut world = World::new(config(), Exact);
    // When its weights come, the reservation of the other task is in the way: 8 + 3 + 3 > 13.
    world.frame(0, at(8));
    let asked = world.frame_captured(1, at(0), at(0), Some(at(13)));
    world.run_until(at(40)).expect("no violation");
    let (when, reply) = world.reply(asked).expect("a verdict");
    let no_slack = Verdict::Rejected(Rejection::NoSlack);
    assert_eq!((when, reply.verdict), (at(8), no_slack));
    assert_eq!(
        world.auditor.promised(),
        1,
        "the frame of the reserved task"
    );
}

#[test]
fn a_request_whose_transfer_takes_too_long_is_refused_at_its_last_call() {
    #[derive(Clone, Debug)]
    struct SlowBus;
    impl Nature for SlowBus {
        fn transfer(&mut self, _: ModelId, load: Nanos) -> Nanos {
            load.saturating_mul(4)
        }
    }
    let mut world = World::new(config(), SlowBus);
    let asked = world.frame_captured(1, at(0), at(0), Some(at(20)));
    world.run_until(at(60)).expect("no violation");
    let (when, reply) = world.reply(asked).expect("a verdict");
    assert_eq!(reply.verdict, Verdict::Rejected(Rejection::NoSlack));
    assert_eq!(when, at(17) + Nanos::new(1));
}

#[test]
fn a_transfer_that_failed_fails_who_waited_for_it_and_the_next_request_tries_again() {
    #[derive(Clone, Debug)]
    struct FirstFails(bool);
    impl Nature for FirstFails {
        fn transfer_ok(&mut self, _: ModelId) -> bool {
            std::mem::replace(&mut self.0, true)
        }
    }
    let mut world = World::new(config(), FirstFails(false));
    let first = world.frame(1, at(0));
    let second = world.frame(1, at(20));
    world.run_until(at(60)).expect("no violation");
    let verdict = |sequence| world.reply(sequence).map(|(_, reply)| reply.verdict);
    assert_eq!(verdict(first), Some(Verdict::Failed(Failure::Device)));
    assert_eq!(verdict(second), Some(Verdict::OnTime));
    assert_eq!(transfers(&world), [(0, 1, true), (20, 1, true)]);
}

#[test]
fn best_effort_work_without_a_deadline_waits_for_its_weights_as_long_as_it_takes() {
    let mut config = config();
    for model in 1..4 {
        config.tasks[model] = best_effort(model as u16);
    }
    let mut world = World::new(config, Exact);
    let asked: Vec<u64> = (0..9).map(|n| world.frame(1 + n % 3, at(0))).collect();
    world.run_until(at(1)).expect("no violation");
    world.drain().expect("nothing lost");
    for sequence in asked {
        let (_, reply) = world.reply(sequence).expect("a verdict");
        assert_eq!(reply.verdict, Verdict::OnTime);
    }
}

/// A transfer takes 16 times its 8 ms and 100 ms more before it is taken for lost.
const LOST: u64 = 228;

#[test]
fn a_lost_transfer_fails_who_waited_for_it_and_others_go_on() {
    let mut config = config();
    for task in &mut config.tasks[1..] {
        task.deadline = Some(ms(1_000));
        task.period = ms(1_000);
    }
    let mut world = World::new(config, Exact);
    let lost = world.frame(1, at(0));
    world.run_until(at(0)).expect("no violation");
    let action = world.log.iter().find_map(|(_, action)| match action {
        Action::Load { id, .. } => Some(*id),
        _ => None,
    });
    let action = action.expect("a transfer was ordered");
    world.forget(|event| matches!(event, Event::Loaded { .. }));
    let behind = world.frame(2, at(10));
    world.run_until(at(400)).expect("no violation");
    let over = |sequence| {
        let (when, reply) = world.reply(sequence).expect("a verdict");
        (when, reply.verdict)
    };
    assert_eq!(over(lost), (at(LOST), Verdict::Failed(Failure::Device)));
    assert_eq!(over(behind), (at(LOST + 11), Verdict::OnTime));
    // While the load is not reported, the model cannot be used, and its page is taken.
    let refused = world.frame(1, at(401));
    let other = world.frame(3, at(402));
    world.run_until(at(500)).expect("no violation");
    let no_slack = Verdict::Rejected(Rejection::NoSlack);
    assert_eq!(world.reply(refused).expect("a verdict").1.verdict, no_slack);
    assert_eq!(
        world.reply(other).expect("a verdict").1.verdict,
        Verdict::OnTime
    );
    assert_eq!(transfers(&world)[2..], [(402, 2, false), (402, 3, true)]);
    let measured = ms(500);
    world.schedule(at(500), Event::Loaded { action, measured });
    let served = world.frame(1, at(501));
    world.run_until(at(600)).expect("no violation");
    assert_eq!(
        world.reply(served).expect("a verdict").0,
        at(504),
        "at once"
    );
    assert_eq!(world.scheduler.stale_events(), 0);
}

#[test]
fn who_needs_pages_that_a_lost_transfer_holds_does_not_wait_for_them() {
    let mut config = config();
    for model in &mut config.models[1..] {
        model.weights = Some(Weights {
            pages: 2,
            load: ms(8),
        });
    }
    for model in 1..4 {
        config.tasks[model] = best_effort(model as u16);
    }
    let mut world = World::new(config, Exact);
    world.frame(1, at(0));
    world.run_until(at(0)).expect("no violation");
    world.forget(|event| matches!(event, Event::Loaded { .. }));
    let behind = world.frame(2, at(10));
    world.run_until(at(20)).expect("no violation");
    world.drain().expect("every request has its verdict");
    let (_, reply) = world.reply(behind).expect("a verdict");
    assert_eq!(reply.verdict, Verdict::Failed(Failure::Device));
}

#[test]
fn a_reserved_task_whose_model_is_not_resident_for_good_is_refused() {
    let mut config = config();
    config.tasks[1].reserved = true;
    let refused = Scheduler::new(&config, &PunctualConfig::default())
        .expect_err("a promise would hang on a transfer");
    assert!(matches!(refused, ConfigError::ReservedPaged { .. }));
}
