//! Clockwork's isolation experiment (OSDI 2020, section 6.4) on one GPU, by the daemon's device. Next to each figure stands that of the
//! simulator's modelled device. See `docs/results/clockwork.md`.

use emulated_cuda::Pace;
use punctual_core::Nanos;
use punctual_evaluation::experiments::clockwork::isolation::{BESIDE, SLOS_US, sum};
use punctual_evaluation::experiments::clockwork::{policy, satisfied};
use punctual_evaluation::workloads::clockwork;
use punctual_model::Network;
use punctual_report::{Table, percent};
use punctual_roofline::structures::Structure;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::scenario::{Board, Scenario};
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

const POLICIES: [&str; 2] = ["clockwork", "punctual"];

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
    let network = network();
    let mut table = Table::new(&headings, 3);
    for name in crate::chosen(&POLICIES, one)? {
        for beside in BESIDE {
            for slo_us in SLOS_US {
                let slo = format!("{:.1} ms", slo_us as f64 / 1e3);
                progress(name, &format!("{}, {slo}", beside.0));
                let case = Case {
                    network: &network,
                    policy: name,
                    beside,
                    slo: Nanos::from_micros(slo_us),
                    length,
                };
                let pairs = case.by_the_daemon()?.cells().into_iter();
                let pairs = pairs.zip(case.modelled()?.cells());
                let cells = [name.to_owned(), beside.0.to_owned(), slo].into_iter();
                table.row(cells.chain(pairs.flat_map(|(ours, model)| [ours, model])));
            }
        }
    }
    Ok(table.markdown())
}

/// The clients have at most 32 requests of batches open, and some ten of the sensitive client; the workload's own 4,096 buffers do
/// not fit into the GPU's memory.
const REQUEST_BUFFERS: u16 = 256;

pub fn network() -> Network {
    Structure::ResNet50.network(SIDE, 1)
}

/// A row of the table.
pub struct Case<'n> {
    pub network: &'n Network,
    pub policy: &'static str,
    /// Batch clients, and the requests that each has open.
    pub beside: (&'static str, u16, u16),
    pub slo: Nanos,
    /// None: that of the workload.
    pub length: Option<Nanos>,
}

impl Case<'_> {
    fn scenario(&self) -> Scenario {
        let (_, clients, outstanding) = self.beside;
        let scenario = clockwork::isolation(1, clients, outstanding, self.slo);
        Scenario {
            length: self.length.unwrap_or(scenario.length),
            // Stages take their budgets, on either device.
            durations: Durations::default(),
            board: Board {
                request_buffers: REQUEST_BUFFERS,
                ..scenario.board
            },
            ..scenario
        }
    }

    pub fn by_the_daemon(&self) -> Result<Figures, Error> {
        let scenario = self.scenario();
        let staged = Staged {
            tpcs: TPCS,
            sms_per_tpc: SMS_PER_TPC,
            tpcs_a_unit: TPCS,
            pace: PACE,
            batches: &BATCHES,
            networks: vec![self.network; scenario.models.len()],
        };
        let outcome = staged.by_the_daemon(&scenario, &policy(self.policy))?;
        Ok(Figures::of(&outcome))
    }

    pub fn modelled(&self) -> Result<Figures, Error> {
        let outcome = modelled(&self.scenario(), &policy(self.policy))?;
        Ok(Figures::of(&outcome))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The sensitive client's share in time.
    pub in_time: f64,
    /// Its longest answer.
    pub longest_ms: f64,
    /// The batch clients' requests a second.
    pub batch_hz: f64,
}

impl Figures {
    fn of(outcome: &Outcome) -> Self {
        let (sensitive, batch) = outcome.tasks.split_at(1);
        let sensitive = sum(sensitive);
        let seconds = outcome.duration.as_nanos() as f64 / 1e9;
        Self {
            in_time: satisfied(&sensitive),
            longest_ms: sensitive.latencies.max() as f64 / 1e6,
            batch_hz: sum(batch).on_time as f64 / seconds,
        }
    }

    fn cells(self) -> [String; 3] {
        [
            percent(self.in_time),
            format!("{:.1}", self.longest_ms),
            format!("{:.0}", self.batch_hz),
        ]
    }
}
