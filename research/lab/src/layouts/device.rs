//! What the planner of the simulator needs to know of a manifest: the compute units of its partitions, the tasks there,
//! and the times that were measured.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{Criticality, Nanos, PartitionId, SPAN_MAX, StageId, StageTime, Units};
use punctual_model::Profile;
use punctual_plan::{DeviceKind, Plan, PlanInputs};
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage, Task};

/// A layout: ranges of the device's units, and the tasks that run there, by their position in the scenario.
pub(super) type Ranges = Vec<(Units, Vec<usize>)>;

/// Frames a second of a best-effort task whose manifest does not say.
const UNKNOWN_RATE_HZ: f64 = 1.0;

/// What is far too long for every promise: the time on a range on which nothing was measured, so that none is planned.
const NEVER: StageTime = StageTime {
    budget: SPAN_MAX,
    max_seen: SPAN_MAX,
};

/// The part of a manifest that one kind of device serves.
pub(super) struct Device {
    pub(super) kind: DeviceKind,
    /// Its cores or TPCs, in the order in which ranges are contiguous.
    order: Vec<u16>,
    /// How many of them one unit of the scenario is: what the machine grants at once.
    granularity: u16,
    /// The tasks of the scenario, by their position in the plan.
    tasks: Vec<usize>,
    /// The tasks, and the manifest's own partitions as what is planned.
    pub(super) scenario: Scenario,
    /// Numbers of cores or TPCs on which every model was measured itself. Wider ranges have the times of narrower ones.
    pub(super) measured: BTreeSet<u16>,
    /// Tasks without a rate.
    pub(super) unknown_rates: Vec<String>,
}

impl Device {
    /// None if no task runs on such a device.
    pub(super) fn find(
        kind: DeviceKind,
        plan: &Plan,
        inputs: &PlanInputs,
        profiles: &[&Profile],
    ) -> Option<Self> {
        let is_there = |partition: PartitionId| plan.partitions[partition.index()].device == kind;
        let tasks: Vec<usize> = (0..plan.tasks.len())
            .filter(|&task| is_there(plan.tasks[task].partition))
            .collect();
        if tasks.is_empty() {
            return None;
        }
        let order = order(kind, plan);
        let granularity = match (kind, &inputs.host.gpu) {
            (DeviceKind::Cuda, Some(gpu)) => gpu.granularity.max(1),
            _ => 1,
        };
        let units = order.len() as u16 / granularity;
        let models = (0..plan.models.len())
            .map(|model| self::model(plan, inputs, profiles[model], (model, units, granularity)));
        let scenario = Scenario::new(
            models.collect(),
            tasks.iter().map(|&task| self::task(plan, task)).collect(),
            board(plan, units, is_there),
            Nanos::from_millis(1_000),
        );
        let used = tasks.iter().map(|&task| plan.tasks[task].model.index());
        let used: BTreeSet<usize> = used.collect();
        let all = 1..=order.len() as u16;
        let measured = all.filter(|&count| {
            let there = |model: &usize| {
                let mut stages = profiles[*model].stages.iter();
                stages.any(|entry| u16::from(entry.units) == count)
            };
            used.iter().all(there)
        });
        let unknown = tasks.iter().map(|&task| &plan.tasks[task]);
        let unknown = unknown.filter(|task| task.period.is_none());
        let mut device = Self {
            kind,
            measured: measured.collect(),
            unknown_rates: unknown.map(|task| task.name.clone()).collect(),
            order,
            granularity,
            tasks,
            scenario,
        };
        let own: Vec<PartitionId> = plan.tasks.iter().map(|task| task.partition).collect();
        device.scenario.planned = device.ranges(plan, &own);
        Some(device)
    }

    /// The layout in which the plan's tasks are on these partitions.
    pub(super) fn ranges(&self, plan: &Plan, partitions: &[PartitionId]) -> Ranges {
        let mut groups: BTreeMap<PartitionId, Vec<usize>> = BTreeMap::new();
        for (position, &task) in self.tasks.iter().enumerate() {
            groups.entry(partitions[task]).or_default().push(position);
        }
        let groups = groups.into_iter();
        let mut ranges: Ranges = groups
            .map(|(partition, tasks)| (self.units(plan, partition), tasks))
            .collect();
        ranges.sort_by_key(|(units, _)| units.first);
        ranges
    }

    /// As many as a partition has; the first is of account for those of the first layout only, as others may have cores
    /// that no `[[partition]]` names.
    fn units(&self, plan: &Plan, partition: PartitionId) -> Units {
        let own = numbers(self.kind, plan, partition.index());
        let first = own.first().and_then(|first| {
            let mut order = self.order.iter();
            order.position(|unit| unit == first)
        });
        Units {
            first: first.unwrap_or_default() as u16 / self.granularity,
            count: own.len() as u16 / self.granularity,
        }
    }

    /// The cores or TPCs of a range of the scenario.
    pub(super) fn numbers(&self, units: Units) -> &[u16] {
        let at = |unit: u16| usize::from(unit * self.granularity);
        &self.order[at(units.first)..at(units.end())]
    }

    pub(super) fn task_name(&self, task: usize) -> &str {
        &self.scenario.tasks[task].name
    }

    /// What a partition of the manifest is called.
    pub(super) const fn unit_name(&self) -> &'static str {
        if self.kind.runs_on_cores() {
            "cores"
        } else {
            "TPCs"
        }
    }

    /// How full the fullest partition is at these rates if every frame runs to its last exit, alone: the daemon's load.
    pub(super) fn fullest(&self, layout: &Ranges, rates_hz: &[f64]) -> f64 {
        let scenario = &self.scenario;
        let seconds = |task: usize, count| {
            let model = scenario.tasks[task].config.model;
            let stages = scenario.models[model.index()].stages.len();
            let time = scenario.time(model, StageId(stages as u8 - 1), 1, count);
            let decisions = scenario.board.dispatch_cost.saturating_mul(stages as u64);
            (time + decisions).as_nanos() as f64 / 1e9
        };
        let full = layout.iter().map(|(units, tasks)| -> f64 {
            let tasks = tasks.iter();
            tasks
                .map(|&task| rates_hz[task] * seconds(task, units.count))
                .sum()
        });
        full.fold(0.0, f64::max)
    }
}

/// The cores or TPCs of the first layout's partitions.
fn order(kind: DeviceKind, plan: &Plan) -> Vec<u16> {
    let first = plan.partitions.iter().enumerate();
    let first = first.filter(|(_, partition)| {
        partition.device == kind && partition.layout.is_none() && !partition.is_place
    });
    let mut order = Vec::new();
    for number in first.flat_map(|(position, _)| numbers(kind, plan, position)) {
        if !order.contains(number) {
            order.push(*number);
        }
    }
    if !kind.runs_on_cores() {
        order.sort_unstable();
    }
    order
}

fn numbers(kind: DeviceKind, plan: &Plan, partition: usize) -> &[u16] {
    let partition = &plan.partitions[partition];
    if kind.runs_on_cores() {
        &partition.cores
    } else {
        &partition.tpcs
    }
}

fn board(plan: &Plan, units: u16, is_there: impl Fn(PartitionId) -> bool) -> Board {
    let partitions = plan.scheduler.partitions.iter().enumerate();
    let bounds = partitions
        .filter(|(position, _)| is_there(PartitionId(*position as u16)))
        .map(|(_, partition)| partition.preemption_bound);
    Board {
        preemption_bound: bounds.max().unwrap_or(Nanos::ZERO),
        dispatch_cost: plan.scheduler.dispatch_cost,
        egress_bound: plan.scheduler.egress_bound,
        request_buffers: plan.scheduler.request_buffers,
        ..Board::of(units)
    }
}

fn task(plan: &Plan, task: usize) -> Task {
    let (config, named) = (&plan.scheduler.tasks[task], &plan.tasks[task]);
    let hz = |period: Nanos| 1e9 / period.as_nanos().max(1) as f64;
    let rate_hz = named.period.map_or(UNKNOWN_RATE_HZ, hz);
    let mut config = config.clone();
    // The planner's demand has no second device to offload to.
    config.offload_to = None;
    if config.criticality == Criticality::BestEffort {
        config.reserved = false;
    }
    Task {
        name: named.name.clone(),
        config,
        pattern: Pattern::Poisson { rate_hz },
        clients: 1,
    }
}

/// Whether all that a plan needs of a model was measured on a range of `count` cores or TPCs, or on a narrower one.
fn is_measured(plan: &Plan, model: usize, profile: &Profile, count: u16) -> bool {
    let (model, Ok(count)) = (&plan.models[model], u8::try_from(count)) else {
        return false;
    };
    (0..model.stages).all(|stage| {
        let mut batches = model.batches.iter();
        batches.all(|&batch| profile.stage(stage, batch, count).is_some())
    })
}

fn model(
    plan: &Plan,
    inputs: &PlanInputs,
    profile: &Profile,
    (position, units, granularity): (usize, u16, u16),
) -> Model {
    let of_plan = &plan.models[position];
    let packages = inputs.packages.iter();
    let mut read = packages.filter(|input| of_plan.package.as_os_str() == input.path.as_str());
    let package = read.find_map(|input| input.package.as_ref().ok());
    let package = package.expect("a plan's packages were read");
    let stages = package.network().stages.iter();
    let answers: Vec<bool> = stages.map(|stage| stage.exit.is_some()).collect();
    let times = |stage: u8| {
        (1..=units).flat_map(move |count| {
            let there = is_measured(plan, position, profile, count * granularity);
            of_plan.batches.iter().map(move |&batch| {
                let entry = u8::try_from(count * granularity).ok();
                let entry = entry.and_then(|count| profile.stage(stage, batch, count));
                let time = entry.filter(|_| there).map_or(NEVER, |entry| {
                    let (samples, p99_ns) = (entry.samples, entry.p99_ns);
                    let budget = plan.margins.budget(samples, p99_ns, entry.max_ns);
                    StageTime {
                        budget,
                        max_seen: budget.max(Nanos::new(entry.max_ns)),
                    }
                });
                Measured {
                    batch,
                    units: count,
                    time,
                }
            })
        })
    };
    let stages = (0..).zip(&answers).map(|(stage, &answers)| Stage {
        times: times(stage).collect(),
        headless: !answers,
        runs_as: None,
    });
    Model {
        name: of_plan.name.clone(),
        source: String::new(),
        stages: stages.collect(),
        calibration: package.calibration().by_stage(&answers),
        weights: None,
    }
}
