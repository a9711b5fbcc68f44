//! REEF's experiment (OSDI 2022, section 7.2, Figure 11) again, by the leaders, executors, queues, masks and kernel padding of the
//! daemon. See `docs/results/disb.md`.

use emulated_cuda::Pace;
use punctual_core::{Config, Criticality, Nanos, PunctualConfig, StageId, StageTime, Units};
use punctual_device::pool::Wait;
use punctual_device::{DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_cuda::kernel_padding::KernelPaddingSpec;
use punctual_device_cuda::{Counts, CudaSpec, Division, Watchdog};
use punctual_evaluation::experiments::disb::{DEADLINE, WORKLOADS};
use punctual_evaluation::profiles::reef::{self, COMPUTE_UNITS, right_at_the_end};
use punctual_evaluation::workloads;
use punctual_model::Network;
use punctual_report::{Table, percent};
use punctual_roofline::structures::OF_DISB;
use punctual_simulator::run::{Settings, run_on};
use punctual_simulator::samples::{Answers, Samples};
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage};
use punctual_simulator::summary::Tally;
use punctual_types::Random;

use crate::Error;
use crate::costs::{LaunchCosts, PAGE_BYTES};
use crate::gpu::{Machine, VirtualGpu};

/// Above the time alone: a stage is not stopped for being slowed down a little.
const MARGIN: u64 = 2;
/// As `punctuald` plans fillers.
const FILL_FACTOR: u64 = 20;

/// What a driver and a GPU take: 5 us to hand a launch over, a look at every eighth tile of half a microsecond.
const PACE: Pace = Pace {
    launch_ns: 5_000,
    look_ns: 4_000,
    empty_ns: 2_000,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Real-time work has the GPU for itself.
    Alone,
    /// All work on one partition; best-effort work is preempted.
    Preempts,
    /// Each best-effort task on a partition with `fill = true`.
    Fills,
}

impl Way {
    const ALL: [Self; 3] = [Self::Alone, Self::Preempts, Self::Fills];

    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "real-time only",
            Self::Preempts => "preempting",
            Self::Fills => "filling",
        }
    }
}

/// What is the same for all workloads.
struct Networks {
    networks: Vec<Network>,
    costs: LaunchCosts,
}

impl Networks {
    fn new() -> Result<Self, Error> {
        let mut costs = LaunchCosts::new(u32::from(COMPUTE_UNITS));
        let mut networks = Vec::new();
        for (model, (name, structure)) in OF_DISB.iter().enumerate() {
            let network = structure.network(224, 1);
            let published = reef::Network::by_name(name).expect("one of REEF's networks");
            let total = Nanos::new((published.time_ms * 1e6) as u64);
            costs.add(model, &network, total)?;
            networks.push(network);
        }
        Ok(Self { networks, costs })
    }

    /// As the simulator knows them: exits that know nothing before the last one.
    fn models(&self) -> Vec<Model> {
        let model = |(at, network): (usize, &Network)| {
            let stages = network.stages.len();
            Model {
                name: network.name.clone(),
                source: "REEF, Table 1".into(),
                stages: (0..stages).map(|stage| self.stage(at, stage)).collect(),
                calibration: right_at_the_end(stages),
                weights: None,
            }
        };
        self.networks.iter().enumerate().map(model).collect()
    }

    fn stage(&self, model: usize, stage: usize) -> Stage {
        let alone = self.costs.stage(model, stage).as_nanos();
        let time = StageTime {
            budget: Nanos::new(alone * MARGIN),
            max_seen: Nanos::new(alone * MARGIN),
        };
        let measured = Measured {
            batch: 1,
            units: COMPUTE_UNITS,
            time,
        };
        Stage {
            times: vec![measured],
            ..Stage::default()
        }
    }

    fn scenario(&self, workload: &str, way: Way, length: Option<Nanos>) -> Scenario {
        let published = workloads::by_name(workload).expect("built in");
        let mut tasks = published.tasks;
        let best_effort = |criticality| criticality == Criticality::BestEffort;
        tasks.retain(|task| way != Way::Alone || !best_effort(task.config.criticality));
        for task in &mut tasks {
            let name = &published.models[task.config.model.index()].name;
            let stand = OF_DISB.iter().position(|(stood_for, _)| stood_for == name);
            let model = stand.expect("a network of DISB");
            task.config.model.0 = model as u16;
            let last = self.networks[model].stages.len() - 1;
            task.config.mandatory_exit = StageId(last as u8);
            task.config.reserved = false;
            if !best_effort(task.config.criticality) {
                task.config.deadline = Some(DEADLINE);
            }
        }
        let board = Board {
            preemption_bound: Nanos::new(PACE.look_ns + PACE.launch_ns + 4 * PACE.empty_ns),
            // Ten tasks, each with a few requests open.
            request_buffers: 64,
            ..Board::of(COMPUTE_UNITS)
        };
        let length = length.unwrap_or(published.length);
        let mut scenario = Scenario::new(self.models(), tasks, board, length);
        if way == Way::Fills {
            let fills = |task: &usize| best_effort(scenario.tasks[*task].config.criticality);
            let (fillers, first) = (0..scenario.tasks.len()).partition(fills);
            let fillers: Vec<usize> = fillers;
            let others = fillers.into_iter().map(|task| vec![task]);
            let partitions = std::iter::once(first).chain(others).enumerate();
            scenario.planned = partitions.map(|(at, tasks)| (units(at), tasks)).collect();
        }
        scenario
    }
}

/// A partition that fills is a device of its own to the core.
fn units(at: usize) -> Units {
    Units {
        first: at as u16 * COMPUTE_UNITS,
        count: COMPUTE_UNITS,
    }
}

struct Figures {
    real_time: Tally,
    real_time_hz: f64,
    total_hz: f64,
    counts: Counts,
}

fn cuda(machine: &Machine, config: &Config, networks: &Networks, way: Way) -> CudaSpec {
    let partitions = config.partitions.len();
    let fillers = match way {
        Way::Fills => (1..partitions).collect(),
        Way::Alone | Way::Preempts => Vec::new(),
    };
    CudaSpec {
        division: Division::Tpcs {
            partitioner: machine.partitioner.clone(),
            ranges: vec![0..COMPUTE_UNITS; partitions],
        },
        page_bytes: PAGE_BYTES,
        kernel_padding: KernelPaddingSpec {
            fillers,
            times: networks.costs.profile(),
        },
        wait: Wait::Spin,
        watchdog: Watchdog {
            unknown_ns: u64::MAX / 4,
            ..Watchdog::default()
        },
        ..CudaSpec::default()
    }
}

fn figures(
    networks: &Networks,
    workload: &str,
    way: Way,
    length: Option<Nanos>,
) -> Result<Figures, Error> {
    let scenario = networks.scenario(workload, way, length);
    let policy = PunctualConfig::default();
    let mut config = scenario.config(&policy);
    if way == Way::Fills {
        let times = config.models.iter_mut().flat_map(|model| &mut model.stages);
        for time in times.flat_map(|stage| &mut stage.times) {
            for on in &mut time.on[1..] {
                on.budget = Nanos::new(on.budget.as_nanos() * FILL_FACTOR);
                on.max_seen = on.budget;
            }
        }
    }
    let machine = Machine::start(u32::from(COMPUTE_UNITS), 1)?;
    let models: Vec<ModelSpec<'_>> = networks
        .networks
        .iter()
        .map(|network| ModelSpec::resident(network, &[1]))
        .collect();
    let partition = |at: usize| PartitionSpec {
        tpcs: 0..COMPUTE_UNITS,
        // A leader each.
        ..PartitionSpec::on_cores(format!("p{at}"), vec![at], None)
    };
    let partitions: Vec<PartitionSpec> = (0..config.partitions.len()).map(partition).collect();
    let spec = DeviceSpec {
        models: &models,
        partitions: &partitions,
        request_buffers: config.request_buffers,
        cache: None,
        start: Start::Whole,
    };
    let cuda = cuda(&machine, &config, networks, way);
    let answers = Answers::new(Samples::new(&scenario), config.request_buffers);
    let gpu = VirtualGpu::start(machine, &spec, &cuda, PACE, &networks.costs, answers)?;
    let settings = Settings {
        seed: 1,
        keep_requests: false,
    };
    let arrivals = scenario.arrivals(1.0, &Random::new(settings.seed))?;
    let (outcome, gpu) = run_on(
        gpu,
        &scenario,
        &config,
        &policy,
        arrivals,
        settings,
        &mut (),
    )?;
    let mut real_time = Tally::default();
    for (task, tally) in scenario.tasks.iter().zip(&outcome.tasks) {
        if task.config.criticality == Criticality::RealTime {
            real_time.add(tally);
        }
    }
    let a_second = |answers: u64| answers as f64 * 1e9 / scenario.length.as_nanos() as f64;
    Ok(Figures {
        real_time_hz: a_second(real_time.answers()),
        total_hz: a_second(outcome.total.answers()),
        real_time,
        counts: gpu.counts(),
    })
}

/// The table of one workload, or of all; for so long instead of their own length. `progress` is told of each row.
pub fn table(
    one: Option<&str>,
    length: Option<Nanos>,
    mut progress: impl FnMut(&str, &str),
) -> Result<String, Error> {
    let workloads = crate::chosen(&WORKLOADS, one)?;
    let networks = Networks::new()?;
    let headings = [
        "workload",
        "way",
        "real-time mean, ms",
        "over real-time only",
        "p99, ms",
        "missed",
        "real-time/s",
        "all/s",
        "over real-time only",
        "launches filled",
        "called off",
        "evictions",
    ];
    let mut table = Table::new(&headings, 2);
    for workload in workloads {
        let mut alone: Option<(f64, f64)> = None;
        for way in Way::ALL {
            progress(workload, way.name());
            let found = figures(&networks, workload, way, length)?;
            let mean = found.real_time.latencies.mean() / 1e6;
            let p99 = found.real_time.latencies.value_at_quantile(0.99) as f64 / 1e6;
            let (alone_mean, alone_hz) = *alone.get_or_insert((mean, found.total_hz));
            let missed = found.real_time.missed() as f64 / found.real_time.submitted as f64;
            table.row([
                workload.to_owned(),
                way.name().to_owned(),
                format!("{mean:.2}"),
                format!("{:+.1}%", (mean / alone_mean - 1.0) * 100.0),
                format!("{p99:.2}"),
                percent(missed),
                format!("{:.1}", found.real_time_hz),
                format!("{:.1}", found.total_hz),
                format!("{:.2}x", found.total_hz / alone_hz),
                found.counts.filled.to_string(),
                found.counts.fillers_called_off.to_string(),
                found.counts.evictions.to_string(),
            ]);
        }
    }
    Ok(table.markdown())
}
