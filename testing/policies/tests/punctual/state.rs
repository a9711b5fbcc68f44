//! A scheduler that is made from the state of another goes on as that one does; from anything else none is made. What clients and
//! devices can do to it: `misbehaviour`.

use std::sync::Arc;

use punctual_core::{Config, Instant, PunctualConfig, Scheduler, StateError};
use punctual_simulator::fuzz::Twinned;
use punctual_types::Random;

use super::random_plans::{random_places, random_plan};
use super::workload::{WithinBounds, random_delivery, random_parameters, submit};
use super::world::World;

/// Runs the plan of a seed with a twin that is made anew each few steps. False if the plan does not pass.
fn goes_on(seed: u64, draw: fn(&mut Random) -> Config) -> bool {
    let mut random = Random::new(seed);
    let mut config = draw(&mut random);
    random_delivery(seed, &mut config);
    let policy = Twinned {
        of: Arc::new(random_parameters(seed)),
        every: 1 + seed % 7,
    };
    if Scheduler::new(&config, &policy).is_err() {
        return false;
    }
    let nature = WithinBounds::new(&config, random.clone());
    let mut world = World::under(config, &policy, nature);
    submit(&mut world, &mut random);
    let outcome = world.run_until(Instant::from_nanos(1_000_000_000));
    assert_eq!(outcome, Ok(()), "seed {seed}");
    true
}

#[test]
fn a_copy_made_from_the_state_decides_as_the_original_in_random_plans() {
    let draws = [random_plan, random_places];
    let passed = (0..120).filter(|&seed| goes_on(seed, draws[seed as usize % 2]));
    assert!(passed.count() > 30, "too few to mean anything");
}

/// A scheduler in the middle of its work.
fn busy(seed: u64) -> Option<World<WithinBounds>> {
    let mut random = Random::new(seed);
    let config = random_plan(&mut random);
    Scheduler::new(&config, &PunctualConfig::default()).ok()?;
    let nature = WithinBounds::new(&config, random.clone());
    let mut world = World::new(config, nature);
    submit(&mut world, &mut random);
    let middle = Instant::from_nanos(10_000_000);
    assert_eq!(world.run_until(middle), Ok(()));
    (world.scheduler.open() > 0).then_some(world)
}

#[test]
fn a_state_that_is_short_or_of_another_plan_is_an_error() {
    let mut worlds = (0..).filter_map(busy);
    let (world, other) = (worlds.next().expect("many"), worlds.next().expect("many"));
    let policy = PunctualConfig::default();
    let state = world.scheduler.state().expect("it keeps one");
    let mut saved = vec![0; state.len()];
    let length = world.scheduler.save_into(&mut saved);
    assert_eq!((length, &saved), (Some(state.len()), &state));
    assert_eq!(
        world.scheduler.save_into(&mut saved[1..]),
        None,
        "too short"
    );
    let restore = |config: &Config, state: &[u8]| Scheduler::restore(config, &policy, state);
    assert!(restore(&world.config, &state).is_ok());
    assert_eq!(
        restore(&other.config, &state).map(drop),
        Err(StateError::OtherPlan)
    );
    for length in 0..state.len() {
        assert!(
            restore(&world.config, &state[..length]).is_err(),
            "{length}"
        );
    }
}

#[test]
fn a_damaged_state_is_refused_or_another_state() {
    let world = (0..).find_map(busy).expect("many");
    let state = world.scheduler.state().expect("it keeps one");
    let mut random = Random::new(1);
    let policy = PunctualConfig::default();
    let contradictory = (0..5_000).filter(|_| {
        let mut damaged = state.clone();
        for _ in 0..random.within(1, 4) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.next_u64() as u8;
        }
        let restored = Scheduler::restore(&world.config, &policy, &damaged);
        matches!(restored, Err(StateError::Broken(_)))
    });
    assert!(contradictory.count() > 0, "the checks are asked");
}
