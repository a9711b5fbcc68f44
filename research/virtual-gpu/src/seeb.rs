//! SEEB-GPU's traces (its section 5) again: partitions of TPCs, masks at each stage and shared leaders are the daemon's. Next to
//! each figure stands that of the simulator's modelled device. See `docs/results/seeb.md`.

use emulated_cuda::Pace;
use punctual_core::Nanos;
use punctual_evaluation::experiments::seeb::{TRACES, largest};
use punctual_evaluation::profiles::seeb::{BATCHES, TPCS};
use punctual_evaluation::workloads;
use punctual_model::Network;
use punctual_plan::PolicyChoice;
use punctual_policy_seeb::SeebConfig;
use punctual_report::{Table, percent};
use punctual_roofline::structures::Structure;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Summary;

use crate::Error;
use crate::staged::{Staged, modelled};

/// Two multiprocessors a TPC, as an RTX 3090 has them.
const SMS_PER_TPC: u32 = 2;

/// Of images: what launches compute is not computed, so small ones do.
const SIDE: u32 = 32;

/// SEEB's times are those of whole stages, their hand-over included: of that only the first launch's is not behind others.
const PACE: Pace = Pace {
    launch_ns: 1_000,
    look_ns: 4_000,
    empty_ns: 1_000,
};

fn structure(name: &str) -> Structure {
    match name {
        "resnet50" => Structure::ResNet50,
        "shufflenet" => Structure::ShuffleNetV2,
        "mobilenetv2" => Structure::MobileNetV2,
        _ => Structure::ResNet34,
    }
}

/// By model.
fn networks(scenario: &Scenario) -> Vec<Network> {
    let models = scenario.models.iter();
    models
        .map(|model| structure(&model.name).network(SIDE, 1))
        .collect()
}

fn policies() -> [(&'static str, PolicyChoice); 3] {
    [
        ("punctual", PolicyChoice::default()),
        ("seeb", PolicyChoice::new(SeebConfig::default())),
        ("seeb, largest batch", PolicyChoice::new(largest())),
    ]
}

/// The table of one trace, or of all. `progress` is told of each row.
pub fn table(
    one: Option<&str>,
    length: Option<Nanos>,
    mut progress: impl FnMut(&str, &str),
) -> Result<String, Error> {
    let headings = [
        "workload",
        "policy",
        "missed",
        "modelled",
        "accuracy",
        "modelled",
        "mean latency, ms",
        "modelled",
    ];
    let mut table = Table::new(&headings, 2);
    let traces = TRACES.map(|(name, _)| name);
    for trace in crate::chosen(&traces, one)? {
        for (name, policy) in policies() {
            progress(trace, name);
            let mut scenario = workloads::by_name(trace).expect("built in");
            scenario.length = length.unwrap_or(scenario.length);
            let networks = networks(&scenario);
            let staged = Staged {
                tpcs: TPCS,
                sms_per_tpc: SMS_PER_TPC,
                tpcs_a_unit: 1,
                pace: PACE,
                batches: &BATCHES,
                networks: networks.iter().collect(),
            };
            let ours = figures(&staged.by_the_daemon(&scenario, &policy)?);
            let model = figures(&modelled(&scenario, &policy)?);
            let pairs = ours.into_iter().zip(model);
            let cells = [trace.to_owned(), name.to_owned()];
            table.row(
                cells
                    .into_iter()
                    .chain(pairs.flat_map(|(ours, model)| [ours, model])),
            );
        }
    }
    Ok(table.markdown())
}

/// Missed, accuracy, mean latency.
fn figures(outcome: &Outcome) -> [String; 3] {
    let summary = Summary::new(&outcome.total, outcome.duration);
    [
        percent(summary.missed as f64 / summary.submitted.max(1) as f64),
        percent(summary.accuracy),
        format!("{:.1}", summary.latency_us.mean / 1e3),
    ]
}
