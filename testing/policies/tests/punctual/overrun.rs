//! What happens when the world breaks its bounds: who pays, who is dropped, and how the promises recover.

use std::collections::BTreeMap;

use super::plans::{at, best_effort, model_alone, ms, plan, task};
use punctual_core::{
    Config, Criticality, Event, Failure, Infer, Instant, Nanos, Rejection, StageTime, TaskConfig,
    TaskId, Verdict,
};
use punctual_policy_testing::world::{Nature, World};

/// Takes its budget times a factor of 1/100, set by order of action.
#[derive(Clone, Debug, Default)]
struct Scripted {
    percent: BTreeMap<u64, u64>,
    otherwise: u64,
}

impl Nature for Scripted {
    fn duration(&mut self, infer: &Infer, time: StageTime) -> Nanos {
        let percent = *self.percent.get(&infer.id.0).unwrap_or(&self.otherwise);
        Nanos::new(time.budget.as_nanos() * percent / 100)
    }
}

fn scripted(percent: &[(u64, u64)]) -> Scripted {
    Scripted {
        percent: percent.iter().copied().collect(),
        otherwise: 100,
    }
}

fn world(config: Config, nature: Scripted) -> World<Scripted> {
    World::new(config, nature)
}

/// One mandatory stage of 2, deadline and period 10, and another task of the same kind.
fn two_alike() -> Config {
    let tasks = vec![task(0, ms(10), ms(10)), task(1, ms(10), ms(10))];
    plan(
        tasks,
        vec![model_alone(&[ms(2)]), model_alone(&[ms(2)])],
        ms(1),
    )
}

#[test]
fn a_small_overrun_that_leaves_slack_costs_nobody_anything() {
    let mut world = world(two_alike(), scripted(&[(0, 200)]));
    let frames = [world.frame(0, at(0)), world.frame(1, at(0))];
    world.run_until(at(20)).expect("no violation");
    for frame in frames {
        assert_eq!(
            world.reply(frame).expect("answered").1.verdict,
            Verdict::OnTime
        );
    }
    assert_eq!(world.scheduler.counters(TaskId(0)).overruns, 1);
    assert_eq!(world.scheduler.counters(TaskId(1)).overruns, 0);
}

#[test]
fn a_task_pays_for_its_overrun_from_its_own_reservation() {
    // 2 too long at a share of 1/5: no reservation for 10.
    let mut world = world(two_alike(), scripted(&[(0, 200)]));
    world.frame(0, at(0));
    world.run_until(at(5)).expect("no violation");
    world.frame(0, at(10));
    world.frame(1, at(10));
    world.run_until(at(30)).expect("no violation");
    // Both are answered, but the offender's next one had to pass the test that extras pass.
    assert_eq!(world.scheduler.counters(TaskId(0)).conforming, 1);
    assert_eq!(world.scheduler.counters(TaskId(1)).conforming, 1);
    assert_eq!(world.misses(), 0);
}

#[test]
fn a_task_in_debt_uses_its_reservation_where_that_endangers_nobody() {
    // 4 and 5 of each 10: no room for anything in addition to both reservations.
    let models = vec![model_alone(&[ms(4)]), model_alone(&[ms(5)])];
    let config = plan(two_alike().tasks, models, ms(1));
    // 1 too long at a share of 2/5: no reservation for 2.5.
    let mut world = world(config, scripted(&[(0, 125)]));
    let mut frames = vec![world.frame(0, at(0))];
    world.run_until(at(0)).expect("no violation");
    for n in 0..4 {
        frames.push(world.frame(1, at(10 * n)));
        frames.push(world.frame(0, at(10 * n + 10)));
    }
    world.run_until(at(60)).expect("no violation");
    assert_eq!(world.scheduler.counters(TaskId(0)).overruns, 1);
    for frame in frames {
        let (_, reply) = world.reply(frame).expect("answered");
        assert_eq!(reply.verdict, Verdict::OnTime);
    }
}

#[test]
fn after_a_large_overrun_what_is_late_for_certain_gives_way_to_what_is_not() {
    let tasks = vec![
        task(0, ms(10), ms(10)),
        // Extras of this one.
        TaskConfig {
            reserved: false,
            ..task(1, ms(14), ms(14))
        },
        task(2, ms(20), ms(20)),
    ];
    let models = vec![
        model_alone(&[ms(2)]),
        model_alone(&[ms(4)]),
        model_alone(&[ms(5)]),
    ];
    // The first stage takes 12 instead of 2: at 12 the extra (4, due 14) cannot be on time any
    // more, and the reserved one (5, due 20) can be, but not behind it.
    let mut world = world(plan(tasks, models, ms(1)), scripted(&[(0, 600)]));
    world.frame(0, at(0));
    let extra = world.frame(1, at(0));
    let reserved = world.frame(2, at(0));
    world.run_until(at(40)).expect("no violation");
    let verdict = |frame| world.reply(frame).expect("answered").1.verdict;
    assert_eq!(verdict(extra), Verdict::Failed(Failure::Shed));
    assert_eq!(verdict(reserved), Verdict::OnTime);
}

#[test]
fn a_late_answer_that_harms_nobody_is_given_late_not_dropped() {
    let mut world = world(two_alike(), scripted(&[(0, 700)]));
    let frame = world.frame(0, at(0));
    world.run_until(at(40)).expect("no violation");
    let (when, reply) = world.reply(frame).expect("answered");
    assert_eq!((when, reply.verdict), (at(14), Verdict::Late));
    assert!(reply.answer.is_some());
}

#[test]
fn promises_hold_again_after_an_overrun() {
    let mut world = world(two_alike(), scripted(&[(2, 600)]));
    for n in 0..20 {
        world.frame(0, at(10 * n));
        world.frame(1, at(10 * n));
    }
    world.run_until(at(30)).expect("no violation");
    world.run_until(at(300)).expect("no violation");
    world.drain().expect("nothing lost");
    let [gap] = world.auditor.gaps() else {
        panic!("one gap, not {:?}", world.auditor.gaps());
    };
    assert!(gap.until.is_some_and(|until| until <= at(60)), "{gap:?}");
}

#[test]
fn a_board_that_is_slow_for_long_gets_longer_budgets_and_later_its_own_back() {
    let mut world = world(two_alike(), Scripted::default());
    world.nature.otherwise = 120;
    let partition = punctual_core::PartitionId(0);
    let mut n = 0;
    let mut frames = |world: &mut World<Scripted>, count: u64| {
        for _ in 0..count {
            world.frame(0, at(10 * n));
            n += 1;
        }
        world.run_until(at(10 * n)).expect("no violation");
    };
    frames(&mut world, 2);
    assert_eq!(world.scheduler.scale(partition), 65_536);
    frames(&mut world, 20);
    // 1.125 squared covers 1.2.
    assert_eq!(world.scheduler.scale(partition), 82_944);
    // From here on nothing may be late: the longer budgets are kept.
    let before = world.misses();
    frames(&mut world, 100);
    assert_eq!(world.scheduler.scale(partition), 82_944);
    assert_eq!(world.misses(), before);
    world.nature.otherwise = 90;
    frames(&mut world, 700);
    assert_eq!(world.scheduler.scale(partition), 65_536);
}

#[test]
fn best_effort_work_that_does_not_stop_is_noticed_and_charged_to_f() {
    let mut config = two_alike();
    config.tasks.push(best_effort(2));
    config.models.push(model_alone(&[ms(30)]));
    #[derive(Clone, Debug)]
    struct Stubborn;
    impl Nature for Stubborn {
        fn stopping(&mut self, bound: Nanos) -> Nanos {
            bound.saturating_mul(7)
        }
    }
    let mut world = World::new(config, Stubborn);
    world.frame(2, at(0));
    world.frame(0, at(1));
    // Arrives while the best-effort stage should long have stopped: 2 is too much to promise
    // within 5 as the partition may be busy for another P or so.
    let hasty = world.frame_captured(1, at(7), at(0), Some(at(10)));
    world.run_until(at(100)).expect("no violation");
    assert_eq!(world.scheduler.counters(TaskId(2)).overruns, 1);
    let orders = world.orders_of(Criticality::RealTime);
    assert_eq!(orders[0].3, at(8));
    let verdict = world.reply(hasty).expect("answered").1.verdict;
    assert_eq!(verdict, Verdict::Rejected(Rejection::NoSlack));
}

#[test]
fn a_failed_action_fails_its_members_and_nobody_else() {
    let mut world = world(two_alike(), scripted(&[]));
    let frames = [world.frame(0, at(0)), world.frame(1, at(0))];
    world.run_until(at(0)).expect("no violation");
    world.now = at(1);
    let action = punctual_core::ActionId(0);
    world.step(&Event::Failed { action }).expect("no violation");
    world.run_until(at(20)).expect("no violation");
    let verdict = |frame| world.reply(frame).expect("answered").1.verdict;
    assert_eq!(verdict(frames[0]), Verdict::Failed(Failure::Device));
    assert_eq!(verdict(frames[1]), Verdict::OnTime);
    // The end that the world had planned for the failed action.
    assert_eq!(world.scheduler.stale_events(), 1);
    assert_eq!(world.now, Instant::from_nanos(20_000_000));
}
