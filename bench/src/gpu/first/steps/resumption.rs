//! Whether a stage that was preempted and resumed gives the answer of one that was not.

use punctual_core::Answer;
use punctual_roofline::structures::Structure;
use punctual_types::Random;

use super::super::super::rig::{self, StageRun};
use super::super::super::step::{Session, StepError};
use super::super::super::steps::networks;
use super::super::finding::{Claim, Finding};
use super::FirstStep;

pub struct Resumption;

const STAGE: StageRun = StageRun {
    partition: 0,
    model: 0,
    stage: 0,
    batch: 1,
    first: 0,
};

impl FirstStep for Resumption {
    fn name(&self) -> &'static str {
        "resumption"
    }

    fn shows(&self) -> &'static str {
        "a stage of ResNet-50 that is preempted anywhere and resumed gives the same answer"
    }

    fn seconds(&self) -> u32 {
        4
    }

    fn of_time(&self) -> bool {
        false
    }

    fn run(&self, session: &Session<'_>) -> Result<Finding, StepError> {
        let stages = stages(session)?;
        let preempted = stages.preempted_ns.len();
        let mut finding = Finding {
            claim: match (preempted, preempted - stages.same) {
                (0, _) => Claim::Open,
                (_, 0) => Claim::Proven,
                _ => Claim::Refuted,
            },
            found: format!(
                "{} of {preempted} preempted stages gave the same answer once they were resumed",
                stages.same
            ),
            ..Finding::default()
        };
        finding.nanoseconds("from the wish to the device's word", stages.preempted_ns);
        finding.note(format!(
            "{} stages were over before they could be preempted. Of the others {} went on where they were, {} began again.",
            stages.over, stages.resumed, stages.begun_again
        ));
        Ok(finding)
    }
}

struct Stages {
    preempted_ns: Vec<u64>,
    /// Preempted ones whose answer, once resumed, was that of an undisturbed run.
    same: usize,
    over: usize,
    resumed: u64,
    begun_again: u64,
}

/// Stages of a network, preempted at any time and resumed.
fn stages(session: &Session<'_>) -> Result<Stages, StepError> {
    let networks = networks::of(session, &[Structure::ResNet50], 224);
    let queue = rig::queue(session.gpu()?)?;
    let mut rigs = rig::whole(session, &[(&networks[0], &[1])], [queue])?;
    let rig = &mut rigs[0];
    rig.write(0, 0, 1, |seed| rig::picture(&networks[0], seed))?;
    // The first run finds cold caches.
    rig.run(STAGE)?;
    let alone = rig.run(STAGE)?;
    let expected: Vec<Answer> = alone.members.iter().copied().collect();
    let mut random = Random::new(8).stream("first-light", 0);
    let mut found = Stages {
        preempted_ns: Vec::new(),
        same: 0,
        over: 0,
        resumed: 0,
        begun_again: 0,
    };
    for () in session.rounds(200, 3, 900) {
        let after = alone.measured.as_nanos() as f64 * random.unit();
        match rig.preempt(STAGE, after as u64)? {
            Some(ns) => {
                found.preempted_ns.push(ns);
                let again = rig.run(STAGE)?;
                found.same += usize::from(again.members.iter().eq(&expected));
            }
            None => found.over += 1,
        }
    }
    let counts = rig.device.counters().read();
    (found.resumed, found.begun_again) = (counts.resumed, counts.begun_again);
    Ok(found)
}
