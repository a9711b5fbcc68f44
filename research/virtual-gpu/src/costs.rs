//! How long launches take: shares of published times.

use std::collections::BTreeMap;

use emulated_cuda::{BegunLaunch, LaunchCost};
use punctual_core::{Infer, Nanos};
use punctual_cuda_kernels::KERNELS;
use punctual_cuda_kernels::contract::Multiprocessor;
use punctual_device_cuda::kernel_padding::{LaunchTime, LaunchTimes};
use punctual_device_cuda::lower::{self, LaunchList, LowerError, Program, Step, Target};
use punctual_model::{Network, SolutionChoice};
use punctual_roofline::{
    Device, LaunchTime as Predicted, Memory, Partition, PerClock, RooflineError, Times,
};

use crate::gpu::Costs;

/// Bytes of a page of weights.
pub const PAGE_BYTES: u32 = 16 << 20;

/// As `punctual profile` has it.
const AS_FAST: f64 = 1.01;

/// What the emulated GPU is.
pub const COMPUTE_CAPABILITY: (u32, u32) = (8, 7);

#[derive(Debug, thiserror::Error)]
pub enum CostError {
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Roofline(#[from] RooflineError),
}

/// Times of launches on each number of multiprocessors: the roofline says how they compare, a published time of the whole
/// network how long they are.
pub struct LaunchCosts {
    sms: u32,
    /// By model, stage and launch.
    launches: BTreeMap<(usize, usize), Vec<Launch>>,
}

struct Launch {
    /// By multiprocessors, from one on.
    ns: Box<[f64]>,
    /// The same of the general kernel, where one replaces the launch's own until that is loaded.
    replaced_ns: Option<Box<[f64]>>,
    /// Of the memory's bandwidth, while it runs on all.
    memory_share: f64,
    profiled: LaunchTime,
}

impl Launch {
    /// Of a launch's times by multiprocessors.
    fn new(ns: Box<[f64]>, replaced_ns: Option<Box<[f64]>>, memory_share: f64) -> Self {
        let all = ns.last().copied().unwrap_or(0.0);
        let slower = ns.iter().rposition(|ns| *ns > all * AS_FAST);
        let profiled = LaunchTime {
            time: Nanos::new(all as u64),
            enough: slower.map_or(1, |at| at as u32 + 2),
        };
        Self {
            ns,
            replaced_ns,
            memory_share,
            profiled,
        }
    }
}

/// By stage, then by multiprocessors from one on, the times of a program's launches for one image.
fn times(
    device: &Device,
    sms: u32,
    program: &Program,
) -> Result<Vec<Vec<Vec<Predicted>>>, CostError> {
    let stage = |list: &LaunchList| {
        let on = |multiprocessors| {
            let partition = Partition {
                multiprocessors,
                check_stride: 8,
            };
            Ok(device.stage(list, partition)?.launches)
        };
        (1..=sms).map(on).collect()
    };
    let stages = program.stages.iter();
    stages.map(|each| stage(&each.lists[0])).collect()
}

/// The network's launches if the general kernels computed everything, for one image.
fn general(network: &Network, target: &Target) -> Result<Program, LowerError> {
    let operators = network.stages.iter().map(|stage| stage.operators.len());
    let choices = (0..operators.sum::<usize>() as u32).map(|operator| {
        let candidates = lower::candidates(network, operator, 1, target)?;
        Ok(candidates.first().map(|general| SolutionChoice {
            operator,
            batch: 1,
            units: 1,
            solution: general.name(),
        }))
    });
    let choices: Result<Vec<_>, LowerError> = choices.collect();
    let choices: Vec<SolutionChoice> = choices?.into_iter().flatten().collect();
    Program::lower(network, &[1], target, &choices)
}

/// A GPU of `sms` multiprocessors of an Orin, with the memory of an MI50. Only the proportions of its launches matter here.
pub fn device(sms: u32) -> Device {
    Device {
        name: format!("{sms} multiprocessors"),
        compute_capability: COMPUTE_CAPABILITY,
        multiprocessors: sms,
        tpcs: sms,
        integrated: true,
        clock_mhz: 1300.0,
        resident: Multiprocessor {
            threads: 1536,
            blocks: 16,
            registers: 65536,
            shared_bytes: 164 << 10,
            reserved_bytes: 1 << 10,
        },
        per_clock: PerClock {
            instructions: 4.0,
            tensor_products: 1024.0,
            float_products: 128.0,
            shared_bytes: 128.0,
            loaded_bytes: 64.0,
        },
        memory: Memory {
            gb_s: 1024.0,
            share_reached: 0.85,
            host_gb_s: 100.0,
            cache_bytes: 4 << 20,
        },
        times: Times {
            memory: 600.0,
            cache: 200.0,
            look: 1000.0,
            // The driver of the simulation hands launches over itself.
            hand_over: 0.0,
            gap: 0.0,
            stage: 0.0,
        },
    }
}

impl LaunchCosts {
    pub fn new(sms: u32) -> Self {
        Self {
            sms,
            launches: BTreeMap::new(),
        }
    }

    /// Adds a network that takes `total` from its first launch to its last, alone on all multiprocessors.
    pub fn add(&mut self, model: usize, network: &Network, total: Nanos) -> Result<(), CostError> {
        let target = Target {
            multiprocessors: self.sms,
            compute_capability: COMPUTE_CAPABILITY,
            page_bytes: PAGE_BYTES,
        };
        let program = Program::lower(network, &[1], &target, &[])?;
        let general = general(network, &target)?;
        let device = device(self.sms);
        let stages = times(&device, self.sms, &program)?;
        let replaced = times(&device, self.sms, &general)?;
        let alone = stages.iter().filter_map(|by_sms| by_sms.last()).flatten();
        let scale = total.as_nanos() as f64 / alone.map(|launch| launch.ns).sum::<f64>();
        for (stage, by_sms) in stages.into_iter().enumerate() {
            let alone = by_sms.last().into_iter().flatten().enumerate();
            let steps = &program.stages[stage].lists[0].steps;
            let others = &general.stages[stage].lists[0].steps;
            let launches = alone.map(|(at, launch)| {
                let ns = |by_sms: &[Vec<Predicted>], at: usize| {
                    let ns = by_sms.iter().map(|launches| launches[at].ns * scale);
                    ns.collect::<Box<[f64]>>()
                };
                let same = |other: &Step| {
                    other.kernel.pattern.is_some() && other.operator == steps[at].operator
                };
                let is_tuned = steps[at].kernel.tile.is_some();
                let other = others.iter().position(same).filter(|_| is_tuned);
                let replaced_ns = other.map(|other| ns(&replaced[stage], other));
                let gb_s = device.memory.gb_s * device.memory.share_reached;
                let memory_share = launch.moved.memory as f64 / gb_s / launch.ns;
                Launch::new(ns(&by_sms, at), replaced_ns, memory_share.min(1.0))
            });
            self.launches.insert((model, stage), launches.collect());
        }
        Ok(())
    }

    /// What a profile would contain for launches: their times on all multiprocessors, and on how many they are as fast.
    pub fn profile(&self) -> LaunchTimes {
        let mut times = LaunchTimes::on(self.sms);
        for ((model, stage), launches) in &self.launches {
            let launches = launches.iter().map(|launch| launch.profiled).collect();
            times.set(*model, *stage, 1, launches);
        }
        times
    }

    /// The time of a stage alone.
    pub fn stage(&self, model: usize, stage: usize) -> Nanos {
        let launches = self.launches.get(&(model, stage)).into_iter().flatten();
        let alone = launches.filter_map(|launch| launch.ns.last());
        Nanos::new(alone.sum::<f64>() as u64)
    }
}

impl Costs for LaunchCosts {
    fn cost(&self, infer: &Infer, launch: &BegunLaunch) -> LaunchCost {
        let stage = (infer.model.index(), infer.stage.index());
        let launches = self.launches.get(&stage);
        let found = launches.and_then(|launches| launches.get(launch.index as usize));
        let Some(found) = found else {
            return LaunchCost::alone(1);
        };
        let sms = launch.sms.clamp(1, self.sms);
        let kernel = KERNELS.get(launch.kernel as usize);
        let is_general = kernel.is_some_and(|kernel| kernel.tile.is_none());
        let replaced = found.replaced_ns.as_ref().filter(|_| is_general);
        let times = replaced.unwrap_or(&found.ns);
        let (ns, all) = (times[sms as usize - 1], times[times.len() - 1]);
        LaunchCost {
            block_ns: (ns / f64::from(launch.waves())) as u64,
            sm_permille: (1_000 * found.profiled.enough / sms).min(1_000),
            // As many bytes, in a longer time.
            memory_permille: (1_000.0 * found.memory_share * all / ns) as u32,
        }
    }
}
