//! What a device reports of the action in flight, and when an answer is good enough.

use crate::action::{Failure, Verdict};
use crate::actions::Actions;
use crate::event::{Answer, Finished};
use crate::ids::ActionId;
use crate::punctual::Punctual;
use crate::punctual::ledger::Note;
use crate::punctual::slot::{Kind, Running};

impl Punctual {
    /// A stage ran: each member is answered, or waits for its next stage.
    pub(crate) fn finished(&mut self, finished: &Finished, actions: &mut Actions) {
        let Some((index, running)) = self.take_running(finished.action) else {
            return;
        };
        if finished.members.len() != running.members.len() {
            // The device does not say whose answers these are; a wrong one would be worse.
            return self.fail(&running, actions);
        }
        if running.kind == Kind::BestEffort {
            let took = self.now.since(running.ordered);
            self.charge(&running.members, took);
            self.partitions[index].gaps.was_long_enough();
        } else {
            if running.kind == Kind::Demoted {
                self.charge(&running.members, self.now.since(running.ordered));
            }
            self.settle(index, &running, finished, actions);
        }
        for (id, answer) in running.members.iter().zip(&finished.members) {
            self.advance(id.buffer, *answer, actions);
        }
    }

    /// A device did not start an action inside its window: as if it had not been ordered.
    pub(crate) fn not_run(&mut self, action: ActionId, actions: &mut Actions) {
        let Some((_, running)) = self.take_running(action) else {
            return;
        };
        for id in &running.members {
            let origin = self.requests.get(id.buffer).origin;
            self.ledger.note(origin, Note::NotRun);
            self.put_back(id.buffer, actions);
        }
    }

    /// A device stopped a best-effort action. The stage's inputs are still there, and so is the
    /// answer of the stage before.
    pub(crate) fn preempted(&mut self, action: ActionId, actions: &mut Actions) {
        let Some((index, running)) = self.take_running(action) else {
            return;
        };
        self.charge(&running.members, self.now.since(running.ordered));
        let batch = self.tables.row(running.row).sizes[running.size];
        self.partitions[index].gaps.was_short(batch);
        for id in &running.members {
            let origin = self.requests.get(id.buffer).origin;
            self.ledger.note(origin, Note::Preempted);
            self.put_back(id.buffer, actions);
        }
    }

    /// A device reports an error.
    pub(crate) fn failed(&mut self, action: ActionId, actions: &mut Actions) {
        if let Some((_, running)) = self.take_running(action) {
            self.fail(&running, actions);
        }
    }

    /// The action that a report is of, and where it was in flight, unless it had been taken for lost.
    fn take_running(&mut self, action: ActionId) -> Option<(usize, Running)> {
        let Some(index) = self.partitions.running(action) else {
            self.note_stale();
            return None;
        };
        let ended = self.partitions[index].slot.end(action, self.now)?;
        self.partitions.touch_around(index, ended.left);
        let running = ended.action;
        if running.lost {
            self.unlock(&running);
            return None;
        }
        if ended.ran && running.kind != Kind::BestEffort {
            let share = &mut self.partitions[index].share;
            share.ran(running.ordered, self.now);
        }
        Some((index, running))
    }

    fn fail(&mut self, running: &Running, actions: &mut Actions) {
        for id in &running.members {
            let index = self.partition_of(id.buffer);
            self.remove_pending(index, id.buffer);
            let failure = if self.requests.get(id.buffer).gone {
                Failure::ClientGone
            } else {
                Failure::Device
            };
            self.conclude(id.buffer, Verdict::Failed(failure), actions);
        }
    }

    fn put_back(&mut self, buffer: u16, actions: &mut Actions) {
        let index = self.partition_of(buffer);
        if self.requests.get(buffer).gone {
            self.remove_pending(index, buffer);
            return self.conclude(buffer, Verdict::Failed(Failure::ClientGone), actions);
        }
        self.requeue(index, buffer);
    }

    /// Where a request's promise is kept, which is to be looked at: not where it ran, if the layout
    /// changed meanwhile.
    fn partition_of(&mut self, buffer: u16) -> usize {
        let task = self.requests.get(buffer).task;
        let index = self.tables.task(task).partition.index();
        self.partitions[index].touch();
        index
    }

    /// One member's stage is done.
    fn advance(&mut self, buffer: u16, answer: Answer, actions: &mut Actions) {
        let request = self.requests.get(buffer);
        let exit = request.stage;
        let table = self.tables.task(request.task);
        let answers = self.tables.own(table, exit).answers;
        let request = *self.requests.deepen(buffer, answers.then_some(answer));
        let index = self.partition_of(buffer);
        let table = self.tables.task(request.task);
        let (last, threshold) = (exit.next().0 == table.stages, table.threshold);
        let counts = exit.0 >= table.mandatory_exit.0;
        if counts || request.gone {
            self.remove_pending(index, buffer);
        }
        if request.gone {
            return self.conclude(buffer, Verdict::Failed(Failure::ClientGone), actions);
        }
        let sure = answers && answer.confidence >= threshold;
        let enough = sure || last || self.now >= request.due;
        // A model that lost its promises gives the answer that counts, and goes no deeper.
        if counts && (enough || request.demoted) {
            return self.answer(buffer, actions);
        }
        self.requeue(index, buffer);
    }
}
