//! The stages of one network next to the roofline's prediction, which was committed before any run.

use punctual_device_cuda::driver::Attribute;
use punctual_roofline::structures::Structure;

use super::super::super::result::Latency;
use super::super::super::rig::{self, StageRun};
use super::super::super::roofline::Roofline;
use super::super::super::step::{Session, StepError};
use super::super::super::steps::networks;
use super::super::finding::Finding;
use super::FirstStep;

pub struct OneNetwork;

/// The first runs find cold caches: they are in the file, and count no further.
const COLD: usize = 10;

impl FirstStep for OneNetwork {
    fn name(&self) -> &'static str {
        "network"
    }

    fn shows(&self) -> &'static str {
        "how long the stages of ResNet-50 take at batch 1, beside the prediction that was committed before any run"
    }

    fn seconds(&self) -> u32 {
        6
    }

    fn of_time(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<Finding, StepError> {
        let gpu = session.gpu()?;
        let networks = networks::of(session, &[Structure::ResNet50], 224);
        let network = &networks[0];
        let mut rigs = rig::whole(session, &[(network, &[1])], [rig::queue(gpu)?])?;
        let rig = &mut rigs[0];
        let mut durations = vec![Vec::new(); network.stages.len()];
        for () in session.rounds(400, 2, 800) {
            rig.write(0, 0, 1, |seed| rig::picture(network, seed))?;
            for (stage, durations) in durations.iter_mut().enumerate() {
                let ran = rig.run(StageRun {
                    partition: 0,
                    model: 0,
                    stage: stage as u8,
                    batch: 1,
                    first: 0,
                })?;
                durations.push(ran.measured.as_nanos());
            }
        }
        let multiprocessors = gpu.attribute(Attribute::Multiprocessors)?;
        let roofline = Roofline::find(session)?;
        let predicted = roofline.network(network, 1, multiprocessors);
        let mut finding = Finding::default();
        let mut all_us = 0.0;
        for (stage, durations) in durations.into_iter().enumerate() {
            let name = format!("{}, stage {stage}, batch 1", network.name);
            let warm = durations[COLD.min(durations.len() / 2)..].to_vec();
            let us = Latency::of(warm).p50_us;
            all_us += us;
            finding.compared.push(predicted.stage(&name, stage, us));
            finding.nanoseconds(name, durations);
        }
        let whole = predicted.whole(&format!("{}, batch 1", network.name), all_us);
        let beside = match &whole.predicted {
            Some(predicted) => format!(
                "{:.0} us were predicted ({:.2} times)",
                predicted.us, predicted.ratio
            ),
            None => whole.why.clone().unwrap_or_default(),
        };
        finding.found = format!(
            "{} in {} stages took {all_us:.0} us; {beside}",
            network.name,
            finding.compared.len()
        );
        finding.compared.push(whole);
        finding.note(roofline.about());
        Ok(finding)
    }
}
