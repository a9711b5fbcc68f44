//! Each reserved task's place in its rhythm: what stamp its next conforming request may have.

use alloc::boxed::Box;

use crate::ids::TaskId;
use crate::punctual::tables::TaskTable;
use crate::time::{Instant, Nanos};

#[derive(Clone, Copy, Debug, Default)]
struct Reserved {
    /// The earliest stamp of its next conforming request.
    next: Instant,
    /// The same, judged at arrival, where only a kept buffer is at stake.
    next_arrival: Instant,
    /// When it will have paid for its last overrun.
    in_debt_until: Instant,
}

/// All tasks' places.
///
/// Promises: a place moves to an earlier time only for a request that was tested beside the place
/// as it is then, so that F never rises without a test.
#[derive(Clone, Debug)]
pub struct Reservations {
    tasks: Box<[Reserved]>,
}

impl Reservations {
    pub fn new(tasks: usize) -> Self {
        Self {
            tasks: alloc::vec![Reserved::default(); tasks].into(),
        }
    }

    /// The earliest stamp of a task's next conforming request.
    pub fn next(&self, task: TaskId) -> Instant {
        self.tasks[task.index()].next
    }

    /// The same for all tasks, in their order.
    pub fn all(&self) -> impl Iterator<Item = Instant> {
        self.tasks.iter().map(|reserved| reserved.next)
    }

    /// Whether a frame comes no earlier than its task's reservation allows.
    pub fn in_rhythm(
        &self,
        task: TaskId,
        table: &TaskTable,
        captured: Instant,
        now: Instant,
    ) -> bool {
        stamp(table, captured, now) >= self.next(task)
    }

    /// Uses a reservation up: the next conforming request comes at `next` or later.
    pub fn use_up(&mut self, task: TaskId, next: Instant) {
        self.tasks[task.index()].next = next;
    }

    /// Whether a frame that arrives may have one of the buffers kept for its task.
    pub fn has_buffer(
        &self,
        task: TaskId,
        table: &TaskTable,
        captured: Instant,
        now: Instant,
    ) -> bool {
        stamp(table, captured, now) >= self.tasks[task.index()].next_arrival
    }

    /// Gives a frame that arrives one of the buffers kept for its task.
    pub fn take_buffer(&mut self, task: TaskId, table: &TaskTable, captured: Instant) {
        let reserved = &mut self.tasks[task.index()];
        // Counted from its capture, however late it came: see `admission`.
        reserved.next_arrival = captured.max(reserved.next_arrival) + table.period;
    }

    /// `next += overrun / U`: the task gets no reserved request until its own share of the
    /// partition has paid for the overrun (the idea of a constant-bandwidth server).
    pub fn put_in_debt(&mut self, task: TaskId, table: &TaskTable, overrun: Nanos, now: Instant) {
        if !table.guaranteed {
            return;
        }
        let wide = u128::from(overrun.as_nanos()) * u128::from(table.period.as_nanos());
        let delay = wide.div_ceil(u128::from(table.work().as_nanos().max(1)));
        let delay = Nanos::new(u64::try_from(delay).unwrap_or(u64::MAX));
        let reserved = &mut self.tasks[task.index()];
        reserved.next = reserved.next.max(now - table.jitter) + delay;
        reserved.in_debt_until = reserved.next;
    }

    pub fn is_in_debt(&self, task: TaskId, now: Instant) -> bool {
        self.tasks[task.index()].in_debt_until > now
    }
}

/// The capture time as claimed, no longer ago than the release jitter.
fn stamp(table: &TaskTable, captured: Instant, now: Instant) -> Instant {
    captured.max(now - table.jitter)
}
