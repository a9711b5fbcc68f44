//! What a device reports of the action in flight, and when an answer is good enough.

use crate::action::{Failure, Verdict};
use crate::actions::Actions;
use crate::event::{Answer, Finished};
use crate::ids::{ActionId, ClientId};
use crate::punctual::Punctual;
use crate::punctual::lifecycle::ledger::Note;
use crate::punctual::lifecycle::requests::State;
use crate::punctual::slot::{Kind, Running};

impl Punctual {
    /// A stage ran: each member is answered, or waits for its next stage.
    pub(super) fn finished(&mut self, finished: &Finished, actions: &mut Actions) {
        let Some((index, running)) = self.end_action(finished.action) else {
            return;
        };
        if finished.members.len() != running.members.len() {
            // The device does not say whose answers these are; a wrong one would be worse.
            return self.fail(&running, actions);
        }
        if matches!(running.kind, Kind::BestEffort | Kind::Demoted) {
            let took = self.now.since(running.ordered);
            self.life.charge(&running.members, took);
        }
        if running.kind == Kind::BestEffort {
            self.partitions[index].gaps.was_long_enough();
        } else {
            self.settle(index, &running, finished.measured, actions);
        }
        for (id, answer) in running.members.iter().zip(&finished.members) {
            self.advance(id.buffer, *answer, actions);
        }
    }

    /// A device did not start an action inside its window, or stopped a best-effort action. The inputs
    /// of the stage are still there, and so is the answer of the stage before: the members wait where
    /// they waited, and what happened to them is counted.
    pub(super) fn not_finished(&mut self, action: ActionId, note: Note, actions: &mut Actions) {
        let Some((index, running)) = self.end_action(action) else {
            return;
        };
        if note == Note::Preempted {
            let took = self.now.since(running.ordered);
            self.life.charge(&running.members, took);
            let batch = self.tables.row(running.row).sizes[running.size];
            self.partitions[index].gaps.was_short(batch);
        }
        self.life.note_all(&running.members, note);
        for id in &running.members {
            let index = self.life.partition_of(id.buffer, &self.tables);
            self.partitions[index].touch();
            if self.life.requests.get(id.buffer).gone {
                self.life.end_promise(id.buffer, &self.tables);
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.life.finish(id.buffer, verdict, actions);
            } else {
                self.life.put_back(id.buffer, &self.tables);
            }
        }
    }

    /// A device reports an error: of a transfer, which fails those who waited for it, or of an action.
    pub(super) fn failed(&mut self, action: ActionId, actions: &mut Actions) {
        if let Some(model) = self.life.weights.load_failed(action) {
            while let Some(buffer) = self.life.weights.take_waiting_for(model) {
                let verdict = Verdict::Failed(Failure::Device);
                self.life.finish(buffer, verdict, actions);
            }
        } else if let Some((_, running)) = self.end_action(action) {
            self.fail(&running, actions);
        }
    }

    /// Ends the open requests of a client: at once, or once the intake or the device lets go of their buffers.
    pub(super) fn client_gone(&mut self, client: ClientId, actions: &mut Actions) {
        for buffer in 0..self.life.requests.buffers() {
            let request = self.life.requests.get(buffer);
            if !request.state.is_open() || request.ticket.client != client {
                continue;
            }
            let in_use = matches!(request.state, State::Preparing | State::Running);
            let index = self.life.withdraw(buffer, &self.tables);
            self.partitions[index].touch();
            if in_use {
                self.life.requests.mark_gone(buffer);
            } else {
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.life.finish(buffer, verdict, actions);
            }
        }
    }

    /// The action that a report is of, and where it was in flight, unless it had been taken for lost.
    fn end_action(&mut self, action: ActionId) -> Option<(usize, Running)> {
        let Some(index) = self.partitions.running(action) else {
            self.stale_events += 1;
            return None;
        };
        let ended = self.partitions[index].slot.end(action, self.now)?;
        self.partitions.touch_around(index, ended.left);
        let running = ended.action;
        if running.lost {
            for id in &running.members {
                self.life.unlock(id.buffer, &self.tables);
            }
            return None;
        }
        if ended.ran && running.kind != Kind::BestEffort {
            let share = &mut self.partitions[index].cap;
            share.ran(running.ordered, self.now);
        }
        Some((index, running))
    }

    fn fail(&mut self, running: &Running, actions: &mut Actions) {
        for id in &running.members {
            let index = self.life.partition_of(id.buffer, &self.tables);
            self.partitions[index].touch();
            self.life.end_promise(id.buffer, &self.tables);
            let failure = self.life.requests.get(id.buffer).device_failure();
            let verdict = Verdict::Failed(failure);
            self.life.finish(id.buffer, verdict, actions);
        }
    }

    /// One member's stage is done.
    fn advance(&mut self, buffer: u16, answer: Answer, actions: &mut Actions) {
        let request = self.life.requests.get(buffer);
        let exit = request.stage;
        let table = self.tables.task(request.task);
        let answers = self.tables.own(table, exit).answers;
        let request = self.life.deepen(buffer, answers.then_some(answer));
        self.partitions[table.partition.index()].touch();
        let counts = exit.0 >= table.mandatory_exit.0;
        if counts || request.gone {
            self.life.end_promise(buffer, &self.tables);
        }
        if request.gone {
            let verdict = Verdict::Failed(Failure::ClientGone);
            return self.life.finish(buffer, verdict, actions);
        }
        let last = exit.next().0 == table.stages;
        let sure = answers && answer.confidence >= table.threshold;
        let enough = sure || last || self.now >= request.due;
        // A model that lost its promises gives the answer that counts, and goes no deeper.
        if counts && (enough || request.demoted) {
            return self.life.answer(buffer, self.now, actions);
        }
        self.life.put_back(buffer, &self.tables);
    }
}
