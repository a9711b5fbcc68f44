//! Requests on their way in: they arrive, are prepared, wait for weights, and are promised their
//! deadlines or put in line.

use crate::action::{Action, Failure, Rejection, Verdict};
use crate::actions::Actions;
use crate::event::Arrival;
use crate::ids::RequestId;
use crate::punctual::Punctual;
use crate::punctual::admission::{Admission, Entry};
use crate::punctual::lifecycle::requests::{State, Submission};
use crate::time::Instant;

impl Punctual {
    /// A client submitted a frame: refuse it, or give it a buffer and have it prepared.
    pub(super) fn arrived(&mut self, arrival: &Arrival, actions: &mut Actions) {
        let arrival = Arrival {
            captured: arrival.captured.min(self.now),
            ..*arrival
        };
        let own = self.tables.task(arrival.task).deadline;
        let own = own.map_or(Instant::FAR_FUTURE, |d| arrival.captured + d);
        let deadline = arrival.deadline.map_or(own, |d| d.min(own));
        let due = self.tables.due(deadline);
        self.life.ledger.submitted(arrival.task);
        self.load.arrived(arrival.task);
        let (task, entry) = match self.taker(&arrival, due) {
            Err(reason) => {
                let ledger = &mut self.life.ledger;
                return ledger.refuse(&arrival, deadline, reason, actions);
            }
            Ok(taker) => taker,
        };
        let table = self.tables.task(task);
        let index = table.partition.index();
        if entry == Entry::Shared
            && self.life.is_full(task, table)
            && let Some(buffer) = self.life.least_gaining(task, index)
        {
            // A first answer for the frame that comes is worth more than a deeper one for the frame
            // that gains least by it, so that one gets the answer it has.
            self.life.withdraw(buffer, &self.tables);
            self.partitions[index].touch();
            self.life.answer(buffer, self.now, actions);
        }
        let request = self.life.admit(Submission {
            task,
            origin: arrival.task,
            ticket: arrival.ticket,
            captured: arrival.captured,
            deadline,
            due,
            holds_reserved_buffer: entry == Entry::Reserved,
        });
        actions.push(Action::Prepare {
            request,
            task,
            ticket: arrival.ticket,
        });
    }

    /// The intake is done with a request's input: promise its deadline, or reject it.
    pub(super) fn prepared(&mut self, id: RequestId, ok: bool, actions: &mut Actions) {
        let request = self.life.requests.find(id);
        let Some(&request) = request.filter(|r| r.state == State::Preparing) else {
            self.stale_events += 1;
            return;
        };
        let buffer = id.buffer;
        let table = self.tables.task(request.task);
        let index = table.partition.index();
        let ended = match () {
            () if request.gone => Some(Verdict::Failed(Failure::ClientGone)),
            () if !ok => Some(Verdict::Failed(Failure::Payload)),
            () if request.superseded => Some(Verdict::Rejected(Rejection::Superseded)),
            () if self.view(index).sheds(request.task) => {
                Some(Verdict::Rejected(Rejection::Shedding))
            }
            () => None,
        };
        if let Some(verdict) = ended {
            return self.life.finish(buffer, verdict, actions);
        }
        self.partitions[index].touch();
        if request.task == request.origin {
            // What is offloaded comes in no rhythm of the task that takes it on.
            self.arrivals[request.task.index()].ready(self.now);
        }
        let residency = self.life.weights.residency();
        if residency.is_resident(table.model) && !self.view(index).is_unserviceable(request.task) {
            return self.take_on(buffer, actions);
        }
        let ready = residency.ready_at(table.model, self.now);
        if self.view(index).is_unserviceable(request.task) || ready + table.work() > request.due {
            let verdict = Verdict::Rejected(Rejection::NoSlack);
            return self.life.finish(buffer, verdict, actions);
        }
        self.life.await_weights(buffer, &self.tables);
    }

    /// A request's input and its model's weights are there: promise its deadline, or reject it;
    /// what is promised nothing is put in line.
    pub(super) fn take_on(&mut self, buffer: u16, actions: &mut Actions) {
        let request = *self.life.requests.get(buffer);
        let index = self.tables.task(request.task).partition.index();
        self.partitions[index].touch();
        if !self.view(index).promises_to(request.task) {
            return self.put_in_line(buffer, actions);
        }
        self.watch_overrun(index, actions);
        if let Some(place) = self.view(index).place_for(&request) {
            let tables = &self.tables;
            let older = self
                .life
                .take_place(place.at, buffer, place.conforms, tables);
            let verdict = Verdict::Rejected(Rejection::Superseded);
            self.life.finish(older, verdict, actions);
            return self.life.supersede(&request, &self.tables, actions);
        }
        match Admission::of(self.look(index)).judge(&request) {
            Err(reason) => self.life.finish(buffer, Verdict::Rejected(reason), actions),
            Ok(grant) => {
                if let Some(next) = grant.next {
                    self.reservations.use_up(request.task, next);
                }
                self.life.promise(buffer, &grant, &self.tables);
                self.life.supersede(&request, &self.tables, actions);
            }
        }
    }

    fn put_in_line(&mut self, buffer: u16, actions: &mut Actions) {
        let request = *self.life.requests.get(buffer);
        let table = self.tables.task(request.task);
        // One that begins in this step or never may be gone at its end: nobody makes way to it.
        let can_wait = self.now + table.work() < request.due;
        let order = match can_wait {
            true => self.view(table.partition.index()).place_in_line(&request),
            false => request.order,
        };
        self.life.line_up(buffer, order, &self.tables);
        if can_wait {
            self.life.supersede(&request, &self.tables, actions);
        }
    }
}
