//! All suites, in the order in which they run: what says least about a target comes last.

mod faults;
mod hostile;
mod isolation;
mod latency;
mod machine;
mod overload;
mod smoke;
mod soak;
mod torture;
mod upgrade;

use punctual_types::Random;

use crate::case::Case;

#[must_use]
pub fn all() -> Vec<&'static Case> {
    let mut suites = vec![
        smoke::CASES,
        latency::CASES,
        isolation::CASES,
        overload::CASES,
        faults::CASES,
    ];
    suites.extend(hostile::CASES);
    suites.extend([machine::CASES, upgrade::CASES, soak::CASES]);
    suites.into_iter().flatten().collect()
}

/// The names of the suites, in order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = all().iter().map(|case| case.suite).collect();
    names.dedup();
    names
}

/// All keys that a bounds file may have, `SUITE.MEASURE`.
#[must_use]
pub fn measures() -> Vec<String> {
    let keys = all().into_iter().flat_map(|case| {
        case.measures
            .iter()
            .map(|(key, _)| format!("{}.{key}", case.suite))
    });
    keys.collect()
}

/// A number below `below`, drawn from the case's seed.
pub(crate) fn drawn(seed: u64, turn: u64, below: u64) -> u64 {
    Random::new(seed).stream("turn", turn).below(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_cases_have_one_name_and_no_suite_is_torn_apart() {
        let paths: BTreeSet<_> = all().iter().map(|case| case.path()).collect();
        assert_eq!(paths.len(), all().len());
        let suites: BTreeSet<_> = names().into_iter().collect();
        assert_eq!(suites.len(), names().len());
    }

    #[test]
    fn every_case_says_what_it_does_and_has_a_limit() {
        for case in all() {
            assert!(
                case.about.ends_with('.') && case.limit_s > 0,
                "{}",
                case.path()
            );
        }
    }
}
