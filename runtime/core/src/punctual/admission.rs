//! Taking submissions in: a cheap refusal when they arrive, the promise when their input is prepared.

use crate::action::{Action, Failure, Rejection, Verdict};
use crate::actions::Actions;
use crate::event::Arrival;
use crate::ids::{BATCH_MAX, RequestId, StageId, TaskId};
use crate::punctual::Punctual;
use crate::punctual::joint::Applicant;
use crate::punctual::ledger::Note;
use crate::punctual::queues::{Pending, Waiting};
use crate::punctual::requests::{Request, State, Submission};
use crate::punctual::share::Voluntary;
use crate::time::Instant;

/// What is promised to a request that passed its test.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    /// It is the request that its task's reservation was made for: from when on the next one may
    /// come. `None`: beyond the reservation; it fits nevertheless.
    next: Option<Instant>,
    fit: Fit,
}

/// In what company a request fits: the promises that it joins, none if it fits alone.
type Fit = heapless::Vec<u64, BATCH_MAX>;

impl Punctual {
    /// A client submitted a frame: refuse it, or give it a buffer and have it prepared.
    pub(crate) fn arrived(&mut self, arrival: &Arrival, actions: &mut Actions) {
        let arrival = Arrival {
            captured: arrival.captured.min(self.now),
            ..*arrival
        };
        let own = self.tables.task(arrival.task).deadline;
        let own = own.map_or(Instant::FAR_FUTURE, |d| arrival.captured + d);
        let deadline = arrival.deadline.map_or(own, |d| d.min(own));
        let due = self.tables.due(deadline);
        self.ledger.submitted(arrival.task);
        self.load.arrived(arrival.task);
        let (task, holds_kept) = match self.taker(&arrival, due) {
            Err(reason) => return self.ledger.refuse(&arrival, deadline, reason, actions),
            Ok(taker) => taker,
        };
        if !holds_kept && self.is_full(task) {
            self.make_room(task, actions);
        }
        self.ledger.enter(arrival.task, task, holds_kept);
        let request = self.requests.take(Submission {
            task,
            origin: arrival.task,
            ticket: arrival.ticket,
            captured: arrival.captured,
            deadline,
            due,
            holds_kept,
        });
        actions.push(Action::Prepare {
            request,
            task,
            ticket: arrival.ticket,
        });
    }

    /// Why `task` refuses a submission, its own or one spilled to it; if it does not, whether that
    /// gets one of the buffers kept for the task.
    pub(crate) fn refusal(
        &mut self,
        task: TaskId,
        arrival: &Arrival,
        due: Instant,
    ) -> Result<bool, Rejection> {
        if self.draining() {
            return Err(Rejection::Draining);
        }
        if self.sheds(task) {
            return Err(Rejection::Shedding);
        }
        if self.waits_in_vain(task) {
            return Err(Rejection::NoSlack);
        }
        let table = self.tables.task(task);
        let (work, index) = (table.work(), table.partition.index());
        if self.now + table.prepare + work > due {
            return Err(Rejection::LateOnArrival);
        }
        if self.paging.residency.ready_at(table.model, self.now) + work > due {
            return Err(Rejection::NoSlack);
        }
        let captured = arrival.captured;
        if self.ledger.kept_held(task) < table.kept
            && self
                .reservations
                .keep_buffer(task, table, captured, self.now)
        {
            return Ok(true);
        }
        if self.is_full(task) && self.least_gaining(task).is_none() {
            return Err(Rejection::QueueFull);
        }
        let reserved =
            table.guaranteed && self.reservations.in_rhythm(task, table, captured, self.now);
        if self.promises_to(task) && !reserved && !self.finds_place(task, arrival, due) {
            // Hopeless even if the running action ended now: spare the intake the work. Whether
            // it really fits is decided when it is prepared.
            let applicant = self.applicant(task, due);
            if self.partitions[index].share_is_spent(Voluntary::Extras, self.now)
                || self.fits(index, &applicant, self.now).is_none()
            {
                return Err(Rejection::NoSlack);
            }
        }
        Ok(false)
    }

    /// Whether a request of `task` beyond the buffers kept for it finds none.
    fn is_full(&self, task: TaskId) -> bool {
        let table = self.tables.task(task);
        let places = u64::from(table.queue_max - table.kept);
        self.ledger.others_inside(task) >= places || !self.requests.has_spare()
    }

    /// The request of `task` that holds an answer, waits for a deeper one, and gains least by it;
    /// not one in a buffer kept for the task, whose end would make no room for others.
    fn least_gaining(&self, task: TaskId) -> Option<u16> {
        let partition = &self.partitions[self.tables.task(task).partition.index()];
        let waiting = partition.queues.parked().iter().filter(|parked| {
            let request = self.requests.get(parked.buffer);
            request.task == task && !request.holds_kept
        });
        let least = waiting.min_by_key(|parked| (parked.gain, parked.due));
        least.map(|parked| parked.buffer)
    }

    /// A first answer for the frame that comes is worth more than a deeper one for the frame that
    /// gains least by it, so that one gets the answer it has.
    fn make_room(&mut self, task: TaskId, actions: &mut Actions) {
        let Some(buffer) = self.least_gaining(task) else {
            return;
        };
        let index = self.withdraw(buffer);
        self.partitions[index].touch();
        self.answer(buffer, actions);
    }

    /// The intake is done with a request's input: promise its deadline, or reject it.
    pub(crate) fn prepared(&mut self, id: RequestId, ok: bool, actions: &mut Actions) {
        let Some(&request) = self.requests.find(id) else {
            return self.note_stale();
        };
        if request.state != State::Preparing {
            return self.note_stale();
        }
        let buffer = id.buffer;
        if request.gone {
            return self.conclude(buffer, Verdict::Failed(Failure::ClientGone), actions);
        }
        if !ok {
            return self.conclude(buffer, Verdict::Failed(Failure::Payload), actions);
        }
        let refusal = match request.superseded {
            true => Some(Rejection::Superseded),
            false => self.sheds(request.task).then_some(Rejection::Shedding),
        };
        if let Some(reason) = refusal {
            return self.conclude(buffer, Verdict::Rejected(reason), actions);
        }
        let index = self.tables.task(request.task).partition.index();
        self.partitions[index].touch();
        if request.task == request.origin {
            // What is spilled comes in no rhythm of the task that takes it on.
            self.rhythms[request.task.index()].ready(self.now);
        }
        let model = self.tables.task(request.task).model;
        if self.waits_in_vain(request.task) {
            return self.conclude(buffer, Verdict::Rejected(Rejection::NoSlack), actions);
        }
        if !self.paging.residency.is_resident(model) {
            return self.await_weights(&request, buffer, actions);
        }
        self.take_on(&request, buffer, actions);
    }

    /// A request's input and its model's weights are there: promise its deadline, or reject it;
    /// best-effort work is put in line.
    pub(crate) fn take_on(&mut self, request: &Request, buffer: u16, actions: &mut Actions) {
        let index = self.tables.task(request.task).partition.index();
        self.partitions[index].touch();
        if !self.promises_to(request.task) {
            return self.put_in_line(request, buffer, actions);
        }
        self.watch_overrun(index, actions);
        if self.take_place(request, buffer, actions) {
            return;
        }
        match self.judge(request, index) {
            Err(reason) => self.conclude(buffer, Verdict::Rejected(reason), actions),
            Ok(grant) => {
                self.rely_on_weights(buffer);
                self.promise(request, buffer, index, &grant);
                self.supersede(request, actions);
            }
        }
    }

    /// For work that is promised nothing.
    fn put_in_line(&mut self, request: &Request, buffer: u16, actions: &mut Actions) {
        self.rely_on_weights(buffer);
        // One that begins in this step or never may be gone at its end: nobody makes way to it.
        let can_wait = self.now + self.tables.task(request.task).work() < request.due;
        let in_line = match can_wait {
            true => self.in_place_of_older(request),
            false => *request,
        };
        if self.is_real_time(request.task) {
            self.enqueue_demoted(&in_line, buffer);
        } else {
            self.enqueue_best_effort(&in_line, buffer);
        }
        if can_wait {
            self.supersede(request, actions);
        }
    }

    /// The promise: every accepted request's mandatory part ends by its deadline. Reserves nothing.
    fn judge(&mut self, request: &Request, index: usize) -> Result<Grant, Rejection> {
        let table = self.tables.task(request.task);
        if self.now + table.work() > request.due {
            return Err(Rejection::LateOnArrival);
        }
        let (guaranteed, period) = (table.guaranteed, table.period);
        let stamp = request.captured.max(self.now - table.jitter);
        let next = self.reservations.next(request.task);
        let conforms = guaranteed && stamp >= next;
        let own_due = table.own_due().map(|d| stamp + d);
        // The next place in the rhythm is counted from this one, not from when it was ready: a frame
        // that came late takes nothing from those that come in time after it.
        let place = request.captured.max(next);
        if conforms && own_due.is_some_and(|own_due| request.due >= own_due) {
            // It asks for no more than was reserved: the offline test has decided.
            return Ok(Grant {
                next: Some(place + period),
                fit: Fit::new(),
            });
        }
        let mut applicant = self.applicant(request.task, request.due);
        let free = self.partitions.free_from(index, self.now);
        if !conforms
            && !self.partitions[index].share_is_spent(Voluntary::Extras, self.now)
            && let Some(fit) = self.fits(index, &applicant, free)
        {
            return Ok(Grant { next: None, fit });
        }
        // With a deadline earlier than was reserved for (the client's own wish, or late preparation),
        // or while its task pays for an overrun, it must fit beside what is still reserved after it.
        let place = if conforms { place } else { request.captured };
        if conforms || guaranteed && request.holds_kept {
            applicant.next = Some(place + period);
            if let Some(fit) = self.fits(index, &applicant, free) {
                let next = applicant.next;
                return Ok(Grant { next, fit });
            }
        }
        Err(Rejection::NoSlack)
    }

    /// Whether a request's work fits before its deadline without endangering a later one, pending
    /// or reserved. Earlier deadlines are not affected: EDF serves them first.
    /// If it does not alone, it may in a batch with others.
    pub(crate) fn fits(
        &mut self,
        index: usize,
        applicant: &Applicant,
        free: Instant,
    ) -> Option<Fit> {
        let work = self.tables.task(applicant.task).work();
        self.scan(index, free, Some((applicant, work)));
        if self.partitions[index].scan.least_from(applicant.due) >= 0 {
            return Some(Fit::new());
        }
        self.joins(index, applicant, free)
    }

    pub(crate) fn applicant(&self, task: TaskId, due: Instant) -> Applicant {
        let table = self.tables.task(task);
        let row = self.tables.row_of(table, StageId(0));
        Applicant::new(task, due, row, table.batch_max)
    }

    fn promise(&mut self, request: &Request, buffer: u16, index: usize, grant: &Grant) {
        self.requests.transition(buffer, State::Pending);
        if let Some(next) = grant.next {
            self.reservations.use_up(request.task, next);
            self.ledger.note(request.origin, Note::Conforming);
        }
        let table = self.tables.task(request.task);
        let entry = Pending {
            due: request.due,
            order: request.order,
            buffer,
            row: self.tables.row_of(table, StageId(0)),
            cohort: request.cohort,
            work: table.work(),
            rest: table.work_from(StageId(1)),
            running: false,
            promise: request.order,
            joint: false,
            extra: grant.next.is_none(),
            late: false,
            batch_max: table.batch_max,
        };
        let queues = &mut self.partitions[index].queues;
        queues.promise(entry);
        if !grant.fit.is_empty() {
            queues.join(request.order, &grant.fit, &self.tables);
        }
    }

    /// Puts a best-effort request that is between two stages in line for a gap.
    pub(crate) fn enqueue_best_effort(&mut self, request: &Request, buffer: u16) {
        let table = self.tables.task(request.task);
        let index = table.partition.index();
        let partition = &mut self.partitions[index];
        if !partition
            .queues
            .waiting()
            .iter()
            .any(|w| w.task == request.task)
        {
            self.service.wake(request.task, index);
        }
        self.requests.transition(buffer, State::Waiting);
        partition.queues.line_up(Waiting {
            order: request.order,
            buffer,
            task: request.task,
            row: self.tables.row_of(table, request.stage),
            cohort: request.cohort,
            due: request.due,
            batch_max: table.batch_max,
            demoted: request.demoted,
        });
    }

    /// Whether a task's frames are promised their deadlines at present.
    fn promises_to(&self, task: TaskId) -> bool {
        self.is_real_time(task) && !self.is_demoted(task)
    }
}
