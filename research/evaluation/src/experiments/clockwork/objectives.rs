//! How tight an objective can be.

use punctual_core::Nanos;

use super::{outcome, policy, satisfied};
use crate::workloads::clockwork;
use punctual_report::{Table, percent};

/// Of Figure 5, in ms.
const CLOSED_MS: [u64; 6] = [10, 25, 50, 100, 250, 500];

/// From one execution of ResNet50 on, in steps of a half (section 6.3), in us.
const LOW_US: [u64; 9] = [
    2_900, 4_350, 6_530, 9_790, 14_680, 22_020, 33_030, 49_550, 74_320,
];

/// 15 networks in closed loop.
pub(super) fn closed() -> String {
    let mut table = Table::new(
        &[
            "policy",
            "SLO",
            "in time a second",
            "missed",
            "p50 ms",
            "p99 ms",
            "longest ms",
        ],
        1,
    );
    for name in ["clockwork", "punctual", "clipper", "nexus"] {
        for slo in CLOSED_MS {
            let scenario = clockwork::closed(Nanos::from_millis(slo));
            let summary = outcome(&scenario, &policy(name), 1, &mut ()).summary();
            let latency = summary.latency_us;
            table.row([
                name.to_owned(),
                format!("{slo} ms"),
                format!("{:.0}", summary.goodput_per_s),
                percent(summary.missed as f64 / summary.submitted as f64),
                format!("{:.1}", latency.p50 / 1e3),
                format!("{:.1}", latency.p99 / 1e3),
                format!("{:.1}", latency.max / 1e3),
            ]);
        }
    }
    table.markdown()
}

/// The paper's networks and rates on six GPUs, and a sixth of them on one.
pub(super) fn low() -> String {
    [
        ("clockwork", 6),
        ("punctual", 6),
        ("clockwork", 1),
        ("punctual", 1),
    ]
    .map(|(name, gpus)| low_table(name, gpus))
    .concat()
}

fn low_table(name: &str, gpus: u16) -> String {
    let settings: Vec<(u16, f64)> = [600.0, 1_200.0, 2_400.0]
        .into_iter()
        .flat_map(|rate| [12, 48].map(|models| (models * gpus / 6, rate * f64::from(gpus) / 6.0)))
        .collect();
    let headings = settings
        .iter()
        .map(|(models, rate)| format!("{models} at {rate}/s"));
    let headings: Vec<String> = std::iter::once("SLO".to_owned()).chain(headings).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings, 0);
    for slo in LOW_US {
        let mut row = vec![format!("{:.1} ms", slo as f64 / 1e3)];
        for &(models, rate) in &settings {
            let scenario = clockwork::low_slo(gpus, models, rate, Nanos::from_micros(slo));
            let outcome = outcome(&scenario, &policy(name), 1, &mut ());
            row.push(percent(satisfied(&outcome.total)));
        }
        table.row(row);
    }
    format!("`{name}`, GPUs: {gpus}\n\n{}\n", table.markdown())
}
