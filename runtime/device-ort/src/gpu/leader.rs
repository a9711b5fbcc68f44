//! What a partition's leader runs an engine's stages with: a stage as a state that it carries on without waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use ort::session::RunOptions;
use punctual_core::{Answer, BATCH_MAX, ModelId, StageId};
use punctual_device::pool::{CancelFlag, Engine, Outcome};
use punctual_device::regions::BufferGuard;
use punctual_device_cuda::driver::{CallError, Lost};
use punctual_device_cuda::{DeviceError, Loss, LossNotice, Watchdog};
use punctual_platform::{allocator, clock};

use super::execution::{Execution, QueueError};
use super::stage::{BoundStage, DONE, Room};

/// How often the driver is asked while a stage runs whether the device still works.
const ASK_NS: u64 = 200_000;

pub(super) struct EngineLeader {
    // In this order: what sessions use goes after them.
    /// By model, then stage.
    pub(super) stages: Vec<Vec<BoundStage>>,
    pub(super) room: Room,
    pub(super) execution: Arc<dyn Execution>,
    pub(super) options: RunOptions,
    pub(super) watchdog: Arc<Watchdog>,
    pub(super) notice: LossNotice,
    /// Of the stage that was begun last; what the word becomes when it is over.
    pub(super) sequence: u32,
    pub(super) run: Option<Run>,
}

/// A stage that was begun and is not over.
#[derive(Clone, Copy)]
pub(super) struct Run {
    model: usize,
    stage: usize,
    /// The time at which it is overdue.
    due_ns: u64,
    limit_ns: u64,
    /// The driver is asked at that time.
    ask_ns: u64,
    /// The library or the driver refused a part of it: what was queued is waited for.
    failed: bool,
}

impl EngineLeader {
    /// Whether the process lost the device.
    fn is_lost(&self) -> bool {
        self.notice.is_lost()
    }

    fn queue(
        &mut self,
        model: usize,
        stage: usize,
        members: &mut [BufferGuard<'_>],
    ) -> Result<(), QueueError> {
        self.room.stream.context().bind()?;
        let (stage, execution) = (&mut self.stages[model][stage], &*self.execution);
        // The library allocates when it runs.
        allocator::permit(|| stage.queue(&mut self.room, execution, &self.options, members))?;
        let (stream, staging) = (&self.room.stream, &self.room.staging);
        stream.write_word(staging, DONE, self.sequence)?;
        Ok(())
    }

    /// Looks whether the stage is over.
    fn look(&mut self, run: &mut Run, members: &mut [BufferGuard<'_>]) -> Poll<Outcome> {
        // Acquire: what the device wrote before the word is read after it.
        let word = self.room.staging.word(DONE).load(Ordering::Acquire);
        if word == self.sequence && !run.failed {
            let mut floats: heapless::Vec<&mut [f32], BATCH_MAX> =
                members.iter_mut().map(BufferGuard::floats).collect();
            let stage = &mut self.stages[run.model][run.stage];
            // What runs behind the session allocates.
            allocator::permit(|| stage.finish(&self.room, &mut floats));
            return Poll::Ready(Outcome::Done);
        }
        let now = clock::now_ns();
        if now >= run.ask_ns || run.failed {
            run.ask_ns = now + ASK_NS;
            match self.room.stream.is_idle() {
                Ok(true) if run.failed => return Poll::Ready(Outcome::Fault),
                Ok(_) => {}
                Err(error) => return self.lose(error),
            }
        }
        if now >= run.due_ns {
            self.notice.lose(Loss::Unstoppable {
                model: run.model,
                stage: run.stage,
                limit_ns: run.limit_ns,
            });
            return Poll::Ready(Outcome::Fault);
        }
        Poll::Pending
    }

    /// After an error of the driver's: nothing of what the library has on the device can be made again.
    fn lose(&self, error: CallError) -> Poll<Outcome> {
        self.notice.lose(Loss::Fault(DeviceError::Driver(error)));
        Poll::Ready(Outcome::Fault)
    }
}

impl Engine for EngineLeader {
    fn begin(
        &mut self,
        model: ModelId,
        stage: StageId,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Outcome> {
        if self.is_lost() {
            return Poll::Ready(Outcome::Fault);
        }
        if interrupt.is_set() {
            return Poll::Ready(Outcome::Interrupted);
        }
        let (model, stage) = (model.index(), stage.index());
        self.sequence = self.sequence.wrapping_add(1);
        let queued = self.queue(model, stage, members);
        let failed = match queued {
            Ok(()) => false,
            Err(QueueError::Driver(error)) if error.code.loss() != Lost::Nothing => {
                return self.lose(error);
            }
            Err(_) => true,
        };
        let now = clock::now_ns();
        let limit_ns = self.watchdog.limit_ns(model, stage);
        self.run = Some(Run {
            model,
            stage,
            due_ns: now.saturating_add(limit_ns),
            limit_ns,
            ask_ns: now + ASK_NS,
            failed,
        });
        self.advance(members, interrupt)
    }

    /// An interrupt changes nothing: what was begun runs to its end.
    fn advance(&mut self, members: &mut [BufferGuard<'_>], _: &CancelFlag) -> Poll<Outcome> {
        let Some(mut run) = self.run else {
            return Poll::Ready(Outcome::Fault);
        };
        let outcome = self.look(&mut run, members);
        self.run = outcome.is_pending().then_some(run);
        outcome
    }

    fn answer(
        &mut self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &mut BufferGuard<'_>,
    ) -> Answer {
        let results = self.stages[model.index()][stage.index()].results();
        results.answer(member, claim.floats())
    }

    fn deliver(
        &mut self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &mut BufferGuard<'_>,
        area: &mut [u8],
    ) {
        let results = self.stages[model.index()][stage.index()].results();
        results.deliver(member, claim.floats(), area);
    }
}
