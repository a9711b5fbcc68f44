//! The reservations: for each reserved task, the earliest stamp that its next conforming request may have.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

use crate::ids::TaskId;
use crate::punctual::tables::TaskTable;
use crate::time::{Instant, Nanos};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Reserved {
    /// The earliest stamp of its next conforming request (`next` in docs/proof.md).
    next: Instant,
    /// The same at arrival, where it decides only about reserved buffers.
    next_arrival: Instant,
    /// When its reservation has made up for its last overrun.
    in_debt_until: Instant,
}

/// The reservations of all tasks.
///
/// Promises: `next` moves to an earlier time only for a request that was tested with the earlier
/// time, so F never rises without a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reservations {
    tasks: Box<[Reserved]>,
}

impl Reservations {
    /// Whether it is of as many tasks as another.
    pub fn fits(&self, other: &Self) -> bool {
        self.tasks.len() == other.tasks.len()
    }

    pub fn new(tasks: usize) -> Self {
        Self {
            tasks: alloc::vec![Reserved::default(); tasks].into(),
        }
    }

    /// The earliest stamp of a task's next conforming request.
    pub fn next(&self, task: TaskId) -> Instant {
        self.tasks[task.index()].next
    }

    /// Whether a frame conforms: its stamp is no earlier than its task's reservation allows.
    pub fn conforms_at(
        &self,
        task: TaskId,
        table: &TaskTable,
        captured: Instant,
        now: Instant,
    ) -> bool {
        stamp(table, captured, now) >= self.next(task)
    }

    /// Uses a reservation: the stamp of the next conforming request is `next` or later.
    pub fn use_reservation(&mut self, task: TaskId, next: Instant) {
        self.tasks[task.index()].next = next;
    }

    /// Whether an arriving frame may take one of the buffers reserved for its task. This is decided
    /// before its input is prepared, so it uses a period of its own: whether the frame conforms is decided
    /// when it is prepared.
    pub fn has_buffer(
        &self,
        task: TaskId,
        table: &TaskTable,
        captured: Instant,
        now: Instant,
    ) -> bool {
        stamp(table, captured, now) >= self.tasks[task.index()].next_arrival
    }

    /// Records that an arriving frame takes one of the buffers reserved for its task.
    pub fn take_buffer(&mut self, task: TaskId, table: &TaskTable, captured: Instant) {
        let reserved = &mut self.tasks[task.index()];
        // Counted from its capture, even if it came late. Otherwise one late frame would shift the whole
        // period, and the next frame, on time, would come too early (decision 4).
        reserved.next_arrival = captured.max(reserved.next_arrival) + table.period;
    }

    /// `next += overrun / U`, with U = C/T. The task has no conforming request until its own share of the
    /// partition has made up for the overrun. So the task that overran pays, as with a constant-bandwidth
    /// server (Abeni and Buttazzo, 1998), and no other reservation does.
    pub fn charge_overrun(
        &mut self,
        task: TaskId,
        table: &TaskTable,
        overrun: Nanos,
        now: Instant,
    ) {
        if !table.guaranteed {
            return;
        }
        // Rounded up and saturating: a longer debt is safe, as it only lowers F.
        let wide = u128::from(overrun.as_nanos()) * u128::from(table.period.as_nanos());
        let delay = wide.div_ceil(u128::from(table.work().as_nanos().max(1)));
        let delay = Nanos::new(u64::try_from(delay).unwrap_or(u64::MAX));
        let reserved = &mut self.tasks[task.index()];
        // Counted from the earliest stamp that can still come: a `next` in the past would absorb the debt.
        reserved.next = reserved.next.max(now - table.jitter) + delay;
        reserved.in_debt_until = reserved.next;
    }

    /// Whether the task still makes up for an overrun. Its requests are dropped before other reserved ones.
    pub fn is_in_debt(&self, task: TaskId, now: Instant) -> bool {
        self.tasks[task.index()].in_debt_until > now
    }
}

/// The capture time that the client claims, but no earlier than now - J. Assumption 3 bounds the time from
/// capture to readiness by J, and a client must gain nothing from a made-up time (docs/proof.md).
fn stamp(table: &TaskTable, captured: Instant, now: Instant) -> Instant {
    captured.max(now - table.jitter)
}
