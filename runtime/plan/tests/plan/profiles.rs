//! Which of several profiles a plan is made from.

use punctual_model::{Package, Profile};
use punctual_plan::{ModelRule, Nearness, Plan, PlanInputs, ProfileInput};

use crate::fixture;

const MANIFEST: &str = include_str!("../manifests/good/demo.toml");

fn retrained(package: &Package) -> Package {
    let mut network = package.network().clone();
    network.weights.to_mut().iter_mut().for_each(|w| *w *= 0.5);
    Package::new(network, package.calibration().clone()).expect("a valid network")
}

/// Of a package that was trained again since its profile was measured.
fn inputs() -> PlanInputs {
    let mut inputs = fixture::inputs(MANIFEST, "manifest.toml");
    inputs.packages[0].package = Ok(retrained(&fixture::package()));
    inputs
}

fn profile(of: &ProfileInput) -> &Profile {
    of.profile.as_ref().expect("the fixture's")
}

#[test]
fn other_weights_are_planned_by_the_figures_of_those_that_were_measured() {
    let plan = Plan::build(&inputs()).unwrap_or_else(|errors| panic!("{errors}"));
    let measured = profile(&inputs().profiles[0]).key.package.clone();
    assert_eq!(plan.models[0].measured_with, Some(measured));
    let before = Plan::build(&fixture::inputs(MANIFEST, "manifest.toml"));
    let before = before.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(before.models[0].measured_with, None);
    assert_eq!(plan.scheduler.models, before.scheduler.models);
    assert_ne!(plan.hash, before.hash);
}

#[test]
fn a_packages_own_profile_comes_before_that_of_a_network_of_the_same_work() {
    let mut inputs = inputs();
    let mut twins = inputs.profiles[0].clone();
    twins.lies_with = Some("twin.punctual".to_owned());
    // Of a model whose tasks have other frames.
    let profile = twins.profile.as_mut().expect("the fixture's");
    profile.prepare.clear();
    inputs.profiles.insert(0, twins);
    Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
    let package = inputs.packages[0].package.clone().expect("a package");
    let found = inputs.packages[0].candidates(&package, &inputs.profiles);
    let first = found.first().map(|candidate| candidate.nearness);
    assert_eq!(first, Some(Nearness::LiesWithIt));
    let last = found.last().map(|candidate| candidate.nearness);
    assert_eq!(last, Some(Nearness::SameTiming));
}

#[test]
fn a_profile_of_an_earlier_version_holds_for_its_very_package() {
    let mut inputs = fixture::inputs(MANIFEST, "manifest.toml");
    let forget = |inputs: &mut PlanInputs| {
        let profile = inputs.profiles[0].profile.as_mut();
        profile.expect("the fixture's").key.timing.clear();
    };
    forget(&mut inputs);
    Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
    inputs.packages[0].package = Ok(retrained(&fixture::package()));
    inputs.profiles.truncate(1);
    let errors = Plan::build(&inputs).expect_err("it is of other weights");
    let cause = errors.problems()[0].cause::<ModelRule>();
    assert!(
        matches!(cause, Some(ModelRule::ProfileOfAnother { .. })),
        "{errors}"
    );
}
