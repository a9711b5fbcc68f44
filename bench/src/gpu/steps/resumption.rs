//! Whether a stage that was preempted and resumed gives the answer of one that was not, and how soon it leaves (REEF, Figure 12).

use punctual_core::Answer;
use punctual_device_cuda::CudaDevice;
use punctual_model::Network;
use punctual_roofline::structures::Structure;
use punctual_types::Random;

use super::super::result::{Claim, Sheet, StepResult};
use super::super::rig::{self, Rig, StageRun};
use super::super::step::{Session, Step, StepError};
use super::networks;

pub struct Resumption;

impl Step for Resumption {
    fn name(&self) -> &'static str {
        "resumption"
    }

    fn about(&self) -> &'static str {
        "a stage that is preempted anywhere and resumed gives the same answer (REEF, Figure 12)"
    }

    fn of_time(&self) -> bool {
        false
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let structures = [Structure::ResNet50, Structure::Vgg19, Structure::ResNet152];
        let networks = networks::of(session, &structures, 224);
        let models: Vec<_> = networks
            .iter()
            .map(|network| (network, &[1_u8][..]))
            .collect();
        let mut rigs = rig::whole(session, &models, [rig::queue(session.gpu()?)?])?;
        let mut random = Random::new(8).stream("resumption", 0);
        let title = "First stages preempted at any time: from the wish to the device's word";
        let after = ["over before", "resumed", "begun again", "same answer"];
        let mut sheet = Sheet::of_latencies(title, &["network"], &after);
        let (mut result, mut preempted, mut same) = (StepResult::default(), 0, 0);
        for (model, network) in networks.iter().enumerate() {
            let permille = 900 / (networks.len() - model) as u64;
            let mut subject = Subject {
                rig: &mut rigs[0],
                random: &mut random,
                stage_run: first_stage(model),
            };
            let stages = subject.measure(session, network, permille)?;
            preempted += stages.preempted_ns.len() as u64;
            same += stages.same;
            let after = [stages.over, stages.resumed, stages.begun_again, stages.same];
            let of = format!("{}, from the wish to the device's word", network.name);
            let latency = result.nanoseconds(of, stages.preempted_ns);
            sheet.latency(
                [network.name.clone()],
                &latency,
                after.map(|n| n.to_string()),
            );
        }
        result.claim = match (preempted, preempted - same) {
            (0, _) => Claim::Open,
            (_, 0) => Claim::Proven,
            _ => Claim::Refuted,
        };
        result.found = format!(
            "{same} of {preempted} preempted stages gave the same answer once they were resumed"
        );
        result.tables.push(sheet);
        Ok(result)
    }
}

const fn first_stage(model: usize) -> StageRun {
    StageRun {
        partition: 0,
        model: model as u16,
        stage: 0,
        batch: 1,
        first: 0,
    }
}

/// A stage that is preempted again and again.
struct Subject<'s> {
    rig: &'s mut Rig<CudaDevice>,
    random: &'s mut Random,
    stage_run: StageRun,
}

struct Stages {
    preempted_ns: Vec<u64>,
    /// Preempted ones whose answer, once resumed, was that of an undisturbed run.
    same: u64,
    over: u64,
    resumed: u64,
    begun_again: u64,
}

impl Subject<'_> {
    fn measure(
        &mut self,
        session: &Session<'_>,
        network: &Network,
        permille: u64,
    ) -> Result<Stages, StepError> {
        let Self { rig, stage_run, .. } = self;
        rig.write(stage_run.model, 0, 1, |seed| rig::picture(network, seed))?;
        // The first run finds cold caches.
        rig.run(*stage_run)?;
        let alone = rig.run(*stage_run)?;
        let expected: Vec<Answer> = alone.members.iter().copied().collect();
        let before = rig.device.counters().read();
        let (mut preempted_ns, mut same, mut over) = (Vec::new(), 0, 0);
        for () in session.rounds(400, 3, permille) {
            let after = alone.measured.as_nanos() as f64 * self.random.unit();
            match rig.preempt(*stage_run, after as u64)? {
                Some(ns) => {
                    preempted_ns.push(ns);
                    let again = rig.run(*stage_run)?;
                    same += u64::from(again.members.iter().eq(&expected));
                }
                None => over += 1,
            }
        }
        let counts = rig.device.counters().read();
        Ok(Stages {
            preempted_ns,
            same,
            over,
            resumed: counts.resumed - before.resumed,
            begun_again: counts.begun_again - before.begun_again,
        })
    }
}
