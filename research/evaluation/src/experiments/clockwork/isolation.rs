//! Latency-sensitive clients at the same time as batch clients.

use punctual_core::Nanos;

use super::{outcome, policy, satisfied};
use crate::workloads::clockwork;
use punctual_report::{Table, percent};
use punctual_simulator::summary::Tally;

pub const SLOS_US: [u64; 7] = [4_350, 6_530, 9_790, 14_680, 22_020, 33_030, 49_550];

/// Batch clients of a GPU, and requests that each has open.
pub const BESIDE: [(&str, u16, u16); 3] = [("nothing", 0, 1), ("2 of 16", 2, 16), ("8 of 4", 8, 4)];

pub(super) fn run() -> String {
    let headings = [
        "policy",
        "GPUs",
        "batch clients a GPU",
        "SLO",
        "sensitive in time",
        "longest ms",
        "batch requests a second and GPU",
    ];
    let mut table = Table::new(&headings, 3);
    for (name, gpus) in [("clockwork", 6), ("clockwork", 1), ("punctual", 6)] {
        for (beside, clients, outstanding) in BESIDE {
            for slo in SLOS_US {
                let slo_time = Nanos::from_micros(slo);
                let scenario = clockwork::isolation(gpus, clients, outstanding, slo_time);
                let outcome = outcome(&scenario, &policy(name), 1, &mut ());
                let (sensitive, batch) = outcome.tasks.split_at(usize::from(gpus));
                let sensitive = sum(sensitive);
                let seconds = outcome.duration.as_nanos() as f64 / 1e9 * f64::from(gpus);
                table.row([
                    name.to_owned(),
                    gpus.to_string(),
                    beside.to_owned(),
                    format!("{:.1} ms", slo as f64 / 1e3),
                    percent(satisfied(&sensitive)),
                    super::ms(sensitive.latencies.max()),
                    format!("{:.0}", sum(batch).on_time as f64 / seconds),
                ]);
            }
        }
    }
    table.markdown()
}

#[must_use]
pub fn sum(tallies: &[Tally]) -> Tally {
    let mut all = Tally::default();
    for tally in tallies {
        all.add(tally);
    }
    all
}
