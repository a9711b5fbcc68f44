//! The state of each request between its arrival and its verdict.
//!
//! A request, the queue that holds it, the counters of its task and the weights that it relies on
//! change together. So only this module changes them. A function that changes one of them alone is
//! visible in this folder only; the rest of the policy reads.

pub mod ledger;
pub mod queues;
pub mod requests;
pub mod service;
pub mod weights;

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

use crate::action::{Action, Rejection, Verdict};
use crate::actions::Actions;
use crate::config::{Config, Criticality};
use crate::event::Answer;
use crate::ids::{BATCH_MAX, RequestId, StageId, TaskId};
use crate::punctual::lifecycle::ledger::{Ledger, Note};
use crate::punctual::lifecycle::queues::{BestEffortJob, Job, MandatoryJob, Queues};
use crate::punctual::lifecycle::requests::{Request, Requests, State, Submission};
use crate::punctual::lifecycle::service::Service;
use crate::punctual::lifecycle::weights::{Awaiting, Weights};
use crate::punctual::reservations::Allowance;
use crate::punctual::tables::{Tables, TaskTable};
use crate::time::{Instant, Nanos};

/// What is promised to a request that passed its test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// For a conforming request: which ones its task may have after it.
    /// `None`: the request is an extra, and the reservation stays as it is.
    pub after: Option<Allowance>,
    /// The promises that the request joins; empty if it fits alone.
    pub joins: Joins,
}

/// Promises, by [`MandatoryJob::promise`], that a new request shares its first batch with.
pub type Joins = heapless::Vec<u64, BATCH_MAX>;

/// All requests.
///
/// Promises: each open request is in exactly the queue or list that its state names, on its task's partition.
/// Each request gets one verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lifecycle {
    pub requests: Requests,
    pub ledger: Ledger,
    /// By partition.
    pub queues: Box<[Queues]>,
    pub weights: Weights,
    pub service: Service,
}

impl Lifecycle {
    /// Whether its lists have the room of another's.
    pub fn fits(&self, other: &Self) -> bool {
        let mut queues = self.queues.iter().zip(&other.queues);
        self.requests.fits(&other.requests)
            && self.ledger.fits(&other.ledger)
            && self.queues.len() == other.queues.len()
            && queues.all(|(own, other)| own.fits(other))
            && self.weights.fits(&other.weights)
            && self.service.fits(&other.service)
    }

    pub fn new(config: &Config, tables: &Tables) -> Self {
        let reserved_buffers = tables
            .tasks()
            .iter()
            .map(|t| usize::from(t.reserved_buffers))
            .sum();
        // All open requests may be at one partition, so each queue has room for all of them.
        let queues = Queues::new(usize::from(config.request_buffers));
        Self {
            requests: Requests::new(config.request_buffers, reserved_buffers),
            ledger: Ledger::new(config.tasks.len()),
            queues: alloc::vec![queues; config.partitions.len()].into(),
            weights: Weights::new(config),
            service: Service::new(config.tasks.len(), config.partitions.len()),
        }
    }

    /// Gives a submission a buffer, to which the intake then writes the prepared input.
    ///
    /// # Panics
    /// If no buffer of the kind that `new` asks for is free.
    pub fn admit(&mut self, new: Submission) -> RequestId {
        self.ledger
            .enter(new.origin, new.task, new.holds_reserved_buffer);
        self.requests.take(new)
    }

    /// Promises a request its deadline. From now on its model's weights may not be evicted, so that no
    /// promise waits for a transfer (docs/proof.md, "Paged weights").
    pub fn promise(&mut self, buffer: u16, grant: &Grant, tables: &Tables) {
        let request = self.rely_on_weights(buffer, tables);
        debug_assert_eq!(
            request.stage,
            StageId(0),
            "a promise covers all mandatory work, so it is made before the first stage"
        );
        self.requests.transition(buffer, State::Mandatory);
        if grant.after.is_some() {
            self.ledger.note(request.origin, Note::Conforming);
        }
        let table = tables.task(request.task);
        let queues = &mut self.queues[table.partition.index()];
        queues.add_mandatory(MandatoryJob {
            job: Job::of(buffer, &request, tables),
            work: table.work(),
            rest: table.work_from(StageId(1)),
            running: false,
            promise: request.order,
            joint: false,
            extra: grant.after.is_none(),
            late: false,
        });
        if !grant.joins.is_empty() {
            queues.join(request.order, &grant.joins, tables);
        }
    }

    /// Gives a newer request the promise at a position of its partition's queue. Returns the buffer of
    /// the older request, which no queue holds afterwards; the caller ends it.
    pub fn replace(&mut self, at: usize, buffer: u16, conforms: bool, tables: &Tables) -> u16 {
        let request = self.rely_on_weights(buffer, tables);
        let queues = &mut self.queues[tables.task(request.task).partition.index()];
        let (older, extra) = queues.replace(at, &request, buffer, conforms);
        self.requests.transition(buffer, State::Mandatory);
        if !extra {
            self.ledger.note(request.origin, Note::Conforming);
        }
        older
    }

    /// Puts a request on the list of those that wait for a transfer of their model's weights.
    pub fn await_weights(&mut self, buffer: u16, tables: &Tables) {
        let request = *self.requests.get(buffer);
        let table = tables.task(request.task);
        let stages = tables.rows_of(table).iter();
        self.requests.transition(buffer, State::AwaitingWeights);
        self.weights.insert(Awaiting {
            due: request.due,
            order: request.order,
            buffer,
            model: table.model,
            work: table.work(),
            demand: stages.fold(Nanos::ZERO, |sum, row| sum + row.cost_alone()),
        });
    }

    /// Puts a new request without a promise in the best-effort queue, at the position of a request that
    /// arrived at `order`. A newer frame takes the position of the frame that it replaces this way. `demoted`: a model
    /// that it runs is, as always for a real-time request.
    pub fn queue_as_best_effort(
        &mut self,
        buffer: u16,
        order: u64,
        demoted: bool,
        tables: &Tables,
    ) {
        let request = self.rely_on_weights(buffer, tables);
        debug_assert!(
            demoted || !tables.task(request.task).is_real_time(),
            "a real-time request gets a promise unless its model is demoted"
        );
        if demoted {
            self.requests.mark_demoted(buffer);
        }
        self.queue_best_effort(buffer, order, tables);
    }

    /// Withdraws a request's promise. A waiting request moves to the best-effort queue now, or is marked there; a member
    /// of an action moves when its stage has ended ([`Self::put_back`]), as a real-time stage runs to its end.
    pub fn demote(&mut self, buffer: u16, tables: &Tables) {
        self.requests.mark_demoted(buffer);
        let state = self.requests.get(buffer).state;
        if matches!(state, State::Mandatory | State::BestEffort) {
            self.withdraw(buffer, tables);
            self.queue_best_effort(buffer, self.requests.get(buffer).order, tables);
        }
    }

    /// Makes requests members of an action. With a `cohort`, they share later batches only with
    /// requests of the same cohort.
    pub fn begin(&mut self, members: &[u16], cohort: Option<u64>, tables: &Tables) {
        for &buffer in members {
            let from = self.requests.begin(buffer, cohort);
            let index = self.partition_of(buffer, tables);
            self.queues[index].begin(buffer, from, tables);
        }
    }

    /// Records that a member's stage has ended, with its answer if the stage ends in an exit.
    pub fn complete_stage(&mut self, buffer: u16, answer: Option<Answer>) -> Request {
        *self.requests.complete_stage(buffer, answer)
    }

    /// Queues a request that ran until now for its next stage.
    pub fn put_back(&mut self, buffer: u16, tables: &Tables) {
        let request = *self.requests.get(buffer);
        let table = tables.task(request.task);
        let index = table.partition.index();
        if request.demoted {
            // The model was demoted while this request ran: its promise stayed in the queue until now.
            self.queues[index].remove_promise(buffer, tables);
            self.queue_best_effort(buffer, request.order, tables);
        } else if table.criticality == Criticality::BestEffort {
            // With its old order: a preempted request is still the oldest of its task.
            self.queue_best_effort(buffer, request.order, tables);
        } else if request.stage.0 > table.mandatory_exit.0 {
            self.requests.transition(buffer, State::Optional);
            self.queues[index].add_optional(&request, buffer, table, tables);
        } else {
            self.requests.transition(buffer, State::Mandatory);
            self.queues[index].put_back(&request, buffer, table, tables);
        }
    }

    /// Removes a request from the queue or list that it waits in, if it waits. Returns its partition.
    pub fn withdraw(&mut self, buffer: u16, tables: &Tables) -> usize {
        let index = self.partition_of(buffer, tables);
        let state = self.requests.get(buffer).state;
        self.queues[index].remove(buffer, state, tables);
        if state == State::AwaitingWeights {
            self.weights.remove(buffer);
        }
        index
    }

    /// Removes a request's promise, if it has one. A member of an action keeps its state.
    pub fn end_promise(&mut self, buffer: u16, tables: &Tables) {
        let index = self.partition_of(buffer, tables);
        self.queues[index].remove_promise(buffer, tables);
    }

    /// Gives a request its verdict and frees its buffer. No queue may hold the request any longer.
    pub fn finish(&mut self, buffer: u16, verdict: Verdict, actions: &mut Actions) {
        let id = self.requests.id(buffer);
        debug_assert!(
            self.queues.iter().all(|queues| !queues.holds(buffer)),
            "{id:?} gets its verdict while a queue holds it"
        );
        let request = self.release(buffer);
        self.ledger.finish(id, &request, verdict, actions);
    }

    /// Sends the answer that a request holds, if it is still open and its client does not have it.
    pub fn deliver(&mut self, id: RequestId, now: Instant, actions: &mut Actions) {
        let Some(request) = self.requests.find(id) else {
            return;
        };
        if !request.state.is_open() || request.gone || request.delivered.is_some() {
            return;
        }
        actions.push(Action::Deliver(request.reply(id, request.verdict_at(now))));
        self.requests.mark_delivered(id.buffer, now);
    }

    /// Finishes a request with the deepest answer that it holds.
    pub fn answer(&mut self, buffer: u16, now: Instant, actions: &mut Actions) {
        let verdict = self.requests.get(buffer).verdict_at(now);
        self.finish(buffer, verdict, actions);
    }

    /// Gives a member of an action its verdict while the action goes on. Its buffer and its model's weights stay
    /// locked, because the action may still write to the one and read the other.
    pub fn finish_running(
        &mut self,
        id: RequestId,
        verdict: Verdict,
        tables: &Tables,
        actions: &mut Actions,
    ) {
        self.end_promise(id.buffer, tables);
        let request = self.requests.lock(id.buffer);
        self.weights.lock(tables.task(request.task).model);
        self.ledger.finish(id, &request, verdict, actions);
    }

    /// Whether a member of an action has had its verdict while the action went on.
    pub fn is_locked(&self, id: RequestId) -> bool {
        self.requests.get(id.buffer).state == State::Locked
    }

    /// Frees a locked member's buffer and its model's weights, now that the device has reported its action.
    pub fn unlock(&mut self, buffer: u16, tables: &Tables) {
        let model = tables.task(self.requests.get(buffer).task).model;
        self.weights.unlock(model);
        self.release(buffer);
    }

    /// Whether no shared buffer or queue place is left for a request of `task`.
    pub fn is_full(&self, task: TaskId, table: &TaskTable) -> bool {
        debug_assert!(
            table.queue_max >= table.reserved_buffers,
            "validate::check: a queue holds its task's conforming requests"
        );
        let places = u64::from(table.queue_max - table.reserved_buffers);
        self.ledger.shared_held(task) >= places || !self.requests.has_shared_buffer()
    }

    /// The request of `task` that holds an answer, waits for a deeper one, and gains least by it.
    /// A request in a reserved buffer does not count: its end would free no shared buffer.
    pub fn least_gaining(&self, task: TaskId, index: usize) -> Option<u16> {
        let candidates = self.queues[index].optional().iter().filter(|job| {
            let request = self.requests.get(job.buffer);
            request.task == task && !request.holds_reserved_buffer
        });
        let least = candidates.min_by_key(|job| (job.gain, job.due));
        least.map(|job| job.buffer)
    }

    /// Mandatory work of the requests whose inputs are being prepared for a partition. Requests in
    /// reserved buffers do not count, as F already has their work.
    pub fn work_in_preparation(&self, index: usize, tables: &Tables) -> Nanos {
        let here = |request: &&Request| {
            request.state == State::Preparing
                && !request.holds_reserved_buffer
                && tables.task(request.task).partition.index() == index
        };
        let requests = (0..self.requests.buffers()).map(|buffer| self.requests.get(buffer));
        let work = requests
            .filter(here)
            .map(|request| tables.task(request.task).work());
        work.fold(Nanos::ZERO, |sum, work| sum + work)
    }

    /// Rejects the older frames of an accepted request's client that no stage has begun, if its task
    /// delivers the latest frame only.
    pub fn supersede(&mut self, newer: &Request, tables: &Tables, actions: &mut Actions) {
        if !tables.task(newer.origin).latest {
            return;
        }
        for buffer in 0..self.requests.buffers() {
            let older = self.requests.get(buffer);
            if !older.is_superseded_by(newer, tables) {
                continue;
            }
            match older.state {
                // The intake still writes to the buffer, so it stays taken until `Event::Prepared`.
                State::Preparing => self.requests.mark_superseded(buffer),
                State::Mandatory | State::BestEffort | State::AwaitingWeights => {
                    self.withdraw(buffer, tables);
                    self.finish(buffer, Verdict::Rejected(Rejection::Superseded), actions);
                }
                // A stage of a running one has begun, an optional one has its answer, and the rest are
                // not open.
                State::Free | State::Optional | State::Running | State::Locked => {}
            }
        }
    }

    /// Charges the tasks of a best-effort batch for its time, in equal parts. A preempted stage counts,
    /// too: the gap was used.
    pub fn charge(&mut self, members: &[RequestId], took: Nanos) {
        let share = took.as_nanos() / members.len().max(1) as u64;
        for id in members {
            let task = self.requests.get(id.buffer).task;
            self.service.charge(task, share);
        }
    }

    /// Counts an event for each member of an action, at the task that the member was submitted to.
    pub fn note_all(&mut self, members: &[RequestId], note: Note) {
        for id in members {
            let origin = self.requests.get(id.buffer).origin;
            self.ledger.note(origin, note);
        }
    }

    /// The partition of a request's task.
    pub fn partition_of(&self, buffer: u16, tables: &Tables) -> usize {
        let task = self.requests.get(buffer).task;
        tables.task(task).partition.index()
    }

    /// Whether a request holds an answer of its task's mandatory exit or a deeper one.
    pub fn has_mandatory_answer(&self, buffer: u16, tables: &Tables) -> bool {
        let request = self.requests.get(buffer);
        request.holds_answer_from(tables.task(request.task).mandatory_exit)
    }

    fn release(&mut self, buffer: u16) -> Request {
        let request = self.requests.release(buffer);
        self.ledger.release(&request);
        if let Some(model) = request.relies_on {
            self.weights.released(model);
        }
        request
    }

    fn rely_on_weights(&mut self, buffer: u16, tables: &Tables) -> Request {
        let model = tables.task(self.requests.get(buffer).task).model;
        self.weights.used(model);
        *self.requests.rely_on(buffer, model)
    }

    fn queue_best_effort(&mut self, buffer: u16, order: u64, tables: &Tables) {
        let request = *self.requests.get(buffer);
        let table = tables.task(request.task);
        let index = table.partition.index();
        let queues = &mut self.queues[index];
        // The task's first waiting request: it may not claim the time in which none waited.
        if !queues.best_effort().iter().any(|w| w.task == request.task) {
            self.service.wake(request.task, index);
        }
        self.requests.transition(buffer, State::BestEffort);
        let job = Job::of(buffer, &request, tables);
        let holds = request.holds_answer_from(table.mandatory_exit);
        let due = if holds { request.leave_by } else { job.due };
        queues.add_best_effort(BestEffortJob {
            job: Job { order, due, ..job },
            demoted: request.demoted,
        });
    }

    /// Recounts everything, in the order in which a wrong count would explain the next.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self, tables: &Tables) -> Result<(), &'static str> {
        self.requests.check()?;
        self.ledger.check(&self.requests)?;
        for (index, queues) in self.queues.iter().enumerate() {
            queues.check(index, &self.requests, tables)?;
        }
        self.weights.check(&self.requests)
    }
}
