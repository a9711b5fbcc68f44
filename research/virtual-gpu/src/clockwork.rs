//! Clockwork's isolation experiment (OSDI 2020, section 6.4) on one GPU, by the daemon's device. Next to each figure stands that of the
//! simulator's modelled device. See `docs/results/clockwork.md`.

use emulated_cuda::Pace;
use punctual_core::Nanos;
use punctual_evaluation::experiments::clockwork::isolation::{BESIDE, SLOS_US, sum};
use punctual_evaluation::experiments::clockwork::{policy, satisfied};
use punctual_evaluation::workloads::clockwork;
use punctual_report::{Table, percent};
use punctual_roofline::structures::Structure;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::timing::Durations;

use crate::Error;
use crate::staged::{Staged, modelled};

/// A V100. Nothing divides it: to the scenario it is one unit.
const TPCS: u16 = 40;
const SMS_PER_TPC: u32 = 2;

/// Of images: what launches compute is not computed, so small ones do.
const SIDE: u32 = 32;

/// Of Clockwork's Table 1.
const BATCHES: [u8; 5] = [1, 2, 4, 8, 16];

/// The published times are those of whole networks, their hand-over included.
const PACE: Pace = Pace {
    launch_ns: 1_000,
    look_ns: 4_000,
    empty_ns: 1_000,
};

pub const POLICIES: [&str; 2] = ["clockwork", "punctual"];

/// The table of one policy, or of both, for so long instead of the workload's length. `progress` is told of each row.
pub fn table(
    one: Option<&str>,
    length: Option<Nanos>,
    mut progress: impl FnMut(&str, &str),
) -> Result<String, Error> {
    let headings = [
        "policy",
        "batch clients",
        "SLO",
        "sensitive in time",
        "modelled",
        "longest ms",
        "modelled",
        "batch requests a second",
        "modelled",
    ];
    let network = Structure::ResNet50.network(SIDE, 1);
    let mut table = Table::new(&headings, 3);
    for name in crate::chosen(&POLICIES, one)? {
        for (beside, clients, outstanding) in BESIDE {
            for slo in SLOS_US {
                let slo_ms = format!("{:.1} ms", slo as f64 / 1e3);
                progress(name, &format!("{beside}, {slo_ms}"));
                let slo = Nanos::from_micros(slo);
                let mut scenario = clockwork::isolation(1, clients, outstanding, slo);
                scenario.length = length.unwrap_or(scenario.length);
                // Stages take their budgets here, and there.
                scenario.durations = Durations::default();
                let staged = Staged {
                    tpcs: TPCS,
                    sms_per_tpc: SMS_PER_TPC,
                    tpcs_a_unit: TPCS,
                    pace: PACE,
                    batches: &BATCHES,
                    networks: vec![&network; scenario.models.len()],
                };
                let policy = policy(name);
                let ours = figures(&staged.by_the_daemon(&scenario, &policy)?);
                let model = figures(&modelled(&scenario, &policy)?);
                let pairs = ours.into_iter().zip(model);
                let cells = [name.to_owned(), beside.to_owned(), slo_ms];
                table.row(
                    cells
                        .into_iter()
                        .chain(pairs.flat_map(|(ours, model)| [ours, model])),
                );
            }
        }
    }
    Ok(table.markdown())
}

/// The sensitive client's share in time and its longest answer, and the batch clients' requests a second.
fn figures(outcome: &Outcome) -> [String; 3] {
    let (sensitive, batch) = outcome.tasks.split_at(1);
    let sensitive = sum(sensitive);
    let seconds = outcome.duration.as_nanos() as f64 / 1e9;
    [
        percent(satisfied(&sensitive)),
        format!("{:.1}", sensitive.latencies.max() as f64 / 1e6),
        format!("{:.0}", sum(batch).on_time as f64 / seconds),
    ]
}
