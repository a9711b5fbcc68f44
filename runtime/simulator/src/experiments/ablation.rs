//! What re-batching at stage boundaries and mandatory-first each add: the default policy with one
//! of its parts switched off, on the same requests.
//!
//! At equal misses two things can be compared: how accurate the answers are at one load, and how
//! much load there can be until a share of the requests is missed.

use punctual_core::{Nanos, PolicyConfig, PunctualConfig};

use super::{Experiment, real_time};
use crate::report::{Table, percent};
use crate::scenario::Scenario;
use crate::summary::Summary;
use crate::workloads;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ablation",
    about: "re-batching, mandatory-first, batching and the price of depth, each switched off",
    results: "docs/results/ablation.md",
    run,
};

const WORKLOADS: [&str; 3] = ["robot", "seeb-poisson", "seeb-gamma-high"];
const SEEDS: [u64; 2] = [1, 2];
const LENGTH: Nanos = Nanos::from_millis(20_000);
const LOADS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Sustained is the load at which at most this share of the real-time requests is missed.
const MISSED_MOST: f64 = 0.01;
/// The sustained load is sought from 0 to here, to one part in 2^STEPS of that.
const LOAD_MOST: f64 = 16.0;
const STEPS: u32 = 8;

fn run() -> String {
    let mut text = String::new();
    for name in WORKLOADS {
        let mut scenario = workloads::by_name(name).expect("a built-in workload");
        scenario.length = LENGTH;
        let table = table(&scenario);
        text.push_str(&format!("### `{name}`\n\n{}\n", table.markdown()));
    }
    text
}

/// The default policy, and what it is without each of its parts.
fn variants() -> Vec<(&'static str, PunctualConfig)> {
    let whole = PunctualConfig::default();
    let without = |change: fn(&mut PunctualConfig)| {
        let mut config = whole;
        change(&mut config);
        config
    };
    vec![
        ("all parts", whole),
        (
            "no re-batching",
            without(|config| config.rebatching = false),
        ),
        (
            "not mandatory first",
            without(|config| config.mandatory_first = false),
        ),
        ("no batching", without(|config| config.batching = false)),
        ("no price of depth", without(|config| config.price = false)),
        (
            "no re-batching, not mandatory first",
            without(|config| {
                config.rebatching = false;
                config.mandatory_first = false;
            }),
        ),
    ]
}

fn table(scenario: &Scenario) -> Table {
    let mut headings = vec!["policy".to_owned()];
    for load in LOADS {
        headings.push(format!("missed at {load:.0}x"));
        headings.push(format!("accuracy of all at {load:.0}x"));
    }
    headings.push(format!("load with {} missed", percent(MISSED_MOST)));
    headings.push("accuracy of answers there".to_owned());
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings, 1);
    for (name, config) in variants() {
        let policy = PolicyConfig::Punctual(config);
        let mut cells = vec![name.to_owned()];
        for load in LOADS {
            let summary = real_time(scenario, &policy, load, &SEEDS);
            cells.push(percent(missed(&summary)));
            cells.push(percent(summary.accuracy_on_time));
        }
        let (load, there) = sustained(scenario, &policy);
        cells.push(format!("{load:.2}x"));
        cells.push(percent(there.accuracy));
        table.row(cells);
    }
    table
}

fn missed(summary: &Summary) -> f64 {
    summary.missed as f64 / summary.submitted.max(1) as f64
}

/// The largest load with few enough misses, by bisection, and what it is like there.
fn sustained(scenario: &Scenario, policy: &PolicyConfig) -> (f64, Summary) {
    let (mut low, mut high) = (0.0, LOAD_MOST);
    let mut there = real_time(scenario, policy, LOAD_MOST / f64::from(1 << STEPS), &SEEDS);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        let summary = real_time(scenario, policy, middle, &SEEDS);
        if missed(&summary) <= MISSED_MOST {
            low = middle;
            there = summary;
        } else {
            high = middle;
        }
    }
    (low, there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_batching_less_load_can_be_sustained() {
        let mut scenario = workloads::by_name("seeb-poisson").expect("a workload");
        scenario.length = Nanos::from_millis(5_000);
        let variants = variants();
        let load = |index: usize| {
            let policy = PolicyConfig::Punctual(variants[index].1);
            sustained(&scenario, &policy).0
        };
        assert_eq!((variants[0].0, variants[3].0), ("all parts", "no batching"));
        assert!(load(0) > load(3), "{} {}", load(0), load(3));
    }
}
