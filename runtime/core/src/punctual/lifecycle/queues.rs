//! The jobs that wait on a partition: mandatory, optional and best-effort. The cost of joint promises
//! is computed here, too, as it depends on which jobs wait.

use serde::{Deserialize, Serialize};

use core::ops::Deref;

use crate::bounded::List;
use crate::config::Answers;
use crate::ids::{Confidence, TaskId};
use crate::punctual::lifecycle::requests::{Request, Requests, State};
use crate::punctual::tables::{Row, Tables, TaskTable};
use crate::time::ns;
use crate::time::{Instant, Nanos};

/// A request that waits for its next stage: what the choice of batches reads of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Job {
    pub buffer: u16,
    pub task: TaskId,
    /// Order of arrival: jobs with equal deadlines run in this order.
    pub order: u64,
    /// `FAR_FUTURE` if it has no deadline.
    pub due: Instant,
    /// The next stage to run.
    pub row: Row,
    pub cohort: u64,
    pub batch_max: u8,
}

impl Job {
    pub fn of(buffer: u16, request: &Request, tables: &Tables) -> Self {
        let table = tables.task(request.task);
        Self {
            buffer,
            task: request.task,
            order: request.order,
            due: request.due,
            row: tables.row_of(table, request.stage),
            cohort: request.cohort,
            batch_max: table.batch_max,
        }
    }
}

/// Mandatory work of one request: its promise. It stays in the queue while a stage of it runs, with the work
/// that is left after that stage. Slack must count that work (W in docs/proof.md).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MandatoryJob {
    pub job: Job,
    /// Work left (w), each stage at batch 1, without the running stage: f covers that one. For a joint
    /// promise, the first member has the cost of the batch and the others nothing for that stage.
    pub work: Nanos,
    /// The part of the work that is left after the next stage, or after the running one.
    pub rest: Nanos,
    pub running: bool,
    /// Equal for the members of a joint promise, whose next stage runs in one batch; otherwise the
    /// request's own `order`.
    pub promise: u64,
    /// Whether the promise has other members.
    pub joint: bool,
    /// Accepted beyond the task's reservation.
    pub extra: bool,
    /// Scratch of the overrun handling: certain to be late, and no request can be dropped for it.
    pub late: bool,
}

impl MandatoryJob {
    /// Its part of W for its next stage, in nanoseconds. For a joint promise: the whole batch for the first
    /// member, 0 for the others.
    pub fn charge_of_stage(&self) -> i64 {
        ns(self.work) - ns(self.rest)
    }

    /// Whether a stage of it runs and promised work is left after that.
    pub fn has_running_rest(&self) -> bool {
        self.running && self.rest > Nanos::ZERO
    }
}

/// A real-time request that holds an answer that counts and may go deeper.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OptionalJob {
    pub job: Job,
    /// The confidence of the answer that it holds.
    pub confidence: Confidence,
    /// The task's weight times the gain of the next stage.
    pub gain: u64,
    /// Its task answers as soon as no deeper stage can start, instead of at the last moment.
    pub answer_early: bool,
}

/// A request without a promise that waits for its next stage.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct BestEffortJob {
    pub job: Job,
    /// It is of a real-time task whose model is demoted.
    pub demoted: bool,
}

macro_rules! reads_as_its_job {
    ($($kind:ty),*) => {$(
        impl Deref for $kind {
            type Target = Job;
            fn deref(&self) -> &Job {
                &self.job
            }
        }
    )*};
}

reads_as_its_job!(MandatoryJob, OptionalJob, BestEffortJob);

/// The three queues of a partition.
///
/// Promises:
/// - each queue is sorted by its order;
/// - the parts of W of a joint promise sum to the cost of the smallest batch that holds its members;
/// - a running job counts only its rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Queues {
    /// By (due, order): earliest deadline first.
    mandatory: List<MandatoryJob>,
    /// By (row, cohort, due): requests that can share a batch are a contiguous group. So one pass over the
    /// queue finds the best batch of each group.
    optional: List<OptionalJob>,
    /// By order of arrival.
    best_effort: List<BestEffortJob>,
}

impl Queues {
    /// Whether its queues have the room of another's.
    pub fn fits(&self, other: &Self) -> bool {
        self.mandatory.fits(&other.mandatory)
            && self.optional.fits(&other.optional)
            && self.best_effort.fits(&other.best_effort)
    }

    /// With room for `requests` in each queue, as all of them may be in one.
    pub fn new(requests: usize) -> Self {
        Self {
            mandatory: List::with_capacity(requests),
            optional: List::with_capacity(requests),
            best_effort: List::with_capacity(requests),
        }
    }

    pub fn mandatory(&self) -> &[MandatoryJob] {
        &self.mandatory
    }

    pub fn optional(&self) -> &[OptionalJob] {
        &self.optional
    }

    pub fn best_effort(&self) -> &[BestEffortJob] {
        &self.best_effort
    }

    /// The first job in EDF order that does not run yet.
    pub fn head(&self) -> Option<&MandatoryJob> {
        self.mandatory.iter().find(|p| !p.running)
    }

    /// Whether promised work is left that no running stage does.
    pub fn has_promised_work_left(&self) -> bool {
        let mut jobs = self.mandatory.iter();
        jobs.any(|job| !job.running || job.has_running_rest())
    }

    /// Whether a request beyond the reservations waits for its mandatory work. While one does, more
    /// work has come than was planned for, and mandatory stages run before optional ones (decision 6).
    pub fn has_waiting_extra(&self) -> bool {
        self.mandatory.iter().any(|p| p.extra && !p.running)
    }

    /// Whether the waiting job at a position is the first of its promise.
    pub fn is_first_of_promise(&self, at: usize) -> bool {
        let promise = self.mandatory[at].promise;
        let mut before = self.mandatory[..at].iter();
        !before.any(|job| job.promise == promise && !job.running)
    }

    /// Whether any queue holds a request.
    pub(super) fn holds(&self, buffer: u16) -> bool {
        self.mandatory.iter().any(|p| p.buffer == buffer)
            || self.optional.iter().any(|p| p.buffer == buffer)
            || self.best_effort.iter().any(|w| w.buffer == buffer)
    }

    pub(super) fn add_mandatory(&mut self, entry: MandatoryJob) {
        debug_assert!(
            entry.rest <= entry.work || entry.joint,
            "the rest of a promise is part of its work"
        );
        let key = (entry.due, entry.order);
        let at = self.mandatory.partition_point(|p| (p.due, p.order) < key);
        self.mandatory.insert(at, entry);
    }

    pub(super) fn add_optional(
        &mut self,
        request: &Request,
        buffer: u16,
        table: &TaskTable,
        tables: &Tables,
    ) {
        let own = tables.own(table, request.stage);
        let (_, answer) = request.answer.expect("an optional job holds an answer");
        let entry = OptionalJob {
            job: Job {
                due: request.leave_by,
                ..Job::of(buffer, request, tables)
            },
            confidence: answer.confidence,
            gain: own.gain_of(answer.confidence) * u64::from(table.weight),
            answer_early: table.answers == Answers::Early,
        };
        let key = (entry.row, entry.cohort, entry.due);
        let at = self
            .optional
            .partition_point(|p| (p.row, p.cohort, p.due) <= key);
        self.optional.insert(at, entry);
    }

    pub(super) fn add_best_effort(&mut self, entry: BestEffortJob) {
        let at = self.best_effort.partition_point(|w| w.order < entry.order);
        self.best_effort.insert(at, entry);
    }

    /// Removes a request from the queue that its state names, if that is one of these.
    pub(super) fn remove(&mut self, buffer: u16, state: State, tables: &Tables) {
        match state {
            State::Mandatory => self.remove_promise(buffer, tables),
            State::Optional => {
                if let Some(at) = self.optional.iter().position(|p| p.buffer == buffer) {
                    self.optional.remove(at);
                }
            }
            State::BestEffort => {
                if let Some(at) = self.best_effort.iter().position(|w| w.buffer == buffer) {
                    self.best_effort.remove(at);
                }
            }
            State::Free
            | State::Preparing
            | State::AwaitingWeights
            | State::Running
            | State::Locked => {}
        }
    }

    /// Removes a request's promise, if it has one, whether or not it runs. The other members of a joint
    /// promise are then charged for the batch that they still need.
    pub(super) fn remove_promise(&mut self, buffer: u16, tables: &Tables) {
        let Some(at) = self.mandatory.iter().position(|p| p.buffer == buffer) else {
            return;
        };
        let entry = self.mandatory.remove(at);
        if entry.joint {
            self.charge_joint(entry.promise, tables);
        }
    }

    /// Removes a member of an action from the queue where it waited. Mandatory work stays in the queue
    /// with its rest: f now covers the stage that runs.
    pub(super) fn begin(&mut self, buffer: u16, from: State, tables: &Tables) {
        if from != State::Mandatory {
            return self.remove(buffer, from, tables);
        }
        let entry = self.promise_of(buffer);
        entry.running = true;
        entry.work = entry.rest;
    }

    /// Lets a mandatory job wait again: for its next stage, or for the same one if that did not run.
    pub(super) fn put_back(
        &mut self,
        request: &Request,
        buffer: u16,
        table: &TaskTable,
        tables: &Tables,
    ) {
        let row = tables.row_of(table, request.stage);
        let entry = self.promise_of(buffer);
        debug_assert!(entry.running, "buffer {buffer} waits already");
        entry.running = false;
        entry.job.cohort = request.cohort;
        entry.work = table.work_from(request.stage);
        entry.rest = table.work_from(request.stage.next());
        if entry.row != row {
            // Only the first stage is promised jointly, and that has ended: the later stages were
            // charged at batch 1 all the time.
            entry.job.row = row;
            entry.promise = entry.order;
            entry.joint = false;
        } else if entry.joint {
            // The batch did not start. It is still one job to EDF.
            let promise = entry.promise;
            self.charge_joint(promise, tables);
        }
    }

    /// Gives the promise at a position to a newer request, with its deadline and its work. So W does not
    /// change, and no test is needed. Returns the buffer of the older request, and whether the promise is
    /// still that of an extra.
    pub(super) fn replace(
        &mut self,
        at: usize,
        request: &Request,
        buffer: u16,
        conforms: bool,
    ) -> (u16, bool) {
        let entry = &mut self.mandatory[at];
        debug_assert!(
            !entry.running,
            "a request whose stage runs is not replaced: buffer {}",
            entry.buffer
        );
        entry.job.cohort = request.cohort;
        // A conforming frame uses up its task's reservation, so an overrun must not drop it as an extra.
        entry.extra &= !conforms;
        let extra = entry.extra;
        (core::mem::replace(&mut entry.job.buffer, buffer), extra)
    }

    /// Merges `promises` and the promise of the request with this `order` into one joint promise.
    pub(super) fn join(&mut self, order: u64, promises: &[u64], tables: &Tables) {
        debug_assert!(
            self.mandatory.iter().any(|p| p.promise == order),
            "the new request has its promise before it joins others"
        );
        for entry in self.mandatory.iter_mut() {
            if promises.contains(&entry.promise) {
                entry.promise = order;
            }
        }
        self.charge_joint(order, tables);
    }

    /// Recomputes the work of all promises after the costs in `tables` have changed.
    pub fn rescale(&mut self, requests: &Requests, tables: &Tables) {
        for entry in self.mandatory.iter_mut() {
            let request = requests.get(entry.buffer);
            let table = tables.task(request.task);
            entry.rest = table.work_from(request.stage.next());
            entry.work = if entry.running {
                entry.rest
            } else {
                table.work_from(request.stage)
            };
        }
        for at in 0..self.mandatory.len() {
            if self.mandatory[at].joint {
                self.charge_joint(self.mandatory[at].promise, tables);
            }
        }
    }

    /// The request to drop after an overrun. It simulates EDF from `free` on, each job taking its budget.
    /// Future reserved requests do not count: they may never come, and a drop for their sake would turn a
    /// small overrun into a loss (`overrun`).
    ///
    /// At the first job that ends late, the waiting job of least worth up to it is dropped if it is
    /// worth less; of equal worth, the one with most work. Otherwise the late job is marked, so that the
    /// search ends: it will be answered late rather than silently dropped.
    pub fn next_to_drop(
        &mut self,
        free: Instant,
        worth: impl Fn(&MandatoryJob) -> u8,
    ) -> Option<u16> {
        loop {
            let mut end = free;
            let late = self.mandatory.iter().position(|entry| {
                end = end + entry.work;
                end > entry.due && !entry.late
            })?;
            // Jobs after it in EDF order do not delay it, and a running stage cannot be taken back.
            let waiting = self.mandatory[..=late].iter().filter(|p| !p.running);
            let least = waiting.min_by_key(|p| (worth(p), u64::MAX - p.work.as_nanos()));
            match least {
                Some(least) if worth(least) < worth(&self.mandatory[late]) => {
                    return Some(least.buffer);
                }
                _ => self.mandatory[late].late = true,
            }
        }
    }

    /// Clears the marks of [`Self::next_to_drop`].
    pub fn clear_late(&mut self) {
        for entry in self.mandatory.iter_mut() {
            entry.late = false;
        }
    }

    fn promise_of(&mut self, buffer: u16) -> &mut MandatoryJob {
        let mut promised = self.mandatory.iter_mut();
        let entry = promised.find(|p| p.buffer == buffer);
        entry.expect("promised work stays in the list while it runs")
    }

    /// Charges the waiting members of a promise for one batch of their number. Members that run do not
    /// count, as f covers them.
    ///
    /// When a member leaves, W falls only if budgets do not fall as batches grow. A plan in which batch 1 takes
    /// longer than batch 2 can raise W here.
    fn charge_joint(&mut self, promise: u64, tables: &Tables) {
        let is_member = |p: &MandatoryJob| p.promise == promise && !p.running;
        let mut members = self.mandatory.iter().filter(|p| is_member(p));
        let Some(row) = members.next().map(|p| tables.row(p.row)) else {
            return;
        };
        let count = 1 + members.count();
        let size = row.size_holding(count);
        let size = size.expect("a joint promise was made for a batch that is compiled");
        // The queue is sorted by deadline, so the first member has the earliest. W counts the whole batch
        // from there on, as admission tested it (`joint`).
        let mut cost = row.cost[size];
        for entry in self.mandatory.iter_mut().filter(|p| is_member(p)) {
            entry.joint = count > 1;
            entry.work = cost + entry.rest;
            cost = Nanos::ZERO;
        }
    }

    /// Recounts the queues of partition `index`.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(
        &self,
        index: usize,
        requests: &Requests,
        tables: &Tables,
    ) -> Result<(), &'static str> {
        let here = |task: TaskId| tables.task(task).partition.index() == index;
        let (mut mandatory, mut optional, mut best_effort, mut run) = (0, 0, 0, 0);
        for buffer in 0..requests.buffers() {
            let request = requests.get(buffer);
            if request.state.is_open() && here(request.task) {
                mandatory += usize::from(request.state == State::Mandatory);
                optional += usize::from(request.state == State::Optional);
                best_effort += usize::from(request.state == State::BestEffort);
            }
        }
        for entry in self.mandatory.iter() {
            let request = requests.get(entry.buffer);
            let expected = if entry.running {
                State::Running
            } else {
                State::Mandatory
            };
            if request.state != expected || !here(request.task) {
                return Err("a promise is not of a request that waits or runs here");
            }
            run += usize::from(entry.running);
            let table = tables.task(request.task);
            if entry.rest != table.work_from(request.stage.next())
                || entry.running && entry.work != entry.rest
                || !entry.running && !entry.joint && entry.work != table.work_from(request.stage)
            {
                return Err("a promise does not count the work that is left");
            }
            let together = self.mandatory.iter();
            let together = together.filter(|p| p.promise == entry.promise && !p.running);
            let (count, sum) = together.fold((0, Nanos::ZERO), |(count, sum), p| {
                (count + 1, sum + p.work.saturating_sub(p.rest))
            });
            let row = tables.row(entry.row);
            if entry.joint
                && !entry.running
                && row
                    .size_holding(count)
                    .is_none_or(|size| row.cost[size] != sum)
            {
                return Err("the parts of a joint promise do not sum to its batch");
            }
        }
        let is = |buffer: u16, state| requests.get(buffer).state == state;
        let in_order = self.mandatory.is_sorted_by_key(|p| (p.due, p.order))
            && self.optional.is_sorted_by_key(|p| (p.row, p.cohort, p.due))
            && self.best_effort.is_sorted_by_key(|w| w.order);
        match () {
            () if !in_order => Err("a queue is out of order"),
            () if !self.optional.iter().all(|p| is(p.buffer, State::Optional)) => {
                Err("a request in the optional queue is in another state")
            }
            () if !self
                .best_effort
                .iter()
                .all(|w| is(w.buffer, State::BestEffort)) =>
            {
                Err("a request in the best-effort queue is in another state")
            }
            () if mandatory != self.mandatory.len() - run
                || (optional, best_effort) != (self.optional.len(), self.best_effort.len()) =>
            {
                Err("a request is in no queue, or twice in one")
            }
            () => Ok(()),
        }
    }
}

/// What [`Queues::check`] must find, and how a test plants it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Queues>] = &[
    (
        "a promise is not of a request that waits or runs here",
        |it| it.mandatory[0].running ^= true,
    ),
    ("a promise does not count the work that is left", |it| {
        it.mandatory[1].rest += Nanos::new(1)
    }),
    (
        "the parts of a joint promise do not sum to its batch",
        |it| {
            it.mandatory[1].joint = true;
            it.mandatory[1].work += Nanos::new(1);
        },
    ),
    ("a queue is out of order", |it| {
        it.mandatory[0].job.due = Instant::FAR_FUTURE
    }),
    ("a request is in no queue, or twice in one", |it| {
        it.mandatory.pop();
    }),
    ("a request is in no queue, or twice in one", |it| {
        it.best_effort.pop();
    }),
    (
        "a request in the best-effort queue is in another state",
        |it| it.best_effort[0].job.buffer = it.mandatory[0].buffer,
    ),
    (
        "a request in the optional queue is in another state",
        |it| {
            it.optional.push(OptionalJob {
                job: it.mandatory[0].job,
                confidence: Confidence(0),
                gain: 0,
                answer_early: false,
            });
        },
    ),
];
