//! SEEB-GPU's traces (its section 5) again: partitions of TPCs, masks at each stage and shared leaders are the daemon's. Next to
//! each figure stands that of the simulator's modelled device. See `docs/results/seeb.md`.

use std::collections::BTreeMap;

use emulated_cuda::{BegunLaunch, LaunchCost, Pace};
use punctual_core::{Config, Infer, Nanos, PartitionConfig, PolicySpec};
use punctual_device::{DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_cuda::lower::{Program, Target};
use punctual_device_cuda::{CudaSpec, Division, Watchdog};
use punctual_evaluation::experiments::seeb::{TRACES, largest};
use punctual_evaluation::profiles::seeb::{BATCHES, TPCS};
use punctual_evaluation::workloads;
use punctual_model::Network;
use punctual_plan::PolicyChoice;
use punctual_policy_seeb::SeebConfig;
use punctual_report::{Table, percent};
use punctual_roofline::structures::Structure;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::run::{Settings, run_on, run_plan};
use punctual_simulator::samples::{Answers, Samples};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Summary;
use punctual_types::Random;

use crate::Error;
use crate::costs::{CostError, PAGE_BYTES};
use crate::gpu::{Costs, Machine, VirtualGpu};

const SEED: u64 = 1;

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

fn policies() -> [(&'static str, PolicyChoice); 3] {
    [
        ("punctual", PolicyChoice::default()),
        ("seeb", PolicyChoice::new(SeebConfig::default())),
        ("seeb, largest batch", PolicyChoice::new(largest())),
    ]
}

/// The time of each stage is that of the profile, in equal parts for its launches.
struct StageCosts {
    partitions: Vec<PartitionConfig>,
    /// Whose profiles say how long stages take.
    scenario: Scenario,
    /// By model, stage, batch and TPCs, the launches of the stage's list.
    launches: BTreeMap<(usize, usize, u8, u16), u32>,
}

impl StageCosts {
    fn new(scenario: &Scenario, config: &Config, networks: &[Network]) -> Result<Self, CostError> {
        let mut launches = BTreeMap::new();
        for (model, network) in networks.iter().enumerate() {
            let mut sizes: Vec<u16> = config.partitions.iter().map(|p| p.units.count).collect();
            sizes.sort_unstable();
            sizes.dedup();
            for tpcs in sizes {
                let target = Target {
                    multiprocessors: u32::from(tpcs) * SMS_PER_TPC,
                    compute_capability: (8, 7),
                    page_bytes: PAGE_BYTES,
                };
                let program = Program::lower(network, &BATCHES, &target, &[])?;
                for (stage, of_stage) in program.stages.iter().enumerate() {
                    for list in &of_stage.lists {
                        let count = list.steps.len() as u32;
                        launches.insert((model, stage, list.batch, tpcs), count);
                    }
                }
            }
        }
        Ok(Self {
            partitions: config.partitions.clone(),
            scenario: scenario.clone(),
            launches,
        })
    }
}

impl Costs for StageCosts {
    fn cost(&self, infer: &Infer, launch: &BegunLaunch) -> LaunchCost {
        let units = self.partitions[infer.partition.index()].units.count;
        let sms = u32::from(units) * SMS_PER_TPC;
        assert_eq!(launch.sms, sms, "the mask is that of the partition");
        let (model, stage) = (infer.model.index(), infer.stage.index());
        // Lists are of the smallest size that takes the members.
        let members = infer.members.len() as u8;
        let list = BATCHES.into_iter().find(|batch| *batch >= members);
        let count = list.and_then(|list| self.launches.get(&(model, stage, list, units)));
        let time = self.scenario.models[model].stages[stage].time(infer.batch, units);
        let first = Nanos::new(PACE.launch_ns);
        let all = time.budget.as_nanos().saturating_sub(first.as_nanos());
        let each = all / u64::from(count.copied().unwrap_or(1));
        LaunchCost::alone(each / u64::from(launch.waves()))
    }
}

/// A policy's plan of a trace, on a device that was started for it.
fn by_the_daemon(scenario: &Scenario, policy: &dyn PolicySpec) -> Result<Outcome, Error> {
    let config = scenario.config(policy);
    let networks: Vec<Network> = scenario
        .models
        .iter()
        .map(|model| structure(&model.name).network(SIDE, 1))
        .collect();
    let costs = StageCosts::new(scenario, &config, &networks)?;
    let machine = Machine::start(u32::from(TPCS), SMS_PER_TPC)?;
    let models: Vec<ModelSpec<'_>> = networks
        .iter()
        .map(|network| ModelSpec::resident(network, &BATCHES))
        .collect();
    let tpcs = |partition: &PartitionConfig| partition.units.first..partition.units.end();
    let ranges: Vec<_> = config.partitions.iter().map(tpcs).collect();
    let partition = |(at, range): (usize, &std::ops::Range<u16>)| PartitionSpec {
        tpcs: range.clone(),
        // One leader for all.
        ..PartitionSpec::on_cores(format!("p{at}"), vec![0], None)
    };
    let partitions: Vec<PartitionSpec> = ranges.iter().enumerate().map(partition).collect();
    let spec = DeviceSpec {
        models: &models,
        partitions: &partitions,
        request_buffers: config.request_buffers,
        cache: None,
        start: Start::Whole,
    };
    let cuda = CudaSpec {
        division: Division::Tpcs {
            partitioner: machine.partitioner.clone(),
            ranges,
        },
        page_bytes: PAGE_BYTES,
        watchdog: Watchdog {
            unknown_ns: u64::MAX / 4,
            ..Watchdog::default()
        },
        ..CudaSpec::default()
    };
    let answers = Answers::new(Samples::new(scenario), config.request_buffers);
    let gpu = VirtualGpu::start(machine, &spec, &cuda, PACE, costs, answers)?;
    let arrivals = scenario.arrivals(1.0, &Random::new(SEED))?;
    let ran = run_on(
        gpu,
        scenario,
        &config,
        policy,
        arrivals,
        settings(),
        &mut (),
    );
    Ok(ran?.0)
}

/// The same on the simulator's own device.
fn modelled(scenario: &Scenario, policy: &dyn PolicySpec) -> Result<Outcome, Error> {
    let config = scenario.config(policy);
    let arrivals = scenario.arrivals(1.0, &Random::new(SEED))?;
    let ran = run_plan(scenario, &config, policy, arrivals, settings(), &mut ());
    Ok(ran?)
}

const fn settings() -> Settings {
    Settings {
        seed: SEED,
        keep_requests: false,
    }
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
            let ours = figures(&by_the_daemon(&scenario, &policy)?);
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
