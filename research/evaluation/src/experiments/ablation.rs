//! What lending, re-batching at stage boundaries and mandatory-first each add: the default policy with one
//! of its parts switched off, on the same requests.
//!
//! At equal misses two things can be compared: how accurate the answers are at one load, and how
//! much load there can be until a share of the requests is missed.

use punctual_core::{Confidence, Nanos, PolicySpec, PunctualConfig};

use super::{Experiment, real_time};
use crate::workloads;
use punctual_report::{Table, percent};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Summary;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ablation",
    about: "lending, re-batching, mandatory-first and batching, each switched off, and the price of depth on",
    results: "docs/results/ablation.md",
    run,
};

const WORKLOADS: [&str; 3] = ["robot", "seeb-poisson", "seeb-gamma-high"];
const SEEDS: [u64; 2] = [1, 2];
const LENGTH: Nanos = Nanos::from_millis(10_000);
const LOADS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Sustained is the load at which at most this share of the real-time requests is missed.
const MISSED_MOST: f64 = 0.01;
/// The sustained load is sought between these, by `STEPS` bisections on a logarithmic scale: to 1%.
const LOAD_LEAST: f64 = 0.5;
const LOAD_MOST: f64 = 128.0;
const STEPS: u32 = 9;

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
    let changed = |change: fn(&mut PunctualConfig)| {
        let mut config = whole;
        change(&mut config);
        config
    };
    vec![
        ("all parts", whole),
        ("no lending", changed(|config| config.lending = false)),
        (
            "no re-batching",
            changed(|config| config.rebatching = false),
        ),
        (
            "not mandatory first",
            changed(|config| config.mandatory_first = false),
        ),
        ("no batching", changed(|config| config.batching = false)),
        (
            "with the price of depth",
            changed(|config| config.price = true),
        ),
        (
            "no re-batching, not mandatory first",
            changed(|config| {
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
        let scenario = &priced(scenario, &config);
        let mut cells = vec![name.to_owned()];
        for load in LOADS {
            let summary = real_time(scenario, &config, load, &SEEDS);
            cells.push(percent(missed(&summary)));
            cells.push(percent(summary.accuracy_on_time));
        }
        let (load, there) = sustained(scenario, &config);
        cells.push(format!("{load:.2}x"));
        cells.push(percent(there.accuracy));
        table.row(cells);
    }
    table
}

/// The scenario in which a price, if there is one, decides on each deeper stage.
fn priced(scenario: &Scenario, config: &PunctualConfig) -> Scenario {
    let mut scenario = scenario.clone();
    for task in scenario.tasks.iter_mut().filter(|_| config.price) {
        task.config.threshold_min = Confidence(0);
    }
    scenario
}

fn missed(summary: &Summary) -> f64 {
    summary.missed as f64 / summary.submitted.max(1) as f64
}

/// The largest load with few enough misses, by bisection, and what it is like there.
fn sustained(scenario: &Scenario, policy: &dyn PolicySpec) -> (f64, Summary) {
    let (mut low, mut high) = (LOAD_LEAST, LOAD_MOST);
    let mut there = real_time(scenario, policy, low, &SEEDS);
    for _ in 0..STEPS {
        let middle = (low * high).sqrt();
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
    fn lending_batches_and_their_re_batching_make_answers_deeper_at_no_misses() {
        let mut scenario = workloads::by_name("seeb-poisson").expect("a workload");
        scenario.length = Nanos::from_millis(5_000);
        let at_four_times = |change: fn(&mut PunctualConfig)| {
            let mut policy = PunctualConfig::default();
            change(&mut policy);
            let summary = real_time(&scenario, &policy, 4.0, &SEEDS);
            assert_eq!(summary.missed, 0, "{policy:?}");
            summary.accuracy_on_time
        };
        let all = at_four_times(|_| {});
        let at_home = at_four_times(|policy| policy.lending = false);
        let without_re_batching = at_four_times(|policy| {
            (policy.lending, policy.rebatching) = (false, false);
        });
        let without_batching = at_four_times(|policy| {
            (policy.lending, policy.batching) = (false, false);
        });
        assert!(all > at_home + 0.05, "{all} {at_home}");
        assert!(
            at_home > without_re_batching + 0.03,
            "{at_home} {without_re_batching}"
        );
        assert!(without_re_batching > without_batching, "{without_batching}");
    }

    #[test]
    fn the_sustained_load_has_few_misses_and_a_little_more_has_many() {
        let mut scenario = workloads::by_name("robot").expect("a workload");
        scenario.length = Nanos::from_millis(5_000);
        let policy = PunctualConfig::default();
        let (load, there) = sustained(&scenario, &policy);
        assert!(missed(&there) <= MISSED_MOST, "{there:?}");
        let beyond = real_time(&scenario, &policy, load * 1.1, &SEEDS);
        assert!(missed(&beyond) > MISSED_MOST, "{load}");
    }
}
