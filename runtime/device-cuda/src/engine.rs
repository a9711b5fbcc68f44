//! What a partition's leader runs stages with: [`Engine`] on the [`StreamExecutor`] of the partition's stream.

use std::sync::{Arc, Mutex, TryLockError};
use std::task::Poll;

use punctual_core::{Answer, Confidence, ModelId, StageId};
use punctual_cuda_kernels::IMAGES_MAX;
use punctual_cuda_kernels::params;
use punctual_device::pool::{CancelFlag, Engine, Outcome, Stopper};
use punctual_device::regions::BufferGuard;
use punctual_platform::Doorbell;

use crate::executor::{Ended, ExecutorEnv, StreamExecutor};
use crate::faults::DeviceError;
use crate::queue::StopFlag;
use crate::spec::Watchdog;

/// The executors of all streams. Each is its leader's while a step of it is carried out; the recovery thread holds all
/// of them while it restarts the device.
pub(crate) type Executors = Arc<[Mutex<Option<StreamExecutor>>]>;

/// One partition's engine, on the thread of its leader, which may serve other partitions, too.
pub(crate) struct Leader {
    pub(crate) stream: usize,
    pub(crate) executors: Executors,
    pub(crate) env: ExecutorEnv,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) stop: StopFlag,
    /// Its leader's.
    pub(crate) bell: Arc<Doorbell>,
    /// A stage was begun and is not over; or a step of it panicked, and no other was begun since.
    pub(crate) running: bool,
    /// Of the stage that was last done.
    pub(crate) answers: [params::Answer; IMAGES_MAX],
}

impl Leader {
    /// Lets the executor of the stream do a step, unless the device is being restarted: then it is not waited for.
    fn step(
        &mut self,
        images: usize,
        step: impl FnOnce(&mut StreamExecutor, &ExecutorEnv) -> Poll<Result<Ended, DeviceError>>,
    ) -> Poll<Result<Ended, DeviceError>> {
        if self.env.health.is_down() {
            return Poll::Ready(Err(DeviceError::Down));
        }
        // Never waited for: only a restart holds it, and a panic inside leaves it poisoned.
        let mut executor = match self.executors[self.stream].try_lock() {
            Ok(executor) => executor,
            Err(TryLockError::WouldBlock) => return Poll::Ready(Err(DeviceError::Down)),
            Err(TryLockError::Poisoned(_locked)) => {
                self.env.health.go_down();
                return Poll::Ready(Err(DeviceError::Panic));
            }
        };
        let Some(executor) = executor.as_mut() else {
            return Poll::Ready(Err(DeviceError::Down));
        };
        let ended = step(executor, &self.env);
        match ended {
            Poll::Ready(Ok(Ended::Done)) => {
                self.env.health.prove();
                for (image, answer) in self.answers[..images].iter_mut().enumerate() {
                    *answer = executor.answer(image);
                }
            }
            Poll::Ready(Err(error)) if error.needs_restart() => {
                // While the executor is locked: a restart for another partition's report of the same fault waits for it,
                // and is the only one.
                self.env.health.go_down();
                executor.error = Some(error);
            }
            Poll::Ready(Ok(Ended::Interrupted) | Err(_)) | Poll::Pending => {}
        }
        ended
    }

    /// The handle of its stream; 0 while the device is being restarted.
    pub(crate) fn stream_handle(&self) -> u64 {
        let executor = self.executors[self.stream].lock();
        let executor = executor.unwrap_or_else(|poison| poison.into_inner());
        let handle = |executor: &StreamExecutor| executor.queue.stream().as_raw() as u64;
        executor.as_ref().map_or(0, handle)
    }

    /// The outcome of a stage that is over.
    fn outcome(&mut self, ended: Poll<Result<Ended, DeviceError>>) -> Poll<Outcome> {
        let Poll::Ready(ended) = ended else {
            return Poll::Pending;
        };
        self.running = false;
        self.env.health.end_stage();
        Poll::Ready(match ended {
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
        })
    }
}

impl Engine for Leader {
    fn begin(
        &mut self,
        model: ModelId,
        stage: StageId,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Outcome> {
        let (model, stage) = (model.index(), stage.index());
        let limit_ns = self.watchdog.limit_ns(model, stage);
        if !std::mem::replace(&mut self.running, true) {
            self.env.health.begin_stage();
        }
        let ended = self.step(members.len(), |executor, env| {
            executor.begin(env, model, stage, members, interrupt, limit_ns)
        });
        self.outcome(ended)
    }

    fn advance(
        &mut self,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Outcome> {
        let ended = self.step(members.len(), |executor, env| {
            executor.advance(env, members, interrupt)
        });
        self.outcome(ended)
    }

    fn bell(&self) -> Arc<Doorbell> {
        self.bell.clone()
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
            class: answer.class_index as u16,
            confidence: Confidence::from_probability(answer.confidence),
        }
    }

    /// Moves the queue's epoch on at once, if a store is enough for that; the leader sees the rest.
    fn stopper(&self) -> Option<Stopper> {
        let stop = self.stop.clone();
        Some(Box::new(move || stop.stop()))
    }
}
