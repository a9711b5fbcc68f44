//! The guarantee: in every plan that passes the offline test, no accepted real-time request
//! misses, whatever extras, optional work, batches and best-effort work do, as long as the world
//! keeps its bounds. That the test would notice a weaker policy is tested next to the scheduler.

use punctual_core::{Config, Instant, Scheduler, TaskId};
use punctual_types::Random;

use super::random_plans::{random_places, random_plan};
use super::workload::{
    WithinBounds, broken_terms, plans, random_delivery, random_parameters, submit,
};
use super::world::World;

/// One plan from its seed, run to its end; `None` if the plan does not pass.
fn run(seed: u64, draw: fn(&mut Random) -> Config) -> Option<World<WithinBounds>> {
    let mut random = Random::new(seed);
    let mut config = draw(&mut random);
    let parameters = random_parameters(seed);
    random_delivery(seed, &mut config);
    Scheduler::new(&config, &parameters).ok()?;
    let nature = WithinBounds::new(&config, random.clone());
    let mut world = World::with(config, parameters, nature);
    let in_time = submit(&mut world, &mut random);
    let outcome = world
        .run_until(Instant::from_nanos(1_000_000_000))
        .and_then(|()| world.drain());
    assert_eq!(outcome, Ok(()), "seed {seed}");
    // Else the auditor claims less than everything.
    assert_eq!(world.auditor.gaps(), [], "seed {seed}");
    let broken = broken_terms(&world.log, &in_time);
    assert!(broken.is_empty(), "seed {seed}: {broken:?}");
    Some(world)
}

#[test]
fn no_accepted_request_misses_in_random_plans_that_pass_the_offline_test() {
    let drawn = plans();
    let (mut passed, mut promised, mut offloaded, mut superseded) = (0, 0, 0, 0);
    for seed in 0..drawn {
        let Some(world) = run(seed, random_plan) else {
            continue;
        };
        assert_eq!(world.misses(), 0, "seed {seed}");
        passed += 1;
        promised += world.auditor.promised();
        offloaded += world.offloaded();
        let tasks = 0..world.config.tasks.len() as u16;
        let counters = tasks.map(|task| world.scheduler.counters(TaskId(task)));
        superseded += counters.map(|c| c.rejected_superseded).sum::<u64>();
    }
    println!(
        "{passed} plans, {promised} promised requests, {offloaded} offloaded, {superseded} superseded, \
         0 misses"
    );
    let enough = 4 * offloaded > passed && superseded > passed;
    assert!(
        passed * 4 > drawn && promised > 50 * passed && enough,
        "too few to mean anything"
    );
}

#[test]
fn no_accepted_request_misses_in_random_plans_wherever_its_stages_run() {
    let drawn = plans();
    let (mut passed, mut promised, mut placed) = (0, 0, 0);
    for seed in 0..drawn {
        let Some(world) = run(seed, random_places) else {
            continue;
        };
        assert_eq!(world.misses(), 0, "seed {seed}");
        passed += 1;
        promised += world.auditor.promised();
        let is_home = |p| world.config.tasks.iter().any(|task| task.partition == p);
        let orders = world.orders();
        placed += orders
            .filter(|(_, infer)| !is_home(infer.partition))
            .count() as u64;
    }
    println!("{passed} plans, {promised} promised requests, {placed} stages on places, 0 misses");
    let enough = promised > 50 * passed && placed > 10 * passed;
    assert!(passed * 4 > drawn && enough, "too few to mean anything");
}
