//! Actions that the device does not report ([`crate::lost`]).

use super::Punctual;
use super::partition::Partition;
use super::requests::State;
use super::slot::Running;
use crate::action::{Failure, Verdict};
use crate::actions::Actions;
use crate::ids::TaskId;

impl Punctual {
    /// Takes a partition's action for lost, if it should have been reported long ago.
    pub(crate) fn give_up(&mut self, index: usize, actions: &mut Actions) {
        let Some(lost) = self.partitions[index].slot.give_up(self.now) else {
            return;
        };
        // Its members end now: nobody waits for what they would have become.
        self.partitions[index].touch();
        if lost.left {
            self.partitions.iter_mut().for_each(Partition::touch);
        }
        for id in &lost.members {
            let request = *self.requests.get(id.buffer);
            let failure = if request.gone {
                Failure::ClientGone
            } else {
                Failure::Device
            };
            let here = self.tables.task(request.task).partition.index();
            self.remove_pending(here, id.buffer);
            let request = self.requests.lock(id.buffer);
            let model = self.tables.task(request.task).model;
            self.paging.residency.lock(model);
            let verdict = Verdict::Failed(failure);
            self.ledger.finish(*id, &request, verdict, actions);
        }
        for buffer in 0..self.requests.buffers() {
            self.end_wait_in_vain(buffer, actions);
        }
    }

    /// Ends a request that waits for a locked partition or for pages that were lost: with the
    /// answer it has, if that counts.
    pub(crate) fn end_wait_in_vain(&mut self, buffer: u16, actions: &mut Actions) {
        let (state, task) = {
            let request = self.requests.get(buffer);
            (request.state, request.task)
        };
        let waits = matches!(
            state,
            State::Awaiting | State::Pending | State::Parked | State::Waiting
        );
        if !waits || !self.waits_in_vain(task) {
            return;
        }
        self.withdraw(buffer);
        if self.holds_answer_that_counts(buffer) {
            self.answer(buffer, actions);
        } else {
            self.conclude(buffer, Verdict::Failed(Failure::Device), actions);
        }
    }

    /// Whether a lost action or transfer keeps a task's requests from running.
    pub(crate) fn waits_in_vain(&self, task: TaskId) -> bool {
        let table = self.tables.task(task);
        self.partitions.is_locked(table.partition.index())
            || !self.paging.residency.can_come(table.model)
    }

    /// A lost action was reported after all: its members' buffers are free.
    pub(crate) fn unlock(&mut self, running: &Running) {
        for id in &running.members {
            let request = self.requests.release(id.buffer);
            let model = self.tables.task(request.task).model;
            self.paging.residency.unlock(model);
            self.let_go(&request);
        }
    }
}
