//! The sessions of all stages of all models, as one partition's leader runs them.

use std::sync::Arc;
use std::task::Poll;

use ort::session::RunOptions;
use punctual_core::{Answer, BATCH_MAX, ModelId, StageId};
use punctual_device::pool::{CancelFlag, Engine, Outcome, Stopper};
use punctual_device::regions::BufferGuard;
use punctual_platform::allocator;

use crate::stage::{Ran, StageSession};

/// One partition's sessions.
pub(crate) struct Sessions {
    /// By model, then stage.
    pub(crate) stages: Vec<Vec<StageSession>>,
    pub(crate) options: Arc<RunOptions>,
}

impl Sessions {
    fn run(
        &mut self,
        model: ModelId,
        stage: StageId,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Outcome {
        let mut floats: heapless::Vec<&mut [f32], BATCH_MAX> =
            members.iter_mut().map(BufferGuard::floats).collect();
        let session = &mut self.stages[model.index()][stage.index()];
        // Twice: a stop that was meant for the action before may come as late as now.
        for _ in 0..2 {
            // In this order: an interrupt that is set after the question stops the run.
            if self.options.unterminate().is_err() {
                return Outcome::Fault;
            }
            if interrupt.is_set() {
                return Outcome::Interrupted;
            }
            let ran = allocator::permit(|| session.run(&mut floats, &self.options));
            match ran {
                Ran::Done => return Outcome::Done,
                Ran::Ended if interrupt.is_set() => return Outcome::Interrupted,
                Ran::Ended => {}
            }
        }
        Outcome::Fault
    }
}

impl Engine for Sessions {
    fn begin(
        &mut self,
        model: ModelId,
        stage: StageId,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Outcome> {
        Poll::Ready(self.run(model, stage, members, interrupt))
    }

    fn stopper(&self) -> Option<Stopper> {
        let options = self.options.clone();
        // It fails only on options that are gone.
        Some(Box::new(move || drop(options.terminate())))
    }

    fn answer(
        &mut self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &mut BufferGuard<'_>,
    ) -> Answer {
        self.stages[model.index()][stage.index()].answer(member, claim.floats())
    }

    fn deliver(
        &mut self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &mut BufferGuard<'_>,
        area: &mut [u8],
    ) {
        self.stages[model.index()][stage.index()].deliver(member, claim.floats(), area);
    }
}
