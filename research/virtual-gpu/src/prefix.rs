//! Nexus's figure 15 (SOSP 2019, section 7.4): networks that differ in their last layer alone, batched together and apart, by the
//! daemon's device. See `docs/results/prefix.md`.

use std::collections::BTreeMap;

use emulated_cuda::{BegunLaunch, LaunchCost, Pace};
use punctual_core::{Infer, Nanos, PunctualConfig, StageTime};
use punctual_device_cuda::lower::{Program, Target};
use punctual_evaluation::experiments::prefix::{DEADLINE, Family, HEADS, highest_load};
use punctual_evaluation::profiles::reef::COMPUTE_UNITS;
use punctual_model::{Network, cut_where_they_part};
use punctual_report::Table;
use punctual_roofline::Partition;
use punctual_roofline::structures::Structure;
use punctual_simulator::scenario::Measured;

use crate::Error;
use crate::costs::{self, CostError, PAGE_BYTES};
use crate::gpu::Costs;
use crate::staged::Staged;

/// Nothing divides the GPU: to the scenario it is one unit.
const TPCS: u16 = COMPUTE_UNITS;
const SMS: u32 = COMPUTE_UNITS as u32;

/// As packages are compiled.
const BATCHES: [u8; 4] = [1, 2, 4, 8];

/// Of images.
const SIDE: u32 = 224;

/// Budgets above the predicted times.
const MARGIN_PERCENT: u64 = 5;

const PACE: Pace = Pace {
    launch_ns: 5_000,
    look_ns: 4_000,
    empty_ns: 2_000,
};

/// A part of the table: networks of one family with one deadline.
struct Rows {
    name: &'static str,
    structure: Structure,
    /// Whether the deadline is so short that not all of ten networks run a batch within it.
    is_short: bool,
}

const ROWS: [Rows; 6] = [
    Rows::new("resnet34", Structure::ResNet34, false),
    Rows::new("resnet34-short", Structure::ResNet34, true),
    Rows::new("mobilenet_v2", Structure::MobileNetV2, false),
    Rows::new("mobilenet_v2-short", Structure::MobileNetV2, true),
    Rows::new("vit_ti_16", Structure::VitTi16, false),
    Rows::new("vit_ti_16-short", Structure::VitTi16, true),
];

impl Rows {
    const fn new(name: &'static str, structure: Structure, is_short: bool) -> Self {
        Self {
            name,
            structure,
            is_short,
        }
    }
}

/// Where the highest rate lies between two that are known, to a fiftieth.
const HALVINGS: u32 = 6;

/// A short deadline, in times of a batch of the largest size.
const BATCHES_IN_DEADLINE: u64 = 4;

const LENGTH: Nanos = Nanos::from_millis(4_000);

/// The times of a network's launches on the whole GPU, as the roofline predicts them.
struct Predicted {
    /// By stage and batch size.
    launches: BTreeMap<(usize, u8), Vec<f64>>,
}

impl Predicted {
    fn new(network: &Network) -> Result<Self, CostError> {
        let target = Target {
            multiprocessors: SMS,
            compute_capability: costs::COMPUTE_CAPABILITY,
            page_bytes: PAGE_BYTES,
        };
        let program = Program::lower(network, &BATCHES, &target, &[])?;
        let device = costs::device(SMS);
        let all = Partition {
            multiprocessors: SMS,
            check_stride: 8,
        };
        let mut launches = BTreeMap::new();
        for (stage, of_stage) in program.stages.iter().enumerate() {
            for list in &of_stage.lists {
                let predicted = device.stage(list, all)?.launches;
                let ns = predicted.iter().map(|launch| launch.ns).collect();
                launches.insert((stage, list.batch), ns);
            }
        }
        Ok(Self { launches })
    }

    /// As a profile would have them, the hand-over of each launch included.
    fn stage(&self, stage: usize) -> Vec<Measured> {
        let measured = |&batch: &u8| {
            let launches = &self.launches[&(stage, batch)];
            let handed_over = launches.len() as u64 * PACE.launch_ns;
            let ns = launches.iter().sum::<f64>() as u64 + handed_over;
            let budget = Nanos::new(ns + ns * MARGIN_PERCENT / 100);
            Measured {
                batch,
                units: 1,
                time: StageTime {
                    budget,
                    max_seen: budget,
                },
            }
        };
        BATCHES.iter().map(measured).collect()
    }
}

impl Costs for Predicted {
    fn cost(&self, infer: &Infer, launch: &BegunLaunch) -> LaunchCost {
        let list = self.launches.get(&(infer.stage.index(), infer.batch));
        let ns = list.and_then(|list| list.get(launch.index as usize));
        LaunchCost::alone(ns.map_or(1, |ns| *ns as u64 / u64::from(launch.waves())))
    }
}

/// The networks, cut where they part, and what they cost.
struct Cut {
    network: Network,
    /// Bytes of weights: of the part in common, and of each network's own.
    common_bytes: u64,
    own_bytes: u64,
    family: Family,
}

impl Cut {
    fn new(structure: Structure) -> Result<(Self, Predicted), Error> {
        let variants = structure.specialised(SIDE, 1, 2);
        let whole = variants[0].weights.len() as u64 * 4;
        let mut cut = cut_where_they_part(&variants);
        let network = cut.swap_remove(0);
        let own: u64 = network.stages[1]
            .operators
            .iter()
            .flat_map(|operator| &operator.weights)
            .map(|range| u64::from(range.len) * 4)
            .sum();
        let costs = Predicted::new(&network)?;
        let [beginning, head] = [0, 1].map(|stage| costs.stage(stage));
        let largest = |stage: &[Measured]| stage.last().map_or(0, |it| it.time.budget.as_nanos());
        let batch_ns = (largest(&beginning) + largest(&head)).max(1);
        let family = Family {
            source: "predicted".to_owned(),
            rate_hz: f64::from(BATCHES[BATCHES.len() - 1]) * 1e9 / batch_ns as f64,
            beginning,
            head,
            deadline: DEADLINE,
        };
        let cut = Self {
            network,
            common_bytes: whole - own,
            own_bytes: own,
            family,
        };
        Ok((cut, costs))
    }

    /// That of the experiment, or a short one.
    fn deadline(&self, is_short: bool) -> Nanos {
        let batch_ns = f64::from(BATCHES[BATCHES.len() - 1]) * 1e9 / self.family.rate_hz;
        if is_short {
            Nanos::new(BATCHES_IN_DEADLINE * batch_ns as u64)
        } else {
            self.family.deadline
        }
    }

    /// The highest rate of all tasks together, in requests a second, of which 99% are in time.
    fn throughput(&self, costs: &Predicted, asked: Asked, together: bool) -> Result<f64, Error> {
        let Asked {
            heads,
            deadline,
            length,
        } = asked;
        let family = Family {
            deadline,
            ..self.family.clone()
        };
        let scenario = family.scenario(heads, together, length);
        let staged = Staged {
            tpcs: TPCS,
            sms_per_tpc: 1,
            tpcs_a_unit: TPCS,
            pace: PACE,
            batches: &BATCHES,
            networks: vec![&self.network; heads],
        };
        let policy = PunctualConfig::default();
        let load = highest_load(HALVINGS, |load| {
            let total = staged.at_load(&scenario, &policy, load, costs)?.total;
            Ok::<f64, Error>(total.missed() as f64 / total.submitted.max(1) as f64)
        });
        Ok(load? * self.family.rate_hz)
    }
}

/// How many networks are asked, how soon they have to answer, and for how long.
#[derive(Clone, Copy)]
struct Asked {
    heads: usize,
    deadline: Nanos,
    length: Nanos,
}

/// The table of one part, or of all; each run for so long. `progress` is told of each row.
pub fn table(
    one: Option<&str>,
    length: Option<Nanos>,
    mut progress: impl FnMut(&str, &str),
) -> Result<String, Error> {
    let headings = [
        "family",
        "deadline, ms",
        "networks",
        "apart, requests/s",
        "together",
        "gain",
        "weights apart, MB",
        "together",
    ];
    let names = ROWS.map(|rows| rows.name);
    let length = length.unwrap_or(LENGTH);
    let mut table = Table::new(&headings, 1);
    let chosen = crate::chosen(&names, one)?;
    for rows in ROWS.iter().filter(|rows| chosen.contains(&rows.name)) {
        let (cut, costs) = Cut::new(rows.structure)?;
        let deadline = cut.deadline(rows.is_short);
        for heads in HEADS {
            progress(rows.name, &format!("{heads} networks"));
            let asked = Asked {
                heads,
                deadline,
                length,
            };
            let apart = cut.throughput(&costs, asked, false)?;
            let together = cut.throughput(&costs, asked, true)?;
            let mb = |common: u64| {
                let own = cut.own_bytes * heads as u64;
                format!("{:.0}", (cut.common_bytes * common + own) as f64 / 1e6)
            };
            table.row([
                rows.structure.name().to_owned(),
                format!("{:.1}", deadline.as_nanos() as f64 / 1e6),
                heads.to_string(),
                format!("{apart:.0}"),
                format!("{together:.0}"),
                format!("{:.2}x", together / apart),
                mb(heads as u64),
                mb(1),
            ]);
        }
    }
    Ok(table.markdown())
}
