//! How kind the world is to policies that are tried on random plans.

use punctual_core::{Confidence, Config, Infer, ModelId, Nanos, StageId, StageTime, TaskId};
use punctual_types::Random;

use crate::world::{Ending, Nature};

/// Preparations take what the plan says, and at most twice that in foul weather.
#[derive(Clone, Debug)]
pub struct Weather {
    /// What an exit says in calm weather, by sequence number of the submission.
    pub confidence: fn(u64, StageId) -> Confidence,
    prepare: Vec<Nanos>,
    foul: Option<Random>,
}

impl Weather {
    /// Every stage takes its budget, every exit is unsure, nothing fails.
    pub fn calm(config: &Config) -> Self {
        Self {
            confidence: |_, _| Confidence(0),
            prepare: config.tasks.iter().map(|task| task.prepare).collect(),
            foul: None,
        }
    }

    /// Stages end early or overrun, windows are missed, devices and payloads fail.
    pub fn foul(config: &Config, random: Random) -> Self {
        Self {
            foul: Some(random),
            ..Self::calm(config)
        }
    }

    fn strikes(&mut self, once_in: u64) -> bool {
        self.foul.as_mut().is_some_and(|r| r.one_in(once_in))
    }
}

impl Nature for Weather {
    fn duration(&mut self, _: &Infer, time: StageTime) -> Nanos {
        let Some(random) = &mut self.foul else {
            return time.budget;
        };
        let longest = if random.one_in(10) { 3 } else { 1 };
        Nanos::new(random.within(1, time.budget.as_nanos() * longest))
    }

    fn preparation(&mut self, task: TaskId) -> Nanos {
        let planned = self.prepare[task.index()];
        let Some(random) = &mut self.foul else {
            return planned;
        };
        Nanos::new(random.within(0, planned.as_nanos() * 2))
    }

    fn confidence_of(&mut self, member: u64, infer: &Infer) -> Confidence {
        match &mut self.foul {
            None => (self.confidence)(member, infer.stage),
            Some(random) => Confidence(random.next_u64() as u16),
        }
    }

    fn transfer_ok(&mut self, _: ModelId) -> bool {
        !self.strikes(10)
    }

    fn ending(&mut self) -> Ending {
        if self.strikes(15) {
            return Ending::NotRun;
        }
        if self.strikes(15) {
            return Ending::Failed;
        }
        if self.strikes(40) {
            Ending::FinishedWithoutAnswers
        } else {
            Ending::Finished
        }
    }

    fn payload_ok(&mut self, _: TaskId) -> bool {
        !self.strikes(20)
    }
}
