//! Actions that the device does not report ([`punctual_core::lost`]).

use super::{Baseline, BaselineRules, BatchRunner, Ended, State};
use punctual_core::{ActionId, Actions, Failure, Instant, PartitionId, TaskId, Verdict};

impl<R: BaselineRules> Baseline<R> {
    /// Requests that wait for a lost action are lost, too.
    pub(super) fn give_up(&mut self, actions: &mut Actions) {
        if !self.runner.take_for_lost(actions) {
            return;
        }
        for buffer in 0..self.runner.requests.buffers() {
            let request = *self.runner.request(buffer);
            if request.state == State::Queued && self.runner.is_locked(request.task) {
                self.rules.forget(&self.runner, buffer);
                let verdict = Verdict::Failed(self.runner.reason(request.task));
                self.runner.conclude(buffer, verdict, actions);
            }
        }
    }

    /// A lost action was reported after all: what it locked is free.
    pub(super) fn found(&mut self, action: ActionId) {
        if let Some(job) = self.runner.take_job(action) {
            self.rules.ended(&mut self.runner, &job, Ended::Failed);
        }
    }
}

impl BatchRunner {
    /// Takes actions for lost that should have been reported long ago: their members fail, and
    /// their partitions and buffers stay locked.
    fn take_for_lost(&mut self, actions: &mut Actions) -> bool {
        if self.now < self.jobs.next_loss {
            return false;
        }
        let mut any = false;
        self.jobs.next_loss = Instant::FAR_FUTURE;
        for index in 0..self.jobs.running.len() {
            let job = self.jobs.running[index].as_mut().filter(|job| !job.lost);
            let Some(job) = job else {
                continue;
            };
            if self.now < job.lost_from {
                self.jobs.next_loss = self.jobs.next_loss.min(job.lost_from);
                continue;
            }
            job.lost = true;
            let reason = if self.starved[job.partition.index()] {
                Failure::Starved
            } else {
                Failure::Device
            };
            self.jobs.lost += 1;
            any = true;
            for buffer in job.members.clone() {
                let failure = self.failure(buffer, reason);
                let request = self.requests.lock(buffer);
                self.reply(buffer, &request, Verdict::Failed(failure), actions);
            }
        }
        any
    }

    /// When an action must be taken for lost, or some time before.
    pub(super) fn next_loss(&self) -> Option<Instant> {
        let next = self.jobs.next_loss;
        (self.jobs.in_flight > 0 && next != Instant::FAR_FUTURE).then_some(next)
    }

    /// Whether a task has to wait for a lost action. A baseline knows no way around a part of the device
    /// that is locked: also tasks that other partitions could serve wait, if they may use its units.
    pub(super) fn is_locked(&self, task: TaskId) -> bool {
        self.jobs.lost > 0 && self.lost_before(task).next().is_some()
    }

    /// Why a task's requests fail that wait for lost actions.
    fn reason(&self, task: TaskId) -> Failure {
        let mut partitions = self.lost_before(task);
        if partitions.all(|partition| self.starved[partition.index()]) {
            Failure::Starved
        } else {
            Failure::Device
        }
    }

    /// The partitions of the lost actions that a task has to wait for.
    fn lost_before(&self, task: TaskId) -> impl Iterator<Item = PartitionId> {
        let own = self.config.tasks[task.index()].partition;
        let units = |partition: PartitionId| self.config.partitions[partition.index()].units;
        let jobs = self.jobs.running.iter().flatten().filter(|job| job.lost);
        let partitions = jobs.map(|job| job.partition);
        partitions.filter(move |&partition| {
            partition == own || !self.shared && units(partition).overlaps(units(own))
        })
    }
}
