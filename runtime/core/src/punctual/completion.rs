//! Reports of a device about an action in flight, and the test whether an answer is final.

use crate::action::{Failure, Verdict};
use crate::actions::Actions;
use crate::config::Answers;
use crate::event::{Answer, Finished};
use crate::ids::{ActionId, ClientId, RequestId};
use crate::punctual::Punctual;
use crate::punctual::lifecycle::ledger::Note;
use crate::punctual::lifecycle::requests::State;
use crate::punctual::slot::{Kind, Running};

impl Punctual {
    /// A stage ended: each member gets its answer, or waits for its next stage.
    pub(super) fn finished(&mut self, finished: &Finished, actions: &mut Actions) {
        let Some((index, running)) = self.end_action(finished.action) else {
            return;
        };
        if finished.members.len() != running.members.len() {
            // The report does not tell to which members these answers belong. A wrong answer is worse than
            // a failure.
            return self.fail(&running, actions);
        }
        if matches!(running.kind, Kind::BestEffort | Kind::Demoted) {
            // Tasks of demoted models share the gaps with best-effort tasks, so they pay for them alike.
            let took = self.now.since(running.ordered);
            self.life.charge(&running.members, took);
        }
        if running.kind == Kind::BestEffort {
            self.partitions[index].gaps_mut().completed();
        } else {
            // Best-effort stages are not judged by their times: no promise depends on their budgets, and a
            // preemption would distort them.
            self.settle(index, &running, finished.measured, actions);
        }
        // After the judgement of the model: if it is demoted by this stage, its members go no deeper.
        for (id, answer) in running.members.iter().zip(&finished.members) {
            if self.is_open(*id) {
                self.advance(id.buffer, *answer, actions);
            }
        }
    }

    /// A device did not start an action inside its window, or preempted a best-effort action. The inputs of
    /// the stage and the answers before it are still valid. So the members go back to their queues.
    pub(super) fn not_finished(&mut self, action: ActionId, note: Note, actions: &mut Actions) {
        let Some((index, running)) = self.end_action(action) else {
            return;
        };
        if note == Note::Preempted {
            // The task used the gap, although the work is lost.
            let took = self.now.since(running.ordered);
            self.life.charge(&running.members, took);
            let batch = self.tables.row(running.row).sizes[running.size];
            self.partitions[index].gaps_mut().preempted(batch);
        }
        self.life.note_all(&running.members, note);
        for id in &running.members {
            let index = self.life.partition_of(id.buffer, &self.tables);
            self.partitions[index].mark_dirty();
            if !self.is_open(*id) {
                continue;
            }
            // Only now that no device writes to the buffer can the request of a client that is gone end.
            if self.life.requests.get(id.buffer).gone {
                self.life.end_promise(id.buffer, &self.tables);
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.life.finish(id.buffer, verdict, actions);
            } else {
                self.put_back(id.buffer, actions);
            }
        }
    }

    /// A device reports an error: of a transfer, which fails all requests that wait for it, or of an action.
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

    /// Ends the open requests of a client: at once, or when the intake or the device releases their buffers.
    pub(super) fn client_gone(&mut self, client: ClientId, actions: &mut Actions) {
        for buffer in 0..self.life.requests.buffers() {
            let request = self.life.requests.get(buffer);
            if !request.state.is_open() || request.ticket.client != client {
                continue;
            }
            // The intake or the device may still write to the buffer, so the request ends with their report.
            let in_use = matches!(request.state, State::Preparing | State::Running);
            let index = self.life.withdraw(buffer, &self.tables);
            self.partitions[index].mark_dirty();
            if in_use {
                self.life.requests.mark_gone(buffer);
            } else {
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.life.finish(buffer, verdict, actions);
            }
        }
    }

    /// Ends the action that a report names. Its partition and the action; `None` if no such action is in
    /// flight, or if it counts as lost.
    fn end_action(&mut self, action: ActionId) -> Option<(usize, Running)> {
        let Some(index) = self.partitions.running(action) else {
            self.stale_events += 1;
            return None;
        };
        let ended = self.partitions[index].end(action, self.now, &self.tables)?;
        self.partitions.mark_dirty_around(index);
        let running = ended.action;
        if running.home != index && !self.places.overlap(index, running.home) {
            let took = self.now.since(running.ordered);
            let lender = self.partitions[running.home].lender_mut();
            lender.borrowed(took, self.now);
        }
        // Its home may have waited for it.
        self.partitions[running.home].mark_dirty();
        if running.lost {
            // Its members have had their verdicts. The report only frees their buffers.
            for id in &running.members {
                self.life.unlock(id.buffer, &self.tables);
            }
            return None;
        }
        // An action that never began took no time from the operating system. Nor does best-effort work, which
        // runs at ordinary priority (docs/decisions/0003).
        if ended.ran && running.kind != Kind::BestEffort {
            self.partitions.count_busy(index, running.ordered, self.now);
        }
        Some((index, running))
    }

    /// Fails the members of an action: whatever the device wrote cannot be trusted.
    fn fail(&mut self, running: &Running, actions: &mut Actions) {
        for id in &running.members {
            let index = self.life.partition_of(id.buffer, &self.tables);
            self.partitions[index].mark_dirty();
            if !self.is_open(*id) {
                continue;
            }
            self.life.end_promise(id.buffer, &self.tables);
            let request = self.life.requests.get(id.buffer);
            let verdict = request.failed(Failure::Device, self.now);
            self.life.finish(id.buffer, verdict, actions);
        }
    }

    /// Whether a member of an action that has ended has no verdict yet. Otherwise its buffer is free from now on.
    fn is_open(&mut self, id: RequestId) -> bool {
        let is_locked = self.life.is_locked(id);
        if is_locked {
            self.life.unlock(id.buffer, &self.tables);
        }
        !is_locked
    }

    /// One member's stage ended with an answer.
    fn advance(&mut self, buffer: u16, answer: Answer, actions: &mut Actions) {
        let request = self.life.requests.get(buffer);
        let exit = request.stage;
        let table = self.tables.task(request.task);
        let answers = self.tables.own(table, exit).answers;
        // One that comes too late does not replace an answer that its client has.
        let is_kept = answers && (request.delivered.is_none() || self.now <= request.due);
        let request = self.life.complete_stage(buffer, is_kept.then_some(answer));
        self.partitions[table.partition.index()].mark_dirty();
        let counts = exit.0 >= table.mandatory_exit.0;
        // From the mandatory exit on nothing is promised, and the work left is optional.
        if counts || request.gone {
            self.life.end_promise(buffer, &self.tables);
        }
        if request.gone {
            let verdict = Verdict::Failed(Failure::ClientGone);
            return self.life.finish(buffer, verdict, actions);
        }
        let last = table.is_last(exit);
        let sure = answers && answer.confidence >= table.threshold;
        let enough = sure || last || self.now >= request.leave_by;
        // A request of a demoted model goes no deeper: its stages take longer than the gate of optional work
        // assumes.
        if counts && (enough || request.demoted) {
            return self.life.answer(buffer, self.now, actions);
        }
        let mandatory = table.mandatory_exit;
        self.put_back(buffer, actions);
        let each_exit = self.tables.task(request.origin).answers == Answers::EachExit;
        if each_exit && request.holds_answer_from(mandatory) {
            let room = self.undelivered.push(self.life.requests.id(buffer));
            debug_assert!(room.is_ok(), "a stage has at most BATCH_MAX members");
        }
    }

    /// Sends the answers of this step whose requests are still open: a deeper one may come.
    pub(super) fn deliver(&mut self, actions: &mut Actions) {
        while let Some(id) = self.undelivered.pop() {
            self.life.deliver(id, self.now, actions);
        }
    }
}
