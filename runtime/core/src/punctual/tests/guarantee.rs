//! The guarantee depends on the policy's tests. Without one of three, accepted requests miss in the random
//! plans in which the complete policy misses none (`testing/policies/tests/punctual/guarantee.rs`).

use std::collections::BTreeSet;

use punctual_types::Random;

use super::random_plans::random_plan;
use super::workload::{
    WithinBounds, broken_terms, plans, random_delivery, random_parameters, submit,
};
use super::world::World;
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::{Action, Config, Criticality, Instant, PunctualConfig, Verdict};

/// The result of a run of one plan.
pub struct Course {
    pub promised: u64,
    pub misses: u64,
    /// The number of partitions on which models ran, less one for each model.
    pub moved: usize,
}

/// Runs one plan with its seed. `None` if the plan does not pass the offline test.
pub fn run_plan(
    seed: u64,
    mut config: Config,
    mut random: Random,
    ablation: Option<Ablation>,
) -> Option<Course> {
    let mut parameters = PunctualConfig::default();
    if ablation.is_none() {
        parameters = random_parameters(seed);
        random_delivery(seed, &mut config);
    }
    Punctual::new(&config, parameters).ok()?;
    let nature = WithinBounds::new(&config, random.clone());
    let mut world = World::with(config, parameters, nature);
    world.scheduler.ablations.cut = ablation;
    let in_time = submit(&mut world, &mut random);
    world.run_until(Instant::from_nanos(1_000_000_000));
    world.drain();
    let broken = broken_terms(&world.log, &in_time);
    assert!(
        ablation.is_some() || broken.is_empty(),
        "seed {seed}: {broken:?}"
    );
    Some(Course {
        promised: promised(&world),
        misses: world.misses,
        moved: moved(&world),
    })
}

/// Real-time requests that were accepted, without those that a newer frame replaced.
fn promised(world: &World<WithinBounds>) -> u64 {
    let promised = |(_, action): &&(Instant, Action)| match action {
        Action::Reply(reply) => {
            let task = &world.config.tasks[reply.task.index()];
            let rejected = matches!(reply.verdict, Verdict::Rejected(_));
            task.criticality == Criticality::RealTime && !rejected
        }
        _ => false,
    };
    world.log.iter().filter(promised).count() as u64
}

fn moved(world: &World<WithinBounds>) -> usize {
    let mut seen = BTreeSet::new();
    for (_, action) in &world.log {
        if let Action::Infer(infer) = action {
            seen.insert((infer.model, infer.partition));
        }
    }
    let models: BTreeSet<_> = seen.iter().map(|(model, _)| *model).collect();
    seen.len() - models.len()
}

/// Some plans must have misses under an ablation; otherwise the test of the guarantee shows nothing.
fn assert_plans_miss(ablation: Ablation) {
    let course = |seed| {
        let mut random = Random::new(seed);
        let config = random_plan(&mut random);
        run_plan(seed, config, random, Some(ablation))
    };
    let courses = (0..plans()).filter_map(course);
    let plans = courses.filter(|course| course.misses > 0).count();
    std::println!("{ablation:?}: {plans} plans with misses");
    assert!(plans > 0, "{ablation:?} makes no misses");
}

#[test]
fn admission_against_pending_requests_only_makes_misses() {
    assert_plans_miss(Ablation::PendingOnlyAdmission);
}

#[test]
fn optional_work_without_the_gate_makes_misses() {
    assert_plans_miss(Ablation::UngatedOptional);
}

#[test]
fn batches_that_are_tested_for_their_members_only_make_misses() {
    assert_plans_miss(Ablation::MembersOnlyBatch);
}
