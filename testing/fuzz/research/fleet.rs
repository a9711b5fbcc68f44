//! A fleet file, which names no packages.

use punctual_fleet::{FleetInputs, FleetPlan};

use super::entry::diagnosed;

/// Plans a fleet: there is a plan, the same one twice, or a diagnosis of bounded length. Whether there is a plan.
pub fn fleet(text: &[u8]) -> bool {
    let inputs = FleetInputs {
        path: "fuzzed.toml".into(),
        text: String::from_utf8_lossy(text).into_owned(),
        ..FleetInputs::default()
    };
    let Some(plan) = diagnosed(FleetPlan::build(&inputs)) else {
        return false;
    };
    let again = FleetPlan::build(&inputs).expect("the same inputs");
    assert_eq!(plan.to_json(), again.to_json());
    assert!(!plan.to_string().is_empty() && !plan.to_svg().is_empty());
    true
}
