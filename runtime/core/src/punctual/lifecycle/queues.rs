//! Who waits on a partition: for promised work, to go deeper, or for a gap. What is promised jointly
//! is charged here, too, as who waits decides what a batch costs.

use crate::bounded::List;
use crate::ids::{Confidence, TaskId};
use crate::punctual::lifecycle::requests::{Request, Requests, State};
use crate::punctual::tables::{Row, Tables, TaskTable};
use crate::time::ns;
use crate::time::{Instant, Nanos};

/// Mandatory work of one request. Stays in the list while its stage runs, with the work that is
/// left after that stage.
#[derive(Clone, Copy, Debug)]
pub struct MandatoryJob {
    pub due: Instant,
    /// Ties: order of arrival.
    pub order: u64,
    pub buffer: u16,
    /// The next stage to run.
    pub row: Row,
    pub cohort: u64,
    /// Work left at batch 1 (w), without the stage that is running.
    pub work: Nanos,
    /// What of it is left once the next stage, or the running one, has ended.
    pub rest: Nanos,
    pub running: bool,
    /// Equal for requests that are promised their deadlines jointly, as their next stage runs in
    /// one batch; else the request's own `order`.
    pub promise: u64,
    /// Not the only one of its promise.
    pub joint: bool,
    /// Accepted beyond the task's reservation.
    pub extra: bool,
    /// Scratch of the overrun handling: cannot be on time any more.
    pub late: bool,
    pub batch_max: u8,
}

impl MandatoryJob {
    /// What it counts for its next stage, in W: all of the batch for the first of a joint promise,
    /// nothing for the others.
    pub fn charge_of_stage(&self) -> i64 {
        ns(self.work) - ns(self.rest)
    }
}

/// A real-time request that holds an answer that counts and could go deeper.
#[derive(Clone, Copy, Debug)]
pub struct OptionalJob {
    /// The next stage.
    pub row: Row,
    pub cohort: u64,
    pub due: Instant,
    pub buffer: u16,
    pub task: TaskId,
    /// Of the answer it holds.
    pub confidence: Confidence,
    /// Weight times the gain of its next stage.
    pub gain: u64,
    pub batch_max: u8,
    pub eager: bool,
}

/// A best-effort request between two stages.
#[derive(Clone, Copy, Debug)]
pub struct BestEffortJob {
    pub order: u64,
    pub buffer: u16,
    pub task: TaskId,
    /// The next stage.
    pub row: Row,
    pub cohort: u64,
    /// `FAR_FUTURE` if it has no deadline.
    pub due: Instant,
    pub batch_max: u8,
    /// Of a real-time task whose model lost its promises.
    pub demoted: bool,
}

/// The three queues of a partition, lent for reading.
///
/// Promises: each is in its order; what a joint promise counts for its next stage sums to the cost
/// of one batch that holds its members; what runs has only its rest left.
#[derive(Clone, Debug)]
pub struct Queues {
    /// By (due, order).
    mandatory: List<MandatoryJob>,
    /// By (row, cohort, due): requests that can share a batch are a contiguous group.
    optional: List<OptionalJob>,
    /// By order.
    best_effort: List<BestEffortJob>,
}

impl Queues {
    /// For at most so many requests, all of which may be in one of them.
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

    /// The most urgent promise that could run.
    pub fn head(&self) -> Option<&MandatoryJob> {
        self.mandatory.iter().find(|p| !p.running)
    }

    /// Whether a request beyond the reservations waits for its mandatory work.
    pub fn extra_waits(&self) -> bool {
        self.mandatory.iter().any(|p| p.extra && !p.running)
    }

    /// Whether requests wait for a batch that they were promised jointly.
    pub fn has_joint_promises(&self) -> bool {
        self.mandatory.iter().any(|p| p.joint && !p.running)
    }

    /// Adds a promise.
    pub(super) fn add_mandatory(&mut self, entry: MandatoryJob) {
        let key = (entry.due, entry.order);
        let at = self.mandatory.partition_point(|p| (p.due, p.order) < key);
        self.mandatory.insert(at, entry);
    }

    /// Puts a request that holds an answer that counts in line for its next stage.
    pub(super) fn add_optional(
        &mut self,
        request: &Request,
        buffer: u16,
        table: &TaskTable,
        tables: &Tables,
    ) {
        let own = tables.own(table, request.stage);
        let (_, answer) = request.answer.expect("a parked request holds an answer");
        let entry = OptionalJob {
            row: own.runs_as,
            cohort: request.cohort,
            due: request.due,
            buffer,
            task: request.task,
            confidence: answer.confidence,
            gain: own.gain_of(answer.confidence) * u64::from(table.weight),
            batch_max: table.batch_max,
            eager: table.eager,
        };
        let key = (entry.row, entry.cohort, entry.due);
        let at = self
            .optional
            .partition_point(|p| (p.row, p.cohort, p.due) <= key);
        self.optional.insert(at, entry);
    }

    /// Puts a request that is promised nothing in line for a gap.
    pub(super) fn add_best_effort(&mut self, entry: BestEffortJob) {
        let at = self.best_effort.partition_point(|w| w.order < entry.order);
        self.best_effort.insert(at, entry);
    }

    /// Takes a request off the queue that its state says, if that is one of these; what is left of a
    /// joint promise pays.
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

    /// Ends a request's promise, if it has one, whether or not it runs.
    pub(super) fn remove_promise(&mut self, buffer: u16, tables: &Tables) {
        let Some(at) = self.mandatory.iter().position(|p| p.buffer == buffer) else {
            return;
        };
        let entry = self.mandatory.remove(at);
        if entry.joint {
            self.share_out(entry.promise, tables);
        }
    }

    /// A member of an action leaves the queue where it waited; promised work stays with its rest.
    pub(super) fn begin(&mut self, buffer: u16, from: State, tables: &Tables) {
        if from != State::Mandatory {
            return self.remove(buffer, from, tables);
        }
        let entry = self.promise_of(buffer);
        entry.running = true;
        entry.work = entry.rest;
    }

    /// A promised request that ran goes on from its present stage.
    pub(super) fn put_back(
        &mut self,
        request: &Request,
        buffer: u16,
        table: &TaskTable,
        tables: &Tables,
    ) {
        let row = tables.row_of(table, request.stage);
        let entry = self.promise_of(buffer);
        entry.running = false;
        entry.cohort = request.cohort;
        entry.work = table.work_from(request.stage);
        entry.rest = table.work_from(request.stage.next());
        if entry.row != row {
            // The stage that was promised jointly is done.
            entry.row = row;
            entry.promise = entry.order;
            entry.joint = false;
        } else if entry.joint {
            let promise = entry.promise;
            self.share_out(promise, tables);
        }
    }

    /// Gives the place of the promise at a position to a newer request, deadline and all. Whose it was,
    /// and whether it is beyond the reservations still.
    pub(super) fn hand_over(
        &mut self,
        at: usize,
        request: &Request,
        buffer: u16,
        conforms: bool,
    ) -> (u16, bool) {
        let entry = &mut self.mandatory[at];
        entry.cohort = request.cohort;
        // What a reservation waits for keeps its worth when something has to be dropped.
        entry.extra &= !conforms;
        let extra = entry.extra;
        (core::mem::replace(&mut entry.buffer, buffer), extra)
    }

    /// Makes one promise of several and that of a request that has just been promised its deadline.
    pub(super) fn join(&mut self, order: u64, promises: &[u64], tables: &Tables) {
        for entry in self.mandatory.iter_mut() {
            if promises.contains(&entry.promise) {
                entry.promise = order;
            }
        }
        self.share_out(order, tables);
    }

    /// Costs have changed.
    pub fn rescale(&mut self, requests: &Requests, tables: &Tables) {
        for entry in self.mandatory.iter_mut() {
            let request = requests.get(entry.buffer);
            let table = tables.task(request.task);
            entry.rest = table.work_from(request.stage.next());
            entry.work = match entry.running {
                true => entry.rest,
                false => table.work_from(request.stage),
            };
        }
        for at in 0..self.mandatory.len() {
            if self.mandatory[at].joint {
                self.share_out(self.mandatory[at].promise, tables);
            }
        }
    }

    /// The promise of least worth, if it keeps one of more worth from being on time when all take their
    /// budgets in EDF order from `free` on. Those that nothing can be dropped for are marked as late.
    pub fn least_worth(
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
            // What comes after it in EDF order does not delay it, and what runs cannot be dropped.
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

    pub fn forget_late(&mut self) {
        for entry in self.mandatory.iter_mut() {
            entry.late = false;
        }
    }

    /// Takes the last promise out, to be put in elsewhere.
    pub(super) fn pop_promise(&mut self) -> Option<MandatoryJob> {
        self.mandatory.pop()
    }

    /// Takes all out that are promised nothing.
    pub(super) fn clear_unpromised(&mut self) {
        self.optional.clear();
        self.best_effort.clear();
    }

    fn promise_of(&mut self, buffer: u16) -> &mut MandatoryJob {
        let mut promised = self.mandatory.iter_mut();
        let entry = promised.find(|p| p.buffer == buffer);
        entry.expect("promised work stays in the list while it runs")
    }

    /// Charges a promise for the batch of those that are left of it.
    fn share_out(&mut self, promise: u64, tables: &Tables) {
        let mine = |p: &MandatoryJob| p.promise == promise && !p.running;
        let mut members = self.mandatory.iter().filter(|p| mine(p));
        let Some(row) = members.next().map(|p| tables.row(p.row)) else {
            return;
        };
        let count = 1 + members.count();
        let size = row.size_holding(count);
        let size = size.expect("a joint promise was made for a batch that is compiled");
        let mut cost = row.cost[size];
        for entry in self.mandatory.iter_mut().filter(|p| mine(p)) {
            entry.joint = count > 1;
            entry.work = cost + entry.rest;
            cost = Nanos::ZERO;
        }
    }

    /// Recounts the queues of partition `index`. What is wrong, if anything is.
    pub fn check(
        &self,
        index: usize,
        requests: &Requests,
        tables: &Tables,
    ) -> Result<(), &'static str> {
        let here = |task: TaskId| tables.task(task).partition.index() == index;
        let (mut promised, mut parked, mut waiting, mut run) = (0, 0, 0, 0);
        for buffer in 0..requests.buffers() {
            let request = requests.get(buffer);
            if request.state.is_open() && here(request.task) {
                promised += usize::from(request.state == State::Mandatory);
                parked += usize::from(request.state == State::Optional);
                waiting += usize::from(request.state == State::BestEffort);
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
                return Err("a promise counts other work than is left");
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
                return Err("the shares of a joint promise do not sum to its batch");
            }
        }
        let is = |buffer: u16, state| requests.get(buffer).state == state;
        let in_order = self.mandatory.is_sorted_by_key(|p| (p.due, p.order))
            && self.optional.is_sorted_by_key(|p| (p.row, p.cohort, p.due))
            && self.best_effort.is_sorted_by_key(|w| w.order);
        match () {
            () if !in_order => Err("a queue is out of order"),
            () if !self.optional.iter().all(|p| is(p.buffer, State::Optional)) => {
                Err("a request is queued to go deeper and in another state")
            }
            () if !self
                .best_effort
                .iter()
                .all(|w| is(w.buffer, State::BestEffort)) =>
            {
                Err("a request is queued for a gap and in another state")
            }
            () if promised != self.mandatory.len() - run
                || (parked, waiting) != (self.optional.len(), self.best_effort.len()) =>
            {
                Err("a request is in no queue, or twice in one")
            }
            () => Ok(()),
        }
    }
}

/// What [`Queues::check`] must find, and how to plant it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Queues>] = &[
    (
        "a promise is not of a request that waits or runs here",
        |it| it.mandatory[0].running ^= true,
    ),
    ("a promise counts other work than is left", |it| {
        it.mandatory[1].rest += Nanos::new(1)
    }),
    (
        "the shares of a joint promise do not sum to its batch",
        |it| {
            it.mandatory[1].joint = true;
            it.mandatory[1].work += Nanos::new(1);
        },
    ),
    ("a queue is out of order", |it| {
        it.mandatory[0].due = Instant::FAR_FUTURE
    }),
    ("a request is in no queue, or twice in one", |it| {
        it.mandatory.pop();
    }),
    ("a request is in no queue, or twice in one", |it| {
        it.best_effort.pop();
    }),
    ("a request is queued for a gap and in another state", |it| {
        it.best_effort[0].buffer = it.mandatory[0].buffer
    }),
    (
        "a request is queued to go deeper and in another state",
        |it| {
            let (p, w) = (it.mandatory[0], it.best_effort[0]);
            it.optional.push(OptionalJob {
                row: p.row,
                cohort: 0,
                due: p.due,
                buffer: p.buffer,
                task: w.task,
                confidence: Confidence(0),
                gain: 0,
                batch_max: 1,
                eager: false,
            });
        },
    ),
];
