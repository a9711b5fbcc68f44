//! Clockwork's evaluation by emulation: its workloads, its V100s by their profiles, times that err as in its
//! Figure 10; no network. Policies that do not move weights have no part in the runs in which not all fit.

pub mod isolation;
mod objectives;
mod paging;
mod trace;

use punctual_baselines::ClockworkConfig;
use punctual_core::{Nanos, PolicySpec};
use punctual_plan::PolicyChoice;

use super::Experiment;
use punctual_simulator::observer::Observer;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Tally;

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
#[must_use]
pub fn policy(name: &str) -> PolicyChoice {
    if name == "clockwork" {
        let margin = Nanos::from_micros(250);
        return PolicyChoice::new(ClockworkConfig { margin });
    }
    super::policy_named(name)
}

/// A run that some policy cannot do is a fault of the experiment.
fn outcome<O: Observer>(
    scenario: &Scenario,
    policy: &dyn PolicySpec,
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
#[must_use]
pub fn satisfied(tally: &Tally) -> f64 {
    tally.on_time as f64 / tally.submitted.max(1) as f64
}

fn ms(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::clockwork;

    #[test]
    fn fifteen_networks_in_closed_loop_go_round_in_batches_of_sixteen() {
        let mut scenario = clockwork::closed(Nanos::from_millis(500));
        scenario.length = Nanos::from_millis(2_000);
        let outcome = outcome(&scenario, &policy("clockwork"), 1, &mut ());
        assert_eq!(outcome.total.on_time, outcome.total.submitted);
        assert_eq!(outcome.effort.members, 16 * outcome.effort.actions);
        // 15 batches of 15.67 ms.
        let longest = outcome.total.latencies.max();
        assert!((234_000_000..238_000_000).contains(&longest), "{longest}");
    }

    #[test]
    fn the_trace_is_served_with_cold_starts_and_without_a_late_answer() {
        let scenario = clockwork::minutes(&clockwork::TRACE, Nanos::from_millis(30_000));
        let mut watch = paging::Watch::new(&scenario, 1);
        let outcome = outcome(&scenario, &policy("clockwork"), 1, &mut watch);
        let total = &outcome.total;
        assert_eq!((total.late, total.lost, total.failed.sum()), (0, 0, 0));
        assert!(total.rejected.sum() * 1_000 < total.submitted);
        let (cold, arrivals) = watch.cold_starts();
        assert_eq!(arrivals, total.submitted);
        assert!(
            cold * 100 > arrivals && cold * 4 < arrivals,
            "{cold} of {arrivals}"
        );
    }
}
