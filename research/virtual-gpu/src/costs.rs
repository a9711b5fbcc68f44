//! How long launches take: shares of published times.

use std::collections::BTreeMap;

use emulated_cuda::BegunLaunch;
use punctual_core::{Infer, Nanos};
use punctual_device_cuda::kernel_padding::{LaunchTime, LaunchTimes};
use punctual_device_cuda::lower::{LowerError, Program, Target};
use punctual_device_cuda::roofline::{Device, Memory, Partition, PerClock, RooflineError, Times};
use punctual_kernels::cuda::contract::Multiprocessor;
use punctual_model::Network;

use crate::gpu::Costs;

/// Bytes of a page of weights.
pub const PAGE_BYTES: u32 = 16 << 20;

/// As `punctual profile` has it.
const AS_FAST: f64 = 1.02;

/// What the emulated GPU is.
const COMPUTE_CAPABILITY: (u32, u32) = (8, 7);

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
    /// By model, stage and launch; then by multiprocessors, from one on.
    ns: BTreeMap<(usize, usize), Vec<Box<[f64]>>>,
}

/// A GPU of so many multiprocessors of an Orin, with the memory of an MI50. Only the proportions of its launches matter here.
fn device(sms: u32) -> Device {
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
            ns: BTreeMap::new(),
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
        let device = device(self.sms);
        let mut stages = Vec::new();
        for stage in &program.stages {
            let list = &stage.lists[0];
            let mut launches = vec![Vec::new(); list.steps.len()];
            for multiprocessors in 1..=self.sms {
                let partition = Partition {
                    multiprocessors,
                    check_stride: 8,
                };
                let predicted = device.stage(list, partition)?.launches;
                for (times, launch) in launches.iter_mut().zip(predicted) {
                    times.push(launch.ns);
                }
            }
            stages.push(launches);
        }
        let predicted = stages.iter().flatten().filter_map(|times| times.last());
        let scale = total.as_nanos() as f64 / predicted.sum::<f64>();
        for (stage, launches) in stages.into_iter().enumerate() {
            let scaled = |times: Vec<f64>| times.into_iter().map(|ns| ns * scale).collect();
            let launches = launches.into_iter().map(scaled).collect();
            self.ns.insert((model, stage), launches);
        }
        Ok(())
    }

    /// What a profile would say of launches: their times on all multiprocessors, and on how many they are as fast.
    pub fn profile(&self) -> LaunchTimes {
        let mut times = LaunchTimes::on(self.sms);
        for ((model, stage), launches) in &self.ns {
            let launches = launches.iter().map(|times| profiled(times)).collect();
            times.set(*model, *stage, 1, launches);
        }
        times
    }

    /// The time of a stage alone.
    pub fn stage(&self, model: usize, stage: usize) -> Nanos {
        let launches = self.ns.get(&(model, stage)).into_iter().flatten();
        let alone = launches.filter_map(|times| times.last());
        Nanos::new(alone.sum::<f64>() as u64)
    }
}

/// Of a launch's times by multiprocessors.
fn profiled(times: &[f64]) -> LaunchTime {
    let all = times.last().copied().unwrap_or(0.0);
    let slower = times.iter().rposition(|ns| *ns > all * AS_FAST);
    LaunchTime {
        time: Nanos::new(all as u64),
        enough: slower.map_or(1, |at| at as u32 + 2),
    }
}

impl Costs for LaunchCosts {
    fn block_ns(&self, infer: &Infer, launch: &BegunLaunch) -> u64 {
        let stage = (infer.model.index(), infer.stage.index());
        let launches = self.ns.get(&stage);
        let times = launches.and_then(|launches| launches.get(launch.index as usize));
        let on = launch.sms.clamp(1, self.sms) as usize - 1;
        let ns = times.map_or(0.0, |times| times[on]);
        (ns / f64::from(launch.waves())) as u64
    }
}
