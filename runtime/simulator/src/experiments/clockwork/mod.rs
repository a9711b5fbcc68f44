//! Clockwork's evaluation by emulation: its workloads, its V100s by their profiles, times that err
//! as in its Figure 10; no network. Policies that do not move weights have no part in the runs in
//! which not all fit.

mod isolation;
mod objectives;
mod paging;
mod trace;

use punctual_core::{ClockworkConfig, Nanos, PolicyConfig};

use super::Experiment;
use crate::observer::Observer;
use crate::outcome::Outcome;
use crate::run::{Settings, simulate};
use crate::scenario::Scenario;
use crate::summary::Tally;

const RESULTS: &str = "docs/results/clockwork.md";

pub(super) const EXPERIMENTS: [Experiment; 5] = [
    Experiment {
        name: "clockwork-closed",
        about: "15 networks in closed loop on one GPU, SLOs from 10 to 500 ms (Clockwork 6.1)",
        results: RESULTS,
        run: objectives::closed,
    },
    Experiment {
        name: "clockwork-low-slo",
        about: "12 and 48 networks on six GPUs, SLOs from 2.9 to 74 ms (Clockwork 6.3)",
        results: RESULTS,
        run: objectives::low,
    },
    Experiment {
        name: "clockwork-isolation",
        about: "latency-sensitive clients beside batch clients (Clockwork 6.4)",
        results: RESULTS,
        run: isolation::run,
    },
    Experiment {
        name: "clockwork-many-models",
        about: "3,601 networks on a GPU that holds 201 (Clockwork 6.2)",
        results: RESULTS,
        run: paging::run,
    },
    Experiment {
        name: "clockwork-minutes",
        about: "hours of a serverless trace over thousands of networks (Clockwork 6.5)",
        results: RESULTS,
        run: trace::run,
    },
];

/// A policy by name; `clockwork` with a margin beyond which a prediction falls short in one of some
/// ten thousand actions.
fn policy(name: &str) -> PolicyConfig {
    if name == "clockwork" {
        let margin = Nanos::from_micros(250);
        return PolicyConfig::Clockwork(ClockworkConfig { margin });
    }
    PolicyConfig::by_name(name).expect("a built-in policy")
}

/// A run that some policy cannot do is a fault of the experiment.
fn outcome<O: Observer>(
    scenario: &Scenario,
    policy: &PolicyConfig,
    seed: u64,
    observer: &mut O,
) -> Outcome {
    let settings = Settings {
        seed,
        keep_requests: false,
    };
    let outcome = simulate(scenario, policy, 1.0, settings, observer);
    outcome.unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

/// The share of requests that were answered in time: the paper's workload satisfaction.
fn satisfied(tally: &Tally) -> f64 {
    tally.on_time as f64 / tally.submitted.max(1) as f64
}

fn ms(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}
