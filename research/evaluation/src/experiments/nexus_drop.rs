//! Early against lazy drop (Nexus, sections 4.3 and 6.3, Figures 5 and 9): one model on one device,
//! L(b) = alpha b + beta, a deadline of 100 ms, beta such that the optimum is 500 requests a second
//! (batches of 25 in 50 ms), alpha from 1.0 to 1.8 ms. The smaller alpha, the larger the fixed cost
//! beta, and the more it costs to run small batches.

use punctual_baselines::{NexusConfig, NexusDrop};
use punctual_core::Nanos;

use crate::profiles::nexus::OPTIMAL_BATCH;
use crate::workloads::nexus;
use punctual_report::{Table, percent};
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;

use super::Experiment;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "nexus-drop",
    about: "early against lazy drop: requests a second of which 99% are in time",
    results: "docs/results/nexus.md",
    run: || tables(Nanos::from_millis(120_000), &[1, 2, 3]),
};

const ALPHAS_MS: [f64; 5] = [1.0, 1.2, 1.4, 1.6, 1.8];

/// The optimum of every alpha, requests a second.
const OPTIMUM_HZ: f64 = 500.0;

/// The share of requests that may be late or dropped at the rates of Figure 9.
const BAD_MAX: f64 = 0.01;

/// Halvings of the interval in which the highest rate is looked for: to 0.2% of the optimum.
const HALVINGS: u32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrivals {
    Uniform,
    Poisson,
}

/// One model on a device that costs nothing to use but the model's own time.
fn scenario(alpha_ms: f64, arrivals: Arrivals, length: Nanos) -> Scenario {
    let rate_hz = OPTIMUM_HZ;
    let pattern = match arrivals {
        Arrivals::Uniform => Pattern::Periodic {
            rate_hz,
            phase: Nanos::ZERO,
            jitter: Nanos::ZERO,
        },
        Arrivals::Poisson => Pattern::Poisson { rate_hz },
    };
    let mut scenario = nexus::drop(alpha_ms, pattern);
    scenario.board.dispatch_cost = Nanos::ZERO;
    scenario.board.egress_bound = Nanos::ZERO;
    scenario.length = length;
    scenario
}

fn outcome(scenario: &Scenario, drop: NexusDrop, load: f64, seed: u64) -> Outcome {
    let policy = NexusConfig {
        drop,
        targets: Vec::new(),
    };
    let settings = Settings {
        seed,
        keep_requests: false,
    };
    simulate(scenario, &policy, load, settings, &mut ()).expect("plan and pattern are valid")
}

/// The share of requests that are late or dropped, over all seeds.
fn bad(scenario: &Scenario, drop: NexusDrop, load: f64, seeds: &[u64]) -> f64 {
    let (mut missed, mut submitted) = (0, 0);
    for &seed in seeds {
        let total = outcome(scenario, drop, load, seed).total;
        missed += total.missed();
        submitted += total.submitted;
    }
    missed as f64 / submitted as f64
}

/// The highest rate, in requests a second, at which 99% are in time.
fn throughput(scenario: &Scenario, drop: NexusDrop, seeds: &[u64]) -> f64 {
    let (mut good, mut too_much) = (0.1, 1.1);
    for _ in 0..HALVINGS {
        let middle = (good + too_much) / 2.0;
        if bad(scenario, drop, middle, seeds) <= BAD_MAX {
            good = middle;
        } else {
            too_much = middle;
        }
    }
    good * OPTIMUM_HZ
}

/// The four cases of a row: lazy and early drop under uniform, then Poisson arrivals.
fn cases(alpha: f64, length: Nanos, figure: impl Fn(&Scenario, NexusDrop) -> f64) -> [f64; 4] {
    let case = |arrivals, drop| figure(&scenario(alpha, arrivals, length), drop);
    [
        case(Arrivals::Uniform, NexusDrop::Lazy),
        case(Arrivals::Uniform, NexusDrop::Early),
        case(Arrivals::Poisson, NexusDrop::Lazy),
        case(Arrivals::Poisson, NexusDrop::Early),
    ]
}

fn tables(length: Nanos, seeds: &[u64]) -> String {
    let headings = [
        "alpha, ms",
        "beta, ms",
        "uniform: lazy",
        "early",
        "Poisson: lazy",
        "early",
        "early over lazy",
    ];
    let mut rates = Table::new(&headings, 0);
    let mut shares = Table::new(&headings[..6], 0);
    for alpha in ALPHAS_MS {
        let beta = 50.0 - alpha * f64::from(OPTIMAL_BATCH);
        let first = || [format!("{alpha:.1}"), format!("{beta:.1}")].into_iter();
        let found = cases(alpha, length, |scenario, drop| {
            throughput(scenario, drop, seeds)
        });
        let gain = format!("{:+.0}%", (found[3] / found[2] - 1.0) * 100.0);
        let cells = found.map(|rate| format!("{rate:.0}"));
        rates.row(first().chain(cells).chain([gain]));
        let found = cases(alpha, length, |scenario, drop| {
            bad(scenario, drop, 0.9, seeds)
        });
        shares.row(first().chain(found.map(percent)));
    }
    format!(
        "Requests a second of which 99% are in time (Figure 9; the optimum is 500):\n\n{}\n\
         Late or dropped at 90% of the optimum (Figure 5 shows lazy drop):\n\n{}",
        rates.markdown(),
        shares.markdown()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_millis(30_000);

    #[test]
    fn nobody_is_late_under_early_drop_and_nothing_is_lost() {
        for load in [0.5, 0.9, 1.5] {
            let scenario = scenario(1.2, Arrivals::Poisson, SHORT);
            let total = outcome(&scenario, NexusDrop::Early, load, 1).total;
            assert_eq!((total.late, total.lost), (0, 0), "at {load}");
            assert_eq!(total.submitted, total.on_time + total.rejected.no_slack);
        }
    }

    #[test]
    fn with_a_large_fixed_cost_lazy_drop_falls_behind_and_early_drop_does_not() {
        let scenario = scenario(1.0, Arrivals::Poisson, SHORT);
        let lazy = bad(&scenario, NexusDrop::Lazy, 0.9, &[1]);
        let early = bad(&scenario, NexusDrop::Early, 0.9, &[1]);
        assert!(lazy > 0.5, "{lazy}");
        assert!(early < 0.05, "{early}");
    }

    #[test]
    fn uniform_arrivals_reach_the_optimum_either_way() {
        let scenario = scenario(1.4, Arrivals::Uniform, SHORT);
        for drop in [NexusDrop::Lazy, NexusDrop::Early] {
            let share = bad(&scenario, drop, 0.98, &[1]);
            assert!(share <= BAD_MAX, "{drop:?}: {share}");
        }
    }
}
