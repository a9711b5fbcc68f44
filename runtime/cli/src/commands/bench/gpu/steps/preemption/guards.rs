//! What it costs that blocks look at the epoch while nobody is preempted.

use punctual_device_cuda::Division;
use punctual_device_cuda::queue::QueueSpec;
use punctual_device_cuda::structures::Structure;

use super::super::super::result::{Latency, Sheet, StepResult};
use super::super::super::rig::{self, Errand, Rig, Setup};
use super::super::super::step::{Session, StepError};
use super::super::networks;

/// Measures and adds what was found.
pub fn measure(session: &Session<'_>, result: &mut StepResult) -> Result<(), StepError> {
    let usual = rig::queue(session.gpu()?)?;
    let networks = networks::of(session, &[Structure::ResNet50, Structure::MobileNetV2], 224);
    let batches = session.size(&[1, 8][..], &[1, 2]);
    let models: Vec<_> = networks.iter().map(|network| (network, batches)).collect();
    let queues = [
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
    let mut rigs = Vec::new();
    for (_, queue) in queues {
        rigs.push(Rig::cuda(
            session,
            &Setup {
                models: &models,
                division: Division::Whole,
                queue,
            },
        )?);
    }
    let headings = [
        &["network", "batch", "looks"],
        &Latency::HEADINGS[..],
        &["over without"],
    ]
    .concat();
    let mut sheet = Sheet::new(
        "Whole networks, with and without looks at the epoch",
        &headings,
        1,
    );
    let mut left = networks.len() * batches.len();
    for (model, network) in networks.iter().enumerate() {
        for &batch in batches {
            let errand = Errand {
                partition: 0,
                model: model as u16,
                stage: 0,
                batch,
                first: 0,
            };
            for rig in &rigs {
                rig.write(errand.model, 0, u16::from(batch), |seed| {
                    rig::picture(network, seed)
                })?;
            }
            let mut durations = vec![Vec::new(); rigs.len()];
            for (round, ()) in session.rounds(400, 3, 950 / left as u64).enumerate() {
                for (rig, durations) in rigs.iter_mut().zip(&mut durations) {
                    let took = rig.run_through(errand, network.stages.len())?;
                    if round > 0 {
                        durations.push(took);
                    }
                }
            }
            left -= 1;
            let found: Vec<Latency> = durations.into_iter().map(Latency::of).collect();
            let over = |latency: &Latency| (latency.p50_us / found[0].p50_us - 1.0) * 100.0;
            for ((looks, _), latency) in queues.iter().zip(&found) {
                let what = [network.name.clone(), batch.to_string(), (*looks).to_owned()];
                let cells = latency.cells().into_iter();
                sheet.row(
                    what.into_iter()
                        .chain(cells)
                        .chain([format!("{:+.2}%", over(latency))]),
                );
            }
            result.figure(
                "guards",
                &format!("{}, batch {batch}", network.name),
                over(&found[2]),
            );
        }
    }
    result.tables.push(sheet);
    Ok(())
}
