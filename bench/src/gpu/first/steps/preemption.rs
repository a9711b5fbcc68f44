//! How soon the GPU is free of best-effort work.

use punctual_cuda_measuring::holding::{Holding, Load};
use punctual_device_cuda::driver::{Attribute, Context};
use punctual_types::Random;

use super::super::super::result::Latency;
use super::super::super::rig;
use super::super::super::step::{Session, StepError};
use super::super::finding::Finding;
use super::FirstStep;

pub struct Preemption;

/// Between two looks of a kernel that only takes time: about what a tile of a convolution takes.
const LOOK_NS: u32 = 5_000;

impl FirstStep for Preemption {
    fn name(&self) -> &'static str {
        "preemption"
    }

    fn shows(&self) -> &'static str {
        "how soon kernels of 1 ms in flight leave the GPU"
    }

    fn seconds(&self) -> u32 {
        3
    }

    fn of_time(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<Finding, StepError> {
        let durations = durations(session)?;
        let latency = Latency::of(durations.clone());
        let mut finding = Finding {
            found: format!(
                "kernels of 1 ms left the GPU {:.0} us after the wish (median of {}; p99 {:.0} us)",
                latency.p50_us, latency.count, latency.p99_us,
            ),
            ..Finding::default()
        };
        finding.nanoseconds("from the wish to a free GPU, kernels of 1 ms", durations);
        Ok(finding)
    }
}

/// Kernels that only take time, evicted while they run.
fn durations(session: &Session<'_>) -> Result<Vec<u64>, StepError> {
    let gpu = session.gpu()?;
    let context = Context::retain(gpu)?;
    let stay_us = session.size(1000, 2000);
    let load = Load {
        kernels: 20,
        stay_ns: stay_us * 1000,
        check_ns: LOOK_NS,
        blocks: gpu.attribute(Attribute::Multiprocessors)?,
    };
    let mut queue = Holding::new(&context, rig::queue(gpu)?)?;
    let mut random = Random::new(7).stream("first-light", 0);
    let mut durations = Vec::new();
    for () in session.rounds(500, 2, 900) {
        let after = f64::from(stay_us) * 1e3 * (1.0 + random.unit());
        durations.push(queue.preempt(load, after as u64)?.latency_ns);
    }
    Ok(durations)
}
