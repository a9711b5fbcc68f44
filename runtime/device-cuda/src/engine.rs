//! What a partition's leader runs stages with: [`Engine`] on the partition's [`PartitionExecutor`].

use std::sync::{Arc, Mutex};

use punctual_core::{Answer, Confidence, ModelId, StageId};
use punctual_device::pool::{CancelFlag, Engine, Outcome, Stopper};
use punctual_device::regions::BufferGuard;
use punctual_kernels::cuda::IMAGES_MAX;
use punctual_kernels::cuda::params;

use crate::device_error::DeviceError;
use crate::executor::{Ended, ExecutorEnv, PartitionExecutor};
use crate::queue::StopFlag;
use crate::spec::Watchdog;

/// The executors of all partitions. Each is its leader's while it runs a stage; the recovery thread holds all of
/// them while it restarts the device.
pub(crate) type Executors = Arc<[Mutex<Option<PartitionExecutor>>]>;

/// One partition's engine, on the thread of its leader, which may serve other partitions, too.
pub(crate) struct Leader {
    pub(crate) partition: usize,
    pub(crate) executors: Executors,
    pub(crate) env: ExecutorEnv,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) stop: StopFlag,
    /// Of the stage that was last done.
    pub(crate) answers: [params::Answer; IMAGES_MAX],
}

impl Leader {
    /// Carries the stage out, unless the device is being restarted: then it is not waited for.
    fn carry_out(
        &mut self,
        (model, stage): (usize, usize),
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Result<Ended, DeviceError> {
        if self.env.health.is_down() {
            return Err(DeviceError::Down);
        }
        // Never waited for: only a restart holds it, and a panic inside leaves it poisoned.
        let mut executor = match self.executors[self.partition].try_lock() {
            Ok(executor) => executor,
            Err(std::sync::TryLockError::WouldBlock) => return Err(DeviceError::Down),
            Err(std::sync::TryLockError::Poisoned(_locked)) => {
                self.env.health.go_down();
                return Err(DeviceError::Panic);
            }
        };
        let executor = executor.as_mut().ok_or(DeviceError::Down)?;
        let watch = (interrupt, self.watchdog.limit_ns(model, stage));
        self.env.health.begin_stage();
        let ended = executor.run(&self.env, (model, stage), members, watch);
        self.env.health.end_stage();
        match ended {
            Ok(Ended::Done) => {
                self.env.health.prove();
                for (member, answer) in self.answers[..members.len()].iter_mut().enumerate() {
                    *answer = executor.answer(member);
                }
            }
            Ok(Ended::Interrupted) => {}
            Err(error) if error.needs_restart() => {
                // While the executor is locked: a restart for another partition's report of the same fault waits for it,
                // and is the only one.
                self.env.health.go_down();
                executor.error = Some(error);
            }
            Err(_) => {}
        }
        ended
    }
}

impl Engine for Leader {
    fn run(
        &mut self,
        model: ModelId,
        stage: StageId,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Outcome {
        let which = (model.index(), stage.index());
        match self.carry_out(which, members, interrupt) {
            Ok(Ended::Done) => Outcome::Done,
            Ok(Ended::Interrupted) => Outcome::Interrupted,
            Err(error) => {
                let counters = &self.env.counters;
                counters.failed.add(1);
                if matches!(error, DeviceError::Overdue { .. }) {
                    counters.overdue.add(1);
                }
                Outcome::Fault
            }
        }
    }

    fn answer(
        &mut self,
        _model: ModelId,
        _stage: StageId,
        member: usize,
        _claim: &mut BufferGuard<'_>,
    ) -> Answer {
        let answer = self.answers[member];
        Answer {
            class: answer.class as u16,
            confidence: Confidence::from_probability(answer.confidence),
        }
    }

    /// Moves the queue's epoch on at once, if a store is enough for that; the leader sees the rest.
    fn stopper(&self) -> Option<Stopper> {
        let (stop, bell) = (self.stop.clone(), self.env.bell.clone());
        Some(Box::new(move || {
            stop.stop();
            bell.ring();
        }))
    }
}
