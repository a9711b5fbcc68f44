//! Networks whose stages take published times, by the daemon's device and by the simulator's own.

use std::collections::BTreeMap;

use emulated_cuda::{BegunLaunch, LaunchCost, Pace};
use punctual_core::{Config, Infer, PartitionConfig, PolicySpec};
use punctual_device::{DeviceSpec, ModelSpec, PartitionSpec, Start};
use punctual_device_cuda::lower::{Program, Target};
use punctual_device_cuda::{CudaSpec, Division, Watchdog};
use punctual_model::Network;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::run::{Settings, run_on, run_plan};
use punctual_simulator::samples::{Answers, Samples};
use punctual_simulator::scenario::Scenario;
use punctual_types::Random;

use crate::Error;
use crate::costs::{CostError, PAGE_BYTES};
use crate::gpu::{Costs, Machine, VirtualGpu};

const SEED: u64 = 1;

/// What the stages run on, and which stand for them: what launches compute is not computed, so small images do.
pub struct Staged<'n> {
    /// Of the GPU.
    pub tpcs: u16,
    pub sms_per_tpc: u32,
    /// How many TPCs a unit of the scenario's partitions is.
    pub tpcs_a_unit: u16,
    pub pace: Pace,
    /// Compiled batch sizes.
    pub batches: &'static [u8],
    /// By model.
    pub networks: Vec<&'n Network>,
}

/// The time of each stage is that of the profile, in equal parts for its launches.
struct StageCosts<'s> {
    staged: &'s Staged<'s>,
    partitions: Vec<PartitionConfig>,
    /// Whose profiles say how long stages take.
    scenario: &'s Scenario,
    /// By model, stage, batch and units, the launches of the stage's list.
    launches: BTreeMap<(usize, usize, u8, u16), u32>,
}

impl<'s> StageCosts<'s> {
    fn new(
        staged: &'s Staged<'s>,
        scenario: &'s Scenario,
        config: &Config,
    ) -> Result<Self, CostError> {
        let mut launches = BTreeMap::new();
        let mut sizes: Vec<u16> = config.partitions.iter().map(|p| p.units.count).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for (model, network) in staged.networks.iter().enumerate() {
            for &units in &sizes {
                let target = Target {
                    multiprocessors: staged.sms(units),
                    compute_capability: (8, 7),
                    page_bytes: PAGE_BYTES,
                };
                let program = Program::lower(network, staged.batches, &target, &[])?;
                for (stage, of_stage) in program.stages.iter().enumerate() {
                    for list in &of_stage.lists {
                        let count = list.steps.len() as u32;
                        launches.insert((model, stage, list.batch, units), count);
                    }
                }
            }
        }
        Ok(Self {
            staged,
            partitions: config.partitions.clone(),
            scenario,
            launches,
        })
    }
}

impl Costs for StageCosts<'_> {
    fn cost(&self, infer: &Infer, launch: &BegunLaunch) -> LaunchCost {
        let units = self.partitions[infer.partition.index()].units.count;
        let sms = self.staged.sms(units);
        assert_eq!(launch.sms, sms, "the mask is that of the partition");
        let (model, stage) = (infer.model.index(), infer.stage.index());
        // Lists are of the smallest size that takes the members.
        let members = infer.members.len() as u8;
        let mut batches = self.staged.batches.iter().copied();
        let list = batches.find(|batch| *batch >= members);
        let count = list.and_then(|list| self.launches.get(&(model, stage, list, units)));
        let time = self.scenario.models[model].stages[stage].time(infer.batch, units);
        let first = self.staged.pace.launch_ns;
        let all = time.budget.as_nanos().saturating_sub(first);
        let each = all / u64::from(count.copied().unwrap_or(1));
        LaunchCost::alone(each / u64::from(launch.waves()))
    }
}

impl Staged<'_> {
    fn sms(&self, units: u16) -> u32 {
        u32::from(units * self.tpcs_a_unit) * self.sms_per_tpc
    }

    /// A policy's plan of a scenario, on a device that was started for it. Stages take the times of their profiles.
    pub fn by_the_daemon(
        &self,
        scenario: &Scenario,
        policy: &dyn PolicySpec,
    ) -> Result<Outcome, Error> {
        let costs = StageCosts::new(self, scenario, &scenario.config(policy))?;
        self.at_load(scenario, policy, 1.0, costs)
    }

    /// The same at a multiple of the load, with these costs of launches.
    pub fn at_load(
        &self,
        scenario: &Scenario,
        policy: &dyn PolicySpec,
        load: f64,
        costs: impl Costs,
    ) -> Result<Outcome, Error> {
        let config = scenario.config(policy);
        let machine = Machine::start(u32::from(self.tpcs), self.sms_per_tpc)?;
        let networks = self.networks.iter();
        let models: Vec<ModelSpec<'_>> = networks
            .map(|network| ModelSpec::resident(network, self.batches))
            .collect();
        let tpcs = |partition: &PartitionConfig| {
            let units = partition.units;
            units.first * self.tpcs_a_unit..units.end() * self.tpcs_a_unit
        };
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
        let gpu = VirtualGpu::start(machine, &spec, &cuda, self.pace, costs, answers)?;
        let arrivals = scenario.arrivals(load, &Random::new(SEED))?;
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
}

/// The same on the simulator's own device.
pub fn modelled(scenario: &Scenario, policy: &dyn PolicySpec) -> Result<Outcome, Error> {
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
