//! How soon the GPU is free of best-effort work (REEF, section 7.5), and what that costs while no preemption happens.

use punctual_cuda_measuring::holding::{Holding, Load};
use punctual_device_cuda::CudaDevice;
use punctual_device_cuda::driver::{Attribute, Context};
use punctual_device_cuda::queue::QueueSpec;
use punctual_model::Network;
use punctual_roofline::structures::Structure;
use punctual_types::Random;

use super::super::result::{Latency, Sheet, StepResult};
use super::super::rig::{self, Rig, StageRun};
use super::super::step::{Session, Step, StepError};
use super::networks;

pub struct Preemption;

/// Between two looks of a kernel that only takes time: about what a tile of a convolution takes.
const LOOK_NS: u32 = 5_000;

impl Step for Preemption {
    fn name(&self) -> &'static str {
        "preemption"
    }

    fn about(&self) -> &'static str {
        "how soon kernels of 1 ms in flight leave the GPU, and what looking at the epoch costs meanwhile (REEF, section 7.5)"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let mut result = StepResult::default();
        kernels(session, &mut result)?;
        // Two devices at once take memory that a small board may not have.
        if !session.brief
            && let Err(error) = guards(session, &mut result)
        {
            result.note(format!(
                "With and without looks at the epoch: not measured: {error}"
            ));
        }
        Ok(result)
    }
}

/// Kernels that only take time, evicted while they run.
fn kernels(session: &Session<'_>, result: &mut StepResult) -> Result<(), StepError> {
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
    let mut random = Random::new(7).stream("preemption", 0);
    let mut durations = Vec::new();
    for () in session.rounds(1500, 2, 900) {
        // Anywhere in its second and third kernel, where the queue is as full as it gets.
        let after = f64::from(stay_us) * 1e3 * (1.0 + 2.0 * random.unit());
        durations.push(queue.preempt(load, after as u64)?.latency_ns);
    }
    let title = "From the wish to a free GPU, kernels of 1 ms in flight";
    let latency = result.nanoseconds(title, durations);
    result.found = format!(
        "kernels of 1 ms left the GPU {:.0} us after the wish (median of {}; p99 {:.0} us)",
        latency.p50_us, latency.count, latency.p99_us,
    );
    let mut sheet = Sheet::of_latencies(title, &[], &[]);
    sheet.latency([], &latency, []);
    result.tables.push(sheet);
    result.figure("preemption", "", latency.p99_us);
    Ok(())
}

/// The cost of the blocks' looks at the epoch while no preemption happens.
fn guards(session: &Session<'_>, result: &mut StepResult) -> Result<(), StepError> {
    let usual = rig::queue(session.gpu()?)?;
    let networks = networks::of(session, &[Structure::ResNet50, Structure::MobileNetV2], 224);
    let batches = session.size(&[1, 8][..], &[1]);
    let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
    let without = QueueSpec {
        guards: false,
        ..usual
    };
    let mut rigs = rig::whole(session, &models, [without, usual])?;
    let title = "Whole networks, with and without looks at the epoch";
    let mut sheet = Sheet::of_latencies(title, &["network", "batch", "looks"], &["over without"]);
    let mut left = networks.len() * batches.len();
    for (model, network) in networks.iter().enumerate() {
        for &batch in batches {
            let stage_run = StageRun {
                partition: 0,
                model: model as u16,
                stage: 0,
                batch,
                first: 0,
            };
            let found = alternate(session, &mut rigs, network, stage_run, 950 / left as u64)?;
            left -= 1;
            let over = |latency: &Latency| (latency.over(&found[0]) - 1.0) * 100.0;
            for (looks, latency) in ["none", "at every tile"].into_iter().zip(&found) {
                let what = [network.name.clone(), batch.to_string(), looks.to_owned()];
                sheet.latency(what, latency, [format!("{:+.2}%", over(latency))]);
            }
            let name = format!("{}, batch {batch}", network.name);
            result.figure("guards", &name, over(&found[1]));
        }
    }
    result.tables.push(sheet);
    Ok(())
}

/// Latencies of the whole network on each device, one run of each in turn.
fn alternate(
    session: &Session<'_>,
    rigs: &mut [Rig<CudaDevice>],
    network: &Network,
    stage_run: StageRun,
    permille: u64,
) -> Result<Vec<Latency>, StepError> {
    for rig in rigs.iter() {
        let picture = |seed| rig::picture(network, seed);
        rig.write(stage_run.model, 0, u16::from(stage_run.batch), picture)?;
    }
    let mut durations = vec![Vec::new(); rigs.len()];
    for (round, ()) in session.rounds(400, 2, permille).enumerate() {
        for (rig, durations) in rigs.iter_mut().zip(&mut durations) {
            let took = rig.run_through(stage_run, network.stages.len())?;
            // The first round finds cold caches.
            if round > 0 {
                durations.push(took);
            }
        }
    }
    Ok(durations.into_iter().map(Latency::of).collect())
}
