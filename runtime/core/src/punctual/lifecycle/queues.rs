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
pub struct Pending {
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

impl Pending {
    /// What it counts for its next stage, in W: all of the batch for the first of a joint promise,
    /// nothing for the others.
    pub fn charge_of_stage(&self) -> i64 {
        ns(self.work) - ns(self.rest)
    }
}

/// A real-time request that holds an answer that counts and could go deeper.
#[derive(Clone, Copy, Debug)]
pub struct Parked {
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
pub struct Waiting {
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
    promised: List<Pending>,
    /// By (row, cohort, due): requests that can share a batch are a contiguous group.
    parked: List<Parked>,
    /// By order.
    waiting: List<Waiting>,
}

impl Queues {
    /// For at most so many requests, all of which may be in one of them.
    pub fn new(requests: usize) -> Self {
        Self {
            promised: List::with_capacity(requests),
            parked: List::with_capacity(requests),
            waiting: List::with_capacity(requests),
        }
    }

    pub fn promised(&self) -> &[Pending] {
        &self.promised
    }

    pub fn parked(&self) -> &[Parked] {
        &self.parked
    }

    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// The most urgent promise that could run.
    pub fn head(&self) -> Option<&Pending> {
        self.promised.iter().find(|p| !p.running)
    }

    /// Whether a request beyond the reservations waits for its mandatory work.
    pub fn extra_waits(&self) -> bool {
        self.promised.iter().any(|p| p.extra && !p.running)
    }

    /// Whether requests wait for a batch that they were promised jointly.
    pub fn has_joint_promises(&self) -> bool {
        self.promised.iter().any(|p| p.joint && !p.running)
    }

    /// Adds a promise.
    pub(super) fn promise(&mut self, entry: Pending) {
        let key = (entry.due, entry.order);
        let at = self.promised.partition_point(|p| (p.due, p.order) < key);
        self.promised.insert(at, entry);
    }

    /// Puts a request that holds an answer that counts in line for its next stage.
    pub(super) fn park(
        &mut self,
        request: &Request,
        buffer: u16,
        table: &TaskTable,
        tables: &Tables,
    ) {
        let own = tables.own(table, request.stage);
        let (_, answer) = request.answer.expect("a parked request holds an answer");
        let entry = Parked {
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
            .parked
            .partition_point(|p| (p.row, p.cohort, p.due) <= key);
        self.parked.insert(at, entry);
    }

    /// Puts a request that is promised nothing in line for a gap.
    pub(super) fn line_up(&mut self, entry: Waiting) {
        let at = self.waiting.partition_point(|w| w.order < entry.order);
        self.waiting.insert(at, entry);
    }

    /// Takes a request off the queue that its state says, if that is one of these; what is left of a
    /// joint promise pays.
    pub(super) fn remove(&mut self, buffer: u16, state: State, tables: &Tables) {
        match state {
            State::Pending => self.remove_promise(buffer, tables),
            State::Parked => {
                if let Some(at) = self.parked.iter().position(|p| p.buffer == buffer) {
                    self.parked.remove(at);
                }
            }
            State::Waiting => {
                if let Some(at) = self.waiting.iter().position(|w| w.buffer == buffer) {
                    self.waiting.remove(at);
                }
            }
            State::Free | State::Preparing | State::Awaiting | State::Running | State::Locked => {}
        }
    }

    /// Ends a request's promise, if it has one, whether or not it runs.
    pub(super) fn remove_promise(&mut self, buffer: u16, tables: &Tables) {
        let Some(at) = self.promised.iter().position(|p| p.buffer == buffer) else {
            return;
        };
        let entry = self.promised.remove(at);
        if entry.joint {
            self.share_out(entry.promise, tables);
        }
    }

    /// A member of an action leaves the queue where it waited; promised work stays with its rest.
    pub(super) fn begin(&mut self, buffer: u16, from: State, tables: &Tables) {
        if from != State::Pending {
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
        let entry = &mut self.promised[at];
        entry.cohort = request.cohort;
        // What a reservation waits for keeps its worth when something has to be dropped.
        entry.extra &= !conforms;
        let extra = entry.extra;
        (core::mem::replace(&mut entry.buffer, buffer), extra)
    }

    /// Makes one promise of several and that of a request that has just been promised its deadline.
    pub(super) fn join(&mut self, order: u64, promises: &[u64], tables: &Tables) {
        for entry in self.promised.iter_mut() {
            if promises.contains(&entry.promise) {
                entry.promise = order;
            }
        }
        self.share_out(order, tables);
    }

    /// Costs have changed.
    pub fn rescale(&mut self, requests: &Requests, tables: &Tables) {
        for entry in self.promised.iter_mut() {
            let request = requests.get(entry.buffer);
            let table = tables.task(request.task);
            entry.rest = table.work_from(request.stage.next());
            entry.work = match entry.running {
                true => entry.rest,
                false => table.work_from(request.stage),
            };
        }
        for at in 0..self.promised.len() {
            if self.promised[at].joint {
                self.share_out(self.promised[at].promise, tables);
            }
        }
    }

    /// The promise of least worth, if it keeps one of more worth from being on time when all take their
    /// budgets in EDF order from `free` on. Those that nothing can be dropped for are marked as late.
    pub fn least_worth(&mut self, free: Instant, worth: impl Fn(&Pending) -> u8) -> Option<u16> {
        loop {
            let mut end = free;
            let late = self.promised.iter().position(|entry| {
                end = end + entry.work;
                end > entry.due && !entry.late
            })?;
            // What comes after it in EDF order does not delay it, and what runs cannot be dropped.
            let waiting = self.promised[..=late].iter().filter(|p| !p.running);
            let least = waiting.min_by_key(|p| (worth(p), u64::MAX - p.work.as_nanos()));
            match least {
                Some(least) if worth(least) < worth(&self.promised[late]) => {
                    return Some(least.buffer);
                }
                _ => self.promised[late].late = true,
            }
        }
    }

    pub fn forget_late(&mut self) {
        for entry in self.promised.iter_mut() {
            entry.late = false;
        }
    }

    /// Takes the last promise out, to be put in elsewhere.
    pub(super) fn pop_promise(&mut self) -> Option<Pending> {
        self.promised.pop()
    }

    /// Takes all out that are promised nothing.
    pub(super) fn clear_unpromised(&mut self) {
        self.parked.clear();
        self.waiting.clear();
    }

    fn promise_of(&mut self, buffer: u16) -> &mut Pending {
        let mut promised = self.promised.iter_mut();
        let entry = promised.find(|p| p.buffer == buffer);
        entry.expect("promised work stays in the list while it runs")
    }

    /// Charges a promise for the batch of those that are left of it.
    fn share_out(&mut self, promise: u64, tables: &Tables) {
        let mine = |p: &Pending| p.promise == promise && !p.running;
        let mut members = self.promised.iter().filter(|p| mine(p));
        let Some(row) = members.next().map(|p| tables.row(p.row)) else {
            return;
        };
        let count = 1 + members.count();
        let size = row.size_holding(count);
        let size = size.expect("a joint promise was made for a batch that is compiled");
        let mut cost = row.cost[size];
        for entry in self.promised.iter_mut().filter(|p| mine(p)) {
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
                promised += usize::from(request.state == State::Pending);
                parked += usize::from(request.state == State::Parked);
                waiting += usize::from(request.state == State::Waiting);
            }
        }
        for entry in self.promised.iter() {
            let request = requests.get(entry.buffer);
            let expected = if entry.running {
                State::Running
            } else {
                State::Pending
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
            let together = self.promised.iter();
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
        let in_order = self.promised.is_sorted_by_key(|p| (p.due, p.order))
            && self.parked.is_sorted_by_key(|p| (p.row, p.cohort, p.due))
            && self.waiting.is_sorted_by_key(|w| w.order);
        match () {
            () if !in_order => Err("a queue is out of order"),
            () if !self.parked.iter().all(|p| is(p.buffer, State::Parked)) => {
                Err("a request is queued to go deeper and in another state")
            }
            () if !self.waiting.iter().all(|w| is(w.buffer, State::Waiting)) => {
                Err("a request is queued for a gap and in another state")
            }
            () if promised != self.promised.len() - run
                || (parked, waiting) != (self.parked.len(), self.waiting.len()) =>
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
        |it| it.promised[0].running ^= true,
    ),
    ("a promise counts other work than is left", |it| {
        it.promised[1].rest += Nanos::new(1)
    }),
    (
        "the shares of a joint promise do not sum to its batch",
        |it| {
            it.promised[1].joint = true;
            it.promised[1].work += Nanos::new(1);
        },
    ),
    ("a queue is out of order", |it| {
        it.promised[0].due = Instant::FAR_FUTURE
    }),
    ("a request is in no queue, or twice in one", |it| {
        it.promised.pop();
    }),
    ("a request is in no queue, or twice in one", |it| {
        it.waiting.pop();
    }),
    ("a request is queued for a gap and in another state", |it| {
        it.waiting[0].buffer = it.promised[0].buffer
    }),
    (
        "a request is queued to go deeper and in another state",
        |it| {
            let (p, w) = (it.promised[0], it.waiting[0]);
            it.parked.push(Parked {
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
