//! Whole networks preempted at any time (REEF, Figures 12 and 20).

use punctual_device_cuda::CudaDevice;
use punctual_device_cuda::queue::QueueSpec;
use punctual_report::{Axis, Bars};
use punctual_roofline::structures::Structure;
use punctual_types::Random;

use super::super::super::result::{Latency, Sheet, StepResult};
use super::super::super::rig::{self, Rig, StageRun};
use super::super::super::step::{Session, StepError};
use super::super::networks;
use super::Way;

/// Measures and adds what was found.
pub fn measure(session: &Session<'_>, result: &mut StepResult) -> Result<(), StepError> {
    let usual = rig::queue(session.gpu()?)?;
    let structures = [Structure::Vgg19, Structure::ResNet152, Structure::ResNet50];
    let networks = networks::of(session, &structures, 224);
    let models: Vec<_> = networks
        .iter()
        .map(|network| (network, &[1_u8][..]))
        .collect();
    let queues = Way::ALL.map(|way| QueueSpec {
        bound: way.bound(usual.bound),
        check_stride: if way.looks() { usual.check_stride } else { 0 },
        ..usual
    });
    let mut rigs = rig::whole(session, &models, queues)?;
    let title = "Networks preempted at any time: from the wish to the device's word";
    let mut sheet = Sheet::of_latencies(title, &["network", "way"], &["resumed", "begun again"]);
    let mut means = Way::ALL.map(|way| (way.name().to_owned(), Vec::new()));
    let mut random = Random::new(2).stream("preemption", 0);
    for (model, network) in networks.iter().enumerate() {
        for rig in &rigs {
            rig.write(model as u16, 0, 1, |seed| rig::picture(network, seed))?;
        }
        let before = counts(&rigs);
        let permille = 500 / (networks.len() - model) as u64;
        let found = alternate(session, &mut rigs, model as u16, permille, &mut random)?;
        let after = counts(&rigs);
        for (position, latency) in found.iter().enumerate() {
            let what = [network.name.clone(), means[position].0.clone()];
            let [resumed, again] = [0, 1].map(|which| {
                let count = after[position][which] - before[position][which];
                count.to_string()
            });
            sheet.latency(what, latency, [resumed, again]);
            means[position].1.push(Some(latency.mean_us));
        }
    }
    result.tables.push(sheet);
    result.bars.push(Bars {
        title: "Mean preemption latency".into(),
        y: Axis::linear("us"),
        groups: networks.into_iter().map(|network| network.name).collect(),
        series: means.to_vec(),
    });
    Ok(())
}

/// Of each device: stages that went on where they were, and those that began again.
fn counts(rigs: &[Rig<CudaDevice>]) -> Vec<[u64; 2]> {
    let of = |rig: &Rig<CudaDevice>| {
        let counts = rig.device.counters().read();
        [counts.resumed, counts.begun_again]
    };
    rigs.iter().map(of).collect()
}

fn alternate(
    session: &Session<'_>,
    rigs: &mut [Rig<CudaDevice>],
    model: u16,
    permille: u64,
    random: &mut Random,
) -> Result<Vec<Latency>, StepError> {
    let stage_run = StageRun {
        partition: 0,
        model,
        stage: 0,
        batch: 1,
        first: 0,
    };
    let mut alone = Vec::new();
    for rig in rigs.iter_mut() {
        // The first run finds cold caches.
        rig.run(stage_run)?;
        alone.push(rig.run(stage_run)?.measured.as_nanos());
    }
    let mut durations = vec![Vec::new(); rigs.len()];
    for () in session.rounds(400, 2, permille) {
        for ((rig, &alone), durations) in rigs.iter_mut().zip(&alone).zip(&mut durations) {
            let after = alone as f64 * random.unit();
            durations.extend(rig.preempt(stage_run, after as u64)?);
            // What was preempted is finished, so that each round begins alike.
            rig.run(stage_run)?;
        }
    }
    Ok(durations.into_iter().map(Latency::of).collect())
}
