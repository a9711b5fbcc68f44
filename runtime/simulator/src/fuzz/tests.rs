//! The fuzzer finds what is planted, shrinks it, and finds nothing else.

use super::{Campaign, Case, campaign, check};

/// Seeds of the smoke run.
const SMOKE: u64 = 400;

#[test]
fn a_few_hundred_seeds_of_everything_are_clean() {
    let plan = Campaign {
        first: 0,
        cases: seeds(SMOKE),
        tries: 200,
    };
    let report = campaign(plan, |_| true);
    println!("{report}");
    assert!(report.failures.is_empty());
    assert!(report.infeasible * 4 < report.cases, "{report}");
    assert!(report.on_time > 10 * report.cases && report.gaps > report.cases / 10);
}

/// As many as the environment asks for.
fn seeds(otherwise: u64) -> u64 {
    let asked = std::env::var("PUNCTUAL_SEEDS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn the_same_seed_is_the_same_case_and_other_seeds_are_others() {
    let text = |seed| Case::draw(seed).to_string();
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
    assert_eq!(check(&Case::draw(7)), check(&Case::draw(7)));
}
