//! Where each request is between its arrival and its verdict, and what became of it.
//!
//! A request, the queue that it waits in, the counters of its task and the weights that it relies on
//! change together. So they are changed here alone: what alters only one of them is visible to this
//! folder only, and all others read.

pub mod ledger;
pub mod queues;
pub mod requests;
pub mod service;
pub mod weights;

use alloc::boxed::Box;

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::bounded::List;
use crate::config::{Config, Criticality};
use crate::event::Answer;
use crate::ids::{BATCH_MAX, RequestId, StageId, TaskId};
use crate::punctual::lifecycle::ledger::{Ledger, Note};
use crate::punctual::lifecycle::queues::{BestEffortJob, MandatoryJob, Queues};
use crate::punctual::lifecycle::requests::{Request, Requests, State, Submission};
use crate::punctual::lifecycle::service::Service;
use crate::punctual::lifecycle::weights::{Awaiting, Weights};
use crate::punctual::tables::{Tables, TaskTable};
use crate::time::{Instant, Nanos};

/// What is promised to a request that passed its test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// It is the request that its task's reservation was made for: from when on the next one may
    /// come. `None`: beyond the reservation; it fits nevertheless.
    pub next: Option<Instant>,
    /// The promises that it joins; none if it fits alone.
    pub joins: Joins,
}

/// Promises, by name, that a request is promised its deadline with.
pub type Joins = heapless::Vec<u64, BATCH_MAX>;

/// All requests.
///
/// Promises: each open request is in exactly the place that its state says, in the queues of the
/// partition that its task has in the present layout; each gets one verdict.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    pub requests: Requests,
    pub ledger: Ledger,
    /// By partition.
    pub queues: Box<[Queues]>,
    pub weights: Weights,
    pub service: Service,
}

impl Lifecycle {
    pub fn new(config: &Config, tables: &Tables) -> Self {
        let reserved_buffers = tables
            .tasks()
            .iter()
            .map(|t| usize::from(t.reserved_buffers))
            .sum();
        // All open requests may be at one partition.
        let queues = Queues::new(usize::from(config.request_buffers));
        Self {
            requests: Requests::new(config.request_buffers, reserved_buffers),
            ledger: Ledger::new(config.tasks.len()),
            queues: alloc::vec![queues; config.partitions.len()].into(),
            weights: Weights::new(config),
            service: Service::new(config.tasks.len(), config.partitions.len()),
        }
    }

    /// Gives a submission a buffer, in which its input is prepared from now on.
    pub fn admit(&mut self, new: Submission) -> RequestId {
        self.ledger
            .enter(new.origin, new.task, new.holds_reserved_buffer);
        self.requests.take(new)
    }

    /// Promises a request its deadline. From now on it relies on its model's weights.
    pub fn promise(&mut self, buffer: u16, grant: &Grant, tables: &Tables) {
        let request = self.rely_on_weights(buffer, tables);
        self.requests.transition(buffer, State::Mandatory);
        if grant.next.is_some() {
            self.ledger.note(request.origin, Note::Conforming);
        }
        let table = tables.task(request.task);
        let queues = &mut self.queues[table.partition.index()];
        queues.add_mandatory(MandatoryJob {
            due: request.due,
            order: request.order,
            buffer,
            row: tables.row_of(table, StageId(0)),
            cohort: request.cohort,
            work: table.work(),
            rest: table.work_from(StageId(1)),
            running: false,
            promise: request.order,
            joint: false,
            extra: grant.next.is_none(),
            late: false,
            batch_max: table.batch_max,
        });
        if !grant.joins.is_empty() {
            queues.join(request.order, &grant.joins, tables);
        }
    }

    /// Gives a request the promise at a position of its partition's queue. The buffer of the request
    /// that had it, which is to be ended.
    pub fn take_place(&mut self, at: usize, buffer: u16, conforms: bool, tables: &Tables) -> u16 {
        let request = self.rely_on_weights(buffer, tables);
        let queues = &mut self.queues[tables.task(request.task).partition.index()];
        let (older, extra) = queues.hand_over(at, &request, buffer, conforms);
        self.requests.transition(buffer, State::Mandatory);
        if !extra {
            self.ledger.note(request.origin, Note::Conforming);
        }
        older
    }

    /// Makes a request wait for a transfer of its model's weights.
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

    /// Puts a new request that is promised nothing in line for a gap, as if it had arrived at `order`.
    pub fn line_up(&mut self, buffer: u16, order: u64, tables: &Tables) {
        let request = self.rely_on_weights(buffer, tables);
        if tables.task(request.task).is_real_time() {
            self.requests.mark_demoted(buffer);
        }
        self.wait_for_gap(buffer, order, tables);
    }

    /// Takes back what is promised to a request, and puts it in line for a gap: at once, or when its
    /// stage has ended.
    pub fn demote(&mut self, buffer: u16, tables: &Tables) {
        self.requests.mark_demoted(buffer);
        if self.requests.get(buffer).state == State::Mandatory {
            self.withdraw(buffer, tables);
            self.wait_for_gap(buffer, self.requests.get(buffer).order, tables);
        }
    }

    /// Makes requests members of an action. Whoever shares a batch with them later has to have been in
    /// the same `cohort`, if there is one.
    pub fn begin(&mut self, members: &[u16], cohort: Option<u64>, tables: &Tables) {
        for &buffer in members {
            let from = self.requests.begin(buffer, cohort);
            let index = self.partition_of(buffer, tables);
            self.queues[index].begin(buffer, from, tables);
        }
    }

    /// Ends a member's stage, with the answer that it gave, if it has an exit.
    pub fn deepen(&mut self, buffer: u16, answer: Option<Answer>) -> Request {
        *self.requests.deepen(buffer, answer)
    }

    /// Puts a request that ran, or waits on a partition that it leaves, in line for its next stage.
    pub fn put_back(&mut self, buffer: u16, tables: &Tables) {
        let request = *self.requests.get(buffer);
        let table = tables.task(request.task);
        let index = table.partition.index();
        if request.demoted {
            // What was promised before it was demoted, and was in an action then.
            self.queues[index].remove_promise(buffer, tables);
            self.wait_for_gap(buffer, request.order, tables);
        } else if table.criticality == Criticality::BestEffort {
            self.wait_for_gap(buffer, request.order, tables);
        } else if request.stage.0 > table.mandatory_exit.0 {
            self.requests.transition(buffer, State::Optional);
            self.queues[index].add_optional(&request, buffer, table, tables);
        } else {
            self.requests.transition(buffer, State::Mandatory);
            self.queues[index].put_back(&request, buffer, table, tables);
        }
    }

    /// Takes a request off the queue or list that it waits in, if it waits. Its partition.
    pub fn withdraw(&mut self, buffer: u16, tables: &Tables) -> usize {
        let index = self.partition_of(buffer, tables);
        let state = self.requests.get(buffer).state;
        self.queues[index].remove(buffer, state, tables);
        if state == State::AwaitingWeights {
            self.weights.remove(buffer);
        }
        index
    }

    /// Ends what is promised to a member of an action, if anything is.
    pub fn end_promise(&mut self, buffer: u16, tables: &Tables) {
        let index = self.partition_of(buffer, tables);
        self.queues[index].remove_promise(buffer, tables);
    }

    /// Gives a request that is in no queue its verdict, and frees its buffer.
    pub fn finish(&mut self, buffer: u16, verdict: Verdict, actions: &mut Actions) {
        let id = self.requests.id(buffer);
        let request = self.release(buffer);
        self.ledger.finish(id, &request, verdict, actions);
    }

    /// The same with the deepest answer that it has.
    pub fn answer(&mut self, buffer: u16, now: Instant, actions: &mut Actions) {
        let verdict = if now <= self.requests.get(buffer).due {
            Verdict::OnTime
        } else {
            Verdict::Late
        };
        self.finish(buffer, verdict, actions);
    }

    /// Gives a member of a lost action its verdict. Its buffer and its model's weights stay locked.
    pub fn lose(&mut self, id: RequestId, tables: &Tables, actions: &mut Actions) {
        self.end_promise(id.buffer, tables);
        let request = self.requests.lock(id.buffer);
        self.weights.lock(tables.task(request.task).model);
        let verdict = Verdict::Failed(request.device_failure());
        self.ledger.finish(id, &request, verdict, actions);
    }

    /// A lost action was reported after all: frees a member's buffer and its model's weights.
    pub fn unlock(&mut self, buffer: u16, tables: &Tables) {
        let model = tables.task(self.requests.get(buffer).task).model;
        self.weights.unlock(model);
        self.release(buffer);
    }

    /// A promise as another layout sees it.
    pub fn moved(&self, entry: &MandatoryJob, target: usize, tables: &Tables) -> MandatoryJob {
        let request = self.requests.get(entry.buffer);
        let table = &tables.tasks_in(target)[request.task.index()];
        let left_from = if entry.running {
            request.stage.next()
        } else {
            request.stage
        };
        MandatoryJob {
            row: tables.row_of(table, request.stage),
            work: table.work_from(left_from),
            rest: table.work_from(request.stage.next()),
            ..*entry
        }
    }

    /// Empties the queues of a partition whose tasks change: its promises are `moving`, as the layout
    /// `target` sees them, and who else waits there is put back in the new layout.
    pub fn leave(
        &mut self,
        index: usize,
        target: usize,
        tables: &Tables,
        moving: &mut List<MandatoryJob>,
    ) {
        while let Some(entry) = self.queues[index].pop_promise() {
            moving.push(self.moved(&entry, target, tables));
        }
        self.queues[index].clear_unpromised();
    }

    /// Puts promises that moved into the queues of the present layout.
    pub fn enter(&mut self, moving: &mut List<MandatoryJob>, tables: &Tables) {
        while let Some(entry) = moving.pop() {
            let index = self.partition_of(entry.buffer, tables);
            self.queues[index].add_mandatory(entry);
        }
    }

    /// Whether a request of `task` beyond the buffers kept for it finds none.
    pub fn is_full(&self, task: TaskId, table: &TaskTable) -> bool {
        let places = u64::from(table.queue_max - table.reserved_buffers);
        self.ledger.others_inside(task) >= places || !self.requests.has_spare()
    }

    /// The request of `task` that holds an answer, waits for a deeper one, and gains least by it;
    /// not one in a buffer kept for the task, whose end would make no room for others.
    pub fn least_gaining(&self, task: TaskId, index: usize) -> Option<u16> {
        let waiting = self.queues[index].optional().iter().filter(|parked| {
            let request = self.requests.get(parked.buffer);
            request.task == task && !request.holds_reserved_buffer
        });
        let least = waiting.min_by_key(|parked| (parked.gain, parked.due));
        least.map(|parked| parked.buffer)
    }

    /// Mandatory work of the requests whose inputs are being prepared for a partition, but for those
    /// that its reservations count.
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

    /// Ends all that is older than a request which was taken on, and has not begun, if its client wants
    /// the latest frame only.
    pub fn supersede(&mut self, newer: &Request, tables: &Tables, actions: &mut Actions) {
        if !tables.task(newer.origin).latest {
            return;
        }
        for buffer in 0..self.requests.buffers() {
            let older = self.requests.get(buffer);
            if !older.is_superseded_by(newer) {
                continue;
            }
            match older.state {
                State::Preparing => self.requests.mark_superseded(buffer),
                State::Mandatory | State::BestEffort | State::AwaitingWeights => {
                    self.withdraw(buffer, tables);
                    self.finish(buffer, Verdict::Rejected(Rejection::Superseded), actions);
                }
                State::Free | State::Optional | State::Running | State::Locked => {}
            }
        }
    }

    /// Charges the tasks of members for the time in which a gap was theirs, whether or not the stage
    /// came to its end.
    pub fn charge(&mut self, members: &[RequestId], took: Nanos) {
        let share = took.as_nanos() / members.len().max(1) as u64;
        for id in members {
            let task = self.requests.get(id.buffer).task;
            self.service.charge(task, share);
        }
    }

    /// Counts what happened to the members of an action, each for its task.
    pub fn note_all(&mut self, members: &[RequestId], note: Note) {
        for id in members {
            let origin = self.requests.get(id.buffer).origin;
            self.ledger.note(origin, note);
        }
    }

    /// The partition that a request's task has in the present layout.
    pub fn partition_of(&self, buffer: u16, tables: &Tables) -> usize {
        let task = self.requests.get(buffer).task;
        tables.task(task).partition.index()
    }

    /// Whether a request's answer is at least as deep as its task demands.
    pub fn has_mandatory_answer(&self, buffer: u16, tables: &Tables) -> bool {
        let request = self.requests.get(buffer);
        request.holds_answer_from(tables.task(request.task).mandatory_exit)
    }

    fn release(&mut self, buffer: u16) -> Request {
        let request = self.requests.release(buffer);
        self.ledger.let_go(&request);
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

    fn wait_for_gap(&mut self, buffer: u16, order: u64, tables: &Tables) {
        let request = *self.requests.get(buffer);
        let table = tables.task(request.task);
        let index = table.partition.index();
        let queues = &mut self.queues[index];
        if !queues.best_effort().iter().any(|w| w.task == request.task) {
            self.service.wake(request.task, index);
        }
        self.requests.transition(buffer, State::BestEffort);
        queues.add_best_effort(BestEffortJob {
            order,
            buffer,
            task: request.task,
            row: tables.row_of(table, request.stage),
            cohort: request.cohort,
            due: request.due,
            batch_max: table.batch_max,
            demoted: request.demoted,
        });
    }

    /// Recounts. What is wrong, if anything is.
    pub fn check(&self, tables: &Tables) -> Result<(), &'static str> {
        self.requests.check()?;
        self.ledger.check(&self.requests)?;
        for (index, queues) in self.queues.iter().enumerate() {
            queues.check(index, &self.requests, tables)?;
        }
        self.weights.check(&self.requests)
    }
}
