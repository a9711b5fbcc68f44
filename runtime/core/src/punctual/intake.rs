//! The first steps of a request. It arrives, is prepared, and may wait for weights. Then the policy
//! promises its deadline, rejects it, or adds it to the best-effort queue.

use crate::action::{Action, Failure, Rejection, Verdict};
use crate::actions::Actions;
use crate::event::Arrival;
use crate::ids::{RequestId, TaskId};
use crate::punctual::Punctual;
use crate::punctual::admission::Entry;
use crate::punctual::lifecycle::requests::{State, Submission};
use crate::time::Instant;

impl Punctual {
    /// A client submitted a frame. The policy rejects it at once, or gives it a buffer and orders its
    /// preparation.
    pub(super) fn arrived(&mut self, arrival: &Arrival, actions: &mut Actions) {
        // A capture time is a claim of the client. One in the future would give a later deadline and a
        // later place in the period (docs/proof.md, assumption 4).
        let arrival = Arrival {
            captured: arrival.captured.min(self.now),
            ..*arrival
        };
        let own = self.tables.task(arrival.task).deadline;
        let own = own.map_or(Instant::FAR_FUTURE, |d| arrival.captured + d);
        // A client may shorten its deadline and never lengthen it: the plan sized the task's queue and
        // its buffers by D.
        let deadline = arrival.deadline.map_or(own, |d| d.min(own));
        let due = self.tables.due(deadline);
        self.life.ledger.submitted(arrival.task);
        // Rejected frames count, too: the load is the demand, not what the policy accepts.
        self.load.arrived(arrival.task);
        let (task, entry) = match self.assign(&arrival, due) {
            Err(reason) => {
                if reason == Rejection::NoSlack {
                    self.count_rejected_by_lending(arrival.task);
                }
                let ledger = &mut self.life.ledger;
                return ledger.refuse(&arrival, deadline, reason, actions);
            }
            Ok(assigned) => assigned,
        };
        let table = self.tables.task(task);
        let index = table.partition.index();
        if entry == Entry::Shared
            && self.life.is_full(task, table)
            && let Some(buffer) = self.life.least_gaining(task, index)
        {
            // A first answer for the new frame is worth more than a deeper one for the request that gains
            // least by it. So that request gets its present answer (docs/decisions/0006).
            self.life.withdraw(buffer, &self.tables);
            self.partitions[index].mark_dirty();
            self.life.answer(buffer, self.now, actions);
        }
        let request = self.life.admit(Submission {
            task,
            origin: arrival.task,
            ticket: arrival.ticket,
            captured: arrival.captured,
            deadline,
            due,
            leave_by: self.tables.leave_by(deadline, arrival.egress),
            holds_reserved_buffer: entry == Entry::Reserved,
        });
        actions.push(Action::Prepare {
            request,
            task,
            ticket: arrival.ticket,
        });
    }

    /// The rest of a task's reservation in this period is free for others.
    pub(super) fn announced(&mut self, task: TaskId, captured: Instant, requests: u8) {
        let table = self.tables.task(task);
        self.partitions[table.partition.index()].mark_dirty();
        let captured = captured.min(self.now);
        self.reservations
            .announce(task, table, captured, requests, self.now);
    }

    /// The intake reports the end of a preparation. The analysis calls this instant the release
    /// (docs/decisions/0004): only now can the request run.
    pub(super) fn prepared(
        &mut self,
        id: RequestId,
        ready: Result<(), Failure>,
        actions: &mut Actions,
    ) {
        let request = self.life.requests.find(id);
        let Some(&request) = request.filter(|r| r.state == State::Preparing) else {
            self.stale_events += 1;
            return;
        };
        let buffer = id.buffer;
        let table = self.tables.task(request.task);
        let index = table.partition.index();
        // The client may have gone, or a newer frame may have come, while the intake still wrote to the
        // buffer. Only now can it be freed.
        let verdict = match ready {
            _ if request.gone => Some(Verdict::Failed(Failure::ClientGone)),
            Err(reason) => Some(Verdict::Failed(reason)),
            Ok(()) if request.superseded => Some(Verdict::Rejected(Rejection::Superseded)),
            Ok(()) if self.view(index).sheds(request.task) => {
                Some(Verdict::Rejected(Rejection::Shedding))
            }
            Ok(()) if !table.is_ready() => Some(Verdict::Rejected(Rejection::NotReady)),
            Ok(()) => None,
        };
        if let Some(verdict) = verdict {
            return self.life.finish(buffer, verdict, actions);
        }
        self.partitions[index].mark_dirty();
        if request.task == request.origin {
            // Offloaded frames do not come at the period of the task that serves them, so they would
            // spoil its prediction.
            self.arrivals[request.task.index()].ready(self.now);
        }
        let residency = self.life.weights.residency();
        let unserviceable = self.view(index).is_unserviceable(request.task);
        if residency.is_resident(table.model) && !unserviceable {
            return self.enqueue(buffer, actions);
        }
        // Without its weights the request gets no promise, so that promises never depend on a transfer
        // (docs/proof.md, "Paged weights"). It waits only if the weights can come in time.
        let ready = residency.ready_at(table.model, self.now);
        if unserviceable || ready + table.work() > request.due {
            let verdict = Verdict::Rejected(Rejection::NoSlack);
            return self.life.finish(buffer, verdict, actions);
        }
        self.life.await_weights(buffer, &self.tables);
    }

    /// A request's input and its model's weights are ready. The policy promises its deadline or rejects
    /// it. A request that gets no promises enters the best-effort queue.
    pub(super) fn enqueue(&mut self, buffer: u16, actions: &mut Actions) {
        let request = *self.life.requests.get(buffer);
        debug_assert!(
            matches!(request.state, State::Preparing | State::AwaitingWeights),
            "a request is tested once, when it is ready"
        );
        let index = self.tables.task(request.task).partition.index();
        self.partitions[index].mark_dirty();
        if !self.view(index).promises_to(request.task) {
            return self.enqueue_best_effort(buffer, actions);
        }
        if let Some(older) = self.view(index).older_promise(&request) {
            let tables = &self.tables;
            let replaced = self.life.replace(older.at, buffer, older.conforms, tables);
            let verdict = Verdict::Rejected(Rejection::Superseded);
            self.life.finish(replaced, verdict, actions);
            return self.life.supersede(&request, &self.tables, actions);
        }
        match self.admission(index).test(&request) {
            Err(reason) => {
                self.count_rejected_by_lending(request.task);
                self.life.finish(buffer, Verdict::Rejected(reason), actions);
            }
            Ok(grant) => {
                if let Some(after) = grant.after {
                    self.reservations.use_reservation(request.task, after);
                }
                self.life.promise(buffer, &grant, &self.tables);
                // Only after the promise: an older frame stays unless a newer one is certain to run.
                self.life.supersede(&request, &self.tables, actions);
            }
        }
    }

    /// A frame found no slack: if its home lends, that counts as its loss.
    fn count_rejected_by_lending(&mut self, task: TaskId) {
        let table = self.tables.task(task);
        let home = table.partition.index();
        if self.partitions.is_lent(home) {
            let lender = self.partitions[home].lender_mut();
            lender.lost(table.work(), self.now);
        }
    }

    fn enqueue_best_effort(&mut self, buffer: u16, actions: &mut Actions) {
        let request = *self.life.requests.get(buffer);
        let table = self.tables.task(request.task);
        // A request that cannot wait starts in this step or never. If it never starts, it ends with this
        // step, so no older frame may end for it.
        let can_wait = self.now + table.work() < request.due;
        let order = if can_wait {
            self.view(table.partition.index())
                .best_effort_order(&request)
        } else {
            request.order
        };
        let demoted = self.partitions.is_demoted(request.task, &self.tables);
        self.life
            .queue_as_best_effort(buffer, order, demoted, &self.tables);
        if can_wait {
            self.life.supersede(&request, &self.tables, actions);
        }
    }
}
