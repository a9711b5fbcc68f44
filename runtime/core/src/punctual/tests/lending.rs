//! Lending endangers no promise in random plans with places; without one of its two tests it does.

use std::vec::Vec;

use punctual_types::Random;

use super::guarantee::{Course, run_plan};
use super::random_plans::random_places;
use super::workload::plans;
use crate::punctual::ablation::Ablation;

/// In these a home that did not wait for its own promised work elsewhere broke a promise. It is a rare course: a
/// member comes back with an earlier deadline just after its home has started another one.
const UNPINNED: [u64; 4] = [393, 1_300, 4_789, 6_226];

fn courses(ablation: Option<Ablation>) -> Vec<Course> {
    let course = |seed| {
        let mut random = Random::new(seed);
        let config = random_places(&mut random);
        run_plan(seed, config, random, ablation)
    };
    (0..plans()).chain(UNPINNED).filter_map(course).collect()
}

#[test]
fn no_promised_request_misses_wherever_its_stages_run() {
    let courses = courses(None);
    let promised: u64 = courses.iter().map(|c| c.promised).sum();
    let moved = courses.iter().filter(|c| c.moved > 0).count();
    std::println!(
        "{} plans, {moved} with stages on places, {promised} promised requests, 0 misses",
        courses.len()
    );
    assert!(courses.iter().all(|c| c.misses == 0));
    assert!(moved * 2 > courses.len() && courses.len() as u64 * 4 > plans());
}

fn assert_plans_miss(ablation: Ablation) {
    let courses = courses(Some(ablation));
    let missing = courses.iter().filter(|c| c.misses > 0).count();
    std::println!(
        "{ablation:?}: {missing} of {} plans with misses",
        courses.len()
    );
    assert!(missing > 0, "{ablation:?} makes no misses");
}

#[test]
fn places_without_a_test_of_the_promises_there_make_misses() {
    assert_plans_miss(Ablation::UngatedLending);
}

#[test]
fn a_home_that_starts_others_beside_its_own_promised_work_elsewhere_makes_misses() {
    assert_plans_miss(Ablation::UnpinnedHome);
}
