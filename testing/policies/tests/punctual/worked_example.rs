//! The worked example of the policy, step by step. A, B and C as in its table; each task has a
//! model of its own, so the model names the task.

use super::plans::{at, best_effort, model, model_alone, ms, plan, task};
use punctual_core::{
    Answers, Config, Criticality, Nanos, PartitionId, PunctualConfig, Rejection, Scheduler,
    StageId, TaskConfig, Verdict, offline,
};
use punctual_policy_testing::world::{Exact, World};

const A: u16 = 0;
const B: u16 = 1;
const C: u16 = 2;

fn example() -> Config {
    let eager = |model, deadline, period, exit| TaskConfig {
        mandatory_exit: StageId(exit),
        answers: Answers::Early,
        batch_max: 1,
        ..task(model, ms(deadline), ms(period))
    };
    let tasks = vec![
        eager(A, 8, 10, 0),
        eager(B, 20, 20, 1),
        eager(C, 40, 40, 1),
        // Makes best-effort work possible, so that P is part of the blocking.
        best_effort(3),
    ];
    let models = vec![
        model_alone(&[ms(3), ms(3)]),
        model_alone(&[ms(3), ms(3), ms(4)]),
        model_alone(&[ms(4), ms(4), ms(6)]),
        model_alone(&[ms(5)]),
    ];
    plan(tasks, models, ms(1))
}

#[test]
fn offline_test_finds_the_demand_and_blocking_of_the_example() {
    let report = offline::test_partition(&example(), PartitionId(0));
    assert_eq!(report.outcome, Ok(()));
    let rows: Vec<(u64, u64, u64)> = report
        .checkpoints
        .iter()
        .map(|c| {
            let ms = |n: Nanos| n.as_nanos() / 1_000_000;
            (ms(c.length), ms(c.demand), ms(c.blocking))
        })
        .collect();
    let expected = [
        (8, 3, 4),
        (18, 6, 4),
        (20, 12, 4),
        (28, 15, 4),
        (38, 18, 4),
        (40, 32, 1),
    ];
    // Beyond, the straight line over the demand stays below the span.
    assert_eq!(report.horizon, ms(40));
    // 0.8, each task's share rounded up.
    assert_eq!(report.utilisation_ppm, 800_001);
    assert_eq!(rows, expected);
}

#[test]
fn offline_test_refuses_the_example_with_c_unsplit_although_its_density_fits() {
    let mut config = example();
    config.models[usize::from(C)] = model_alone(&[ms(8), ms(6)]);
    config.tasks[usize::from(C)].mandatory_exit = StageId(0);
    let report = offline::test_partition(&config, PartitionId(0));
    let Err(offline::Infeasible::Overload(c)) = report.outcome else {
        panic!("{:?}", report.outcome);
    };
    assert_eq!((c.length, c.demand, c.blocking), (ms(8), ms(3), ms(8)));
    assert!(Scheduler::new(&config, &PunctualConfig::default()).is_err());
}

#[test]
fn every_decision_of_the_example_is_made() {
    let mut world = World::new(example(), Exact);
    let mut a = Vec::new();
    for n in 0..3 {
        a.push(world.frame(A, at(10 * n)));
    }
    let b = world.frame(B, at(0));
    world.frame(B, at(20));
    world.frame(C, at(0));
    // Captured now: its deadline is 14.
    let extra = world.frame(A, at(6));
    let second_extra = world.frame(A, at(6));
    world.run_until(at(25)).expect("no violation");
    let orders = world.orders_of(Criticality::RealTime);
    let expected = [
        (A, 0, 1, at(0)),
        (A, 1, 1, at(3)),
        (A, 0, 1, at(6)),
        (B, 0, 1, at(9)),
        (A, 0, 1, at(12)),
        (B, 1, 1, at(15)),
        (C, 0, 1, at(18)),
        (A, 0, 1, at(22)),
        (C, 1, 1, at(25)),
    ];
    assert_eq!(orders, expected);
    let reply = |sequence| {
        let (when, reply) = world.reply(sequence).expect("answered");
        (when, reply.verdict, reply.answer.map(|(exit, _)| exit.0))
    };
    assert_eq!(reply(a[0]), (at(6), Verdict::OnTime, Some(1)));
    assert_eq!(reply(extra), (at(9), Verdict::OnTime, Some(0)));
    let rejected = Verdict::Rejected(Rejection::NoSlack);
    assert_eq!(reply(second_extra), (at(6), rejected, None));
    assert_eq!(reply(a[1]), (at(15), Verdict::OnTime, Some(0)));
    assert_eq!(reply(b), (at(18), Verdict::OnTime, Some(1)));
    assert_eq!(reply(a[2]), (at(25), Verdict::OnTime, Some(0)));
    world.drain().expect("nothing lost");
    assert_eq!(world.misses(), 0);
}

#[test]
fn ungated_optional_work_of_c_would_make_a_miss() {
    // 3 ms of A behind 6 ms of C is 9 > 8: the gate must refuse C's optional stage whenever A may
    // arrive, and let it run when A has just been.
    let mut world = World::new(example(), Exact);
    world.frame(C, at(0));
    world.run_until(at(40)).expect("no violation");
    let orders = world.orders_of(Criticality::RealTime);
    assert_eq!(orders, [(C, 0, 1, at(0)), (C, 1, 1, at(4))]);
}

/// C(1) = 3, C(2) = 5, no reserved tasks; when the partition gets free, members are due 8 and 14
/// from then, a bystander 9 from then. All have arrived 2 before.
fn batch_example(bystander: u64) -> World<Exact> {
    let unreserved = |model, deadline| TaskConfig {
        reserved: false,
        ..task(model, ms(deadline), ms(100))
    };
    let tasks = vec![unreserved(0, 10), unreserved(1, 11), unreserved(0, 16)];
    let models = vec![
        model(&[vec![(1, ms(3)), (2, ms(5))]], 1),
        model_alone(&[ms(bystander)]),
    ];
    let mut world = World::new(plan(tasks, models, ms(1)), Exact);
    // Keeps the partition busy while the others arrive.
    world.frame(1, at(0));
    world
}

fn run_batch_example(bystander: u64) -> (Vec<(u8, usize, u64)>, usize) {
    let mut world = batch_example(bystander);
    let start = bystander;
    let frames = [
        world.frame(0, at(start - 2)),
        world.frame(1, at(start - 2)),
        world.frame(2, at(start - 2)),
    ];
    world.run_until(at(start + 20)).expect("no violation");
    for frame in frames {
        let (_, reply) = world.reply(frame).expect("answered");
        assert_eq!(reply.verdict, Verdict::OnTime, "{reply:?}");
    }
    let orders = world.orders_of(Criticality::RealTime);
    let after: Vec<_> = orders[1..]
        .iter()
        .map(|(task, _, members, when)| {
            (*task as u8, *members, when.as_nanos() / 1_000_000 - start)
        })
        .collect();
    (after, world.misses())
}

#[test]
fn batch_is_taken_if_the_bystander_can_wait_for_it() {
    assert_eq!(run_batch_example(3), (vec![(0, 2, 0), (1, 1, 5)], 0));
}

#[test]
fn batch_is_refused_if_the_bystander_cannot_wait_for_it() {
    let expected = vec![(0, 1, 0), (1, 1, 3), (0, 1, 8)];
    assert_eq!(run_batch_example(5), (expected, 0));
}
