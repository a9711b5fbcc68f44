//! Hours of a serverless trace.

use punctual_core::Nanos;

use super::paging::Watch;
use super::{ms, outcome, policy};
use crate::workloads::clockwork::{TRACE, Trace, minutes};
use punctual_report::{Table, percent};

/// The paper's six hours.
const HOURS: u64 = 6;

/// All 4,026 models on one GPU, a function each; fewer requests, as most of them are cold.
const ALL_MODELS: Trace = Trace {
    models: 4_026,
    functions: 4_026,
    rate_hz: 150.0,
    exponent: 1.5,
};

/// Traces and seeds: more and more requests, and more of them at the rate of the workload.
const RUNS: [(&Trace, f64, u64); 7] = [
    (&TRACE, 200.0, 1),
    (&TRACE, 250.0, 1),
    (&TRACE, 250.0, 2),
    (&TRACE, 250.0, 3),
    (&TRACE, 250.0, 4),
    (&TRACE, 300.0, 1),
    (&ALL_MODELS, 150.0, 1),
];

pub(super) fn run() -> String {
    let headings = [
        "models",
        "asked",
        "seed",
        "requests",
        "late",
        "rejected",
        "failed",
        "lost",
        "missed after the first minute",
        "cold starts",
        "mean batch",
        "GPU busy",
        "p50 ms",
        "p99 ms",
        "longest ms",
    ];
    let mut table = Table::new(&headings, 0);
    for (trace, rate_hz, seed) in RUNS {
        table.row(row(&Trace { rate_hz, ..*trace }, seed));
    }
    table.markdown()
}

fn row(trace: &Trace, seed: u64) -> Vec<String> {
    let scenario = minutes(trace, Nanos::from_millis(HOURS * 3_600_000));
    let mut watch = Watch::new(&scenario, HOURS as usize * 60 + 1);
    let outcome = outcome(&scenario, &policy("clockwork"), seed, &mut watch);
    let (cold, arrivals) = watch.cold_starts();
    let (total, effort) = (&outcome.total, &outcome.effort);
    let latency = |share| ms(total.latencies.value_at_quantile(share));
    vec![
        trace.models.to_string(),
        format!("{}/s", trace.rate_hz),
        seed.to_string(),
        total.submitted.to_string(),
        total.late.to_string(),
        total.rejected.sum().to_string(),
        total.failed.sum().to_string(),
        total.lost.to_string(),
        watch.missed_warm().to_string(),
        percent(cold as f64 / arrivals.max(1) as f64),
        format!(
            "{:.1}",
            effort.members as f64 / effort.actions.max(1) as f64
        ),
        percent(effort.utilisation(outcome.ended)),
        latency(0.5),
        latency(0.99),
        ms(total.latencies.max()),
    ]
}
