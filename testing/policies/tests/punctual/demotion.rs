//! A model that breaks its profile loses its promises; others keep theirs.

use super::plans::{at, best_effort, model_alone, ms, plan, task};
use punctual_core::{
    Action, Config, Counters, Criticality, Infer, Instant, ModelId, Nanos, PartitionId, StageId,
    StageTime, TaskId,
};
use punctual_policy_testing::world::{Nature, World};

/// Stages of the models in `models` take `percent` per cent of their budgets, in the actions numbered below `until`.
#[derive(Clone, Debug)]
struct Liars {
    percent: u64,
    models: Vec<u16>,
    until: u64,
}

impl Nature for Liars {
    fn duration(&mut self, infer: &Infer, time: StageTime) -> Nanos {
        let lies = self.models.contains(&infer.model.0) && infer.id.0 < self.until;
        let percent = if lies { self.percent } else { 100 };
        Nanos::new(time.budget.as_nanos() * percent / 100)
    }
}

/// Three tasks alike: 2 of 20 each, with networks of their own, and best-effort work.
fn three() -> Config {
    let real_time = |model| task(model, ms(20), ms(20));
    let tasks = vec![real_time(0), real_time(1), real_time(2), best_effort(3)];
    let models = [2, 2, 2, 3].map(|time| model_alone(&[ms(time)])).to_vec();
    plan(tasks, models, ms(1))
}

fn run(config: Config, liars: Liars, frames: u64) -> World<Liars> {
    let mut world = World::new(config, liars);
    let tasks = world.config.tasks.len() as u16;
    for n in 0..frames {
        for task in 0..tasks {
            world.frame(task, at(20 * n));
        }
    }
    world.run_until(at(20 * frames)).expect("no violation");
    world.drain().expect("nothing is lost");
    world
}

fn liar(percent: u64, until: u64) -> Liars {
    Liars {
        percent,
        models: vec![0],
        until,
    }
}

fn counters<N: Nature>(world: &World<N>, task: u16) -> Counters {
    *world.scheduler.counters(TaskId(task))
}

fn demotions<N: Nature>(world: &World<N>) -> Vec<(Instant, u16)> {
    let of = |(at, action): &(Instant, Action)| match action {
        Action::Demote(demotion) => Some((*at, demotion.model.0)),
        _ => None,
    };
    world.log.iter().filter_map(of).collect()
}

#[test]
fn others_keep_their_promises_beside_a_model_that_takes_one_and_a_half_three_or_ten_times_its_time()
{
    for percent in [150, 300, 1_000] {
        let world = run(three(), liar(percent, u64::MAX), 200);
        let demoted = demotions(&world);
        assert_eq!(demoted.len(), 1, "{percent}%: {demoted:?}");
        assert_eq!(demoted[0].1, 0);
        for task in [1, 2] {
            let c = counters(&world, task);
            // What it took to see it: four overruns, of nearly a period each at the worst.
            assert!(c.on_time + 5 >= c.submitted, "{percent}%: {c:?}");
            assert_eq!(c.demotions, 0);
        }
        // After it was seen, none is missed at all.
        let missed_later = world.log.iter().filter(|(when, action)| {
            matches!(action, Action::Reply(reply)
                if (1..=2).contains(&reply.task.0)
                    && reply.verdict != punctual_core::Verdict::OnTime
                    && *when > demoted[0].0 + ms(20))
        });
        assert_eq!(missed_later.count(), 0, "{percent}%");
        assert_eq!(world.scheduler.scale(PartitionId(0)), 1 << 16, "{percent}%");
        let c = counters(&world, 0);
        assert_eq!((c.demotions, c.reinstatements), (1, 0));
        assert_eq!(c.overrun_worst, percent * 10);
    }
}

#[test]
fn a_demoted_models_frames_are_answered_where_promises_leave_time() {
    let world = run(three(), liar(300, u64::MAX), 200);
    let c = counters(&world, 0);
    assert!(c.on_time > 150, "{c:?}");
    // In a gap, to its end, at real-time priority.
    let after = demotions(&world)[0].0;
    let orders = world.orders_of(Criticality::RealTime);
    assert!(
        orders
            .iter()
            .any(|(task, _, _, when)| *task == 0 && *when > after)
    );
}

#[test]
fn a_model_that_keeps_its_profile_again_is_reinstated() {
    let world = run(three(), liar(300, 40), 200);
    let c = counters(&world, 0);
    assert_eq!((c.demotions, c.reinstatements), (1, 1), "{c:?}");
    let back = world.log.iter().find_map(|(when, action)| {
        let back = Action::Reinstate {
            partition: PartitionId(0),
            model: ModelId(0),
        };
        (*action == back).then_some(*when)
    });
    let back = back.expect("it came back");
    assert!(back > demotions(&world)[0].0 + ms(1_000));
    let conforming_later = counters(&world, 0).conforming;
    assert!(conforming_later > 100, "promised again: {conforming_later}");
}

#[test]
fn when_all_models_overrun_it_is_the_machine_and_nobody_is_demoted() {
    let slow = Liars {
        percent: 140,
        models: vec![0, 1, 2],
        until: u64::MAX,
    };
    let world = run(three(), slow, 200);
    assert_eq!(demotions(&world), []);
    assert!(world.scheduler.scale(PartitionId(0)) > 1 << 16);
}

#[test]
fn the_only_model_of_a_partition_is_never_demoted() {
    let mut config = three();
    config.tasks = vec![task(0, ms(20), ms(20)), best_effort(3)];
    let world = run(config, liar(140, u64::MAX), 100);
    assert_eq!(demotions(&world), []);
    assert!(world.scheduler.scale(PartitionId(0)) > 1 << 16);
}

#[test]
fn two_models_that_overrun_are_both_demoted_and_the_third_keeps_its_promises() {
    let two = Liars {
        percent: 300,
        models: vec![0, 1],
        until: u64::MAX,
    };
    let world = run(three(), two, 300);
    let mut models: Vec<u16> = demotions(&world).iter().map(|d| d.1).collect();
    models.sort_unstable();
    assert_eq!(models, [0, 1]);
    let c = counters(&world, 2);
    assert!(c.on_time + 8 >= c.submitted, "{c:?}");
}

#[test]
fn a_few_overruns_cost_a_model_nothing() {
    let world = run(three(), liar(300, 6), 50);
    assert_eq!(demotions(&world), []);
    assert!(counters(&world, 0).overruns > 0);
}

/// The first stage of the first model takes 50 times its budget, from some action on the second, too.
#[derive(Clone, Debug)]
struct FiftyTimes {
    second_from: u64,
}

impl Nature for FiftyTimes {
    fn duration(&mut self, infer: &Infer, time: StageTime) -> Nanos {
        let lies = infer.stage.0 == 0 || infer.id.0 >= self.second_from;
        let factor = if infer.model.0 == 0 && lies { 50 } else { 1 };
        time.budget.saturating_mul(factor)
    }
}

#[test]
fn a_stage_that_is_given_its_stretched_budget_is_not_taken_for_lost_within_it() {
    let mut first = task(0, ms(1_000), ms(1_000));
    first.mandatory_exit = StageId(1);
    let tasks = vec![first, task(1, ms(1_000), ms(1_000))];
    let models = vec![model_alone(&[ms(1), ms(8)]), model_alone(&[ms(2)])];
    let nature = FiftyTimes { second_from: 20 };
    let mut world = World::new(plan(tasks, models, ms(1)), nature);
    for n in 0..12 {
        world.frame(0, at(1_000 * n));
        // One while the first stage runs, one while the second does.
        world.frame(1, at(1_000 * n + 10));
        world.frame(1, at(1_000 * n + 200));
    }
    // The second takes 400: more than 16 times its 8 and 100, but no more than it was given.
    world.run_until(at(12_000)).expect("no violation");
    world.drain().expect("nothing is lost");
    assert_eq!(demotions(&world).len(), 1);
    let slow = world.orders_of(Criticality::RealTime).into_iter();
    let slow = slow.filter(|&(task, stage, _, when)| (task, stage) == (0, 1) && when > at(8_000));
    assert!(slow.count() > 2, "the second stage ran 50 times as long");
    for task in [0, 1] {
        let c = counters(&world, task);
        assert_eq!(c.on_time, c.submitted, "{c:?}");
    }
}
