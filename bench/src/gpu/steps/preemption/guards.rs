//! The cost of the blocks' check of the epoch while no preemption happens.

use punctual_device_cuda::CudaDevice;
use punctual_device_cuda::queue::QueueSpec;
use punctual_model::Network;
use punctual_roofline::structures::Structure;

use super::super::super::result::{Latency, Sheet, StepResult};
use super::super::super::rig::{self, Rig, StageRun};
use super::super::super::step::{Session, StepError};
use super::super::networks;

/// Measures and adds what was found.
pub fn measure(session: &Session<'_>, result: &mut StepResult) -> Result<(), StepError> {
    let usual = rig::queue(session.gpu()?)?;
    let networks = networks::of(session, &[Structure::ResNet50, Structure::MobileNetV2], 224);
    let batches = session.size(&[1, 8][..], &[1]);
    let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
    let ways = [
        (
            "without",
            QueueSpec {
                guards: false,
                ..usual
            },
        ),
        (
            "at the start of a block",
            QueueSpec {
                check_stride: 0,
                ..usual
            },
        ),
        ("at every tile", usual),
    ];
    let mut rigs = rig::whole(session, &models, ways.map(|(_, queue)| queue))?;
    let title = "Whole networks, with and without looks at the epoch";
    let mut sheet = Sheet::of_latencies(title, &["network", "batch", "looks"], &["over without"]);
    let mut left = networks.len() * batches.len();
    for (model, network) in networks.iter().enumerate() {
        for &batch in batches {
            let model = model as u16;
            let permille = 950 / left as u64;
            let found = alternate(session, &mut rigs, network, (model, batch), permille)?;
            left -= 1;
            let over = |latency: &Latency| (latency.over(&found[0]) - 1.0) * 100.0;
            for ((looks, _), latency) in ways.iter().zip(&found) {
                let what = [network.name.clone(), batch.to_string(), (*looks).to_owned()];
                sheet.latency(what, latency, [format!("{:+.2}%", over(latency))]);
            }
            let name = format!("{}, batch {batch}", network.name);
            result.figure("guards", &name, over(&found[2]));
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
    (model, batch): (u16, u8),
    permille: u64,
) -> Result<Vec<Latency>, StepError> {
    let stage_run = StageRun {
        partition: 0,
        model,
        stage: 0,
        batch,
        first: 0,
    };
    for rig in rigs.iter() {
        let picture = |seed| rig::picture(network, seed);
        rig.write(model, 0, u16::from(batch), picture)?;
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
