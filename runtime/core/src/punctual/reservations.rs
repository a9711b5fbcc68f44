//! The reservations: for each reserved task, which conforming requests may still come.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

use crate::ids::TaskId;
use crate::punctual::tables::TaskTable;
use crate::time::{Instant, Nanos};

/// How many bursts of a task may have requests to come at a time. A burst may begin a period after the one before, whose requests
/// may come until its capture time + J. More are tested.
pub const OPEN_BURSTS: usize = 4;

/// Which conforming requests a task may still have: a burst in each period, whose requests have one capture time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// The earliest stamp of the first request of the next burst (`next` in docs/proof.md).
    next: Instant,
    /// What is left of bursts that began; 0 requests: no burst.
    open: [Rest; OPEN_BURSTS],
}

/// Requests of a burst that may still come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    pub captured: Instant,
    pub requests: u8,
}

impl Allowance {
    pub const fn next(&self) -> Instant {
        self.next
    }

    /// Whether a request conforms that was captured then and has this stamp.
    pub fn admits(&self, captured: Instant, stamp: Instant) -> bool {
        stamp >= self.next || self.has_begun(captured)
    }

    fn has_begun(&self, captured: Instant) -> bool {
        let mut open = self.open.iter();
        open.any(|rest| rest.requests > 0 && rest.captured == captured)
    }

    /// What is left of it after such a request.
    #[must_use]
    pub fn used(mut self, captured: Instant, table: &TaskTable) -> Self {
        let open = self.open.iter_mut();
        let mut open = open.filter(|rest| rest.requests > 0 && rest.captured == captured);
        if let Some(rest) = open.next() {
            rest.requests -= 1;
            return self;
        }
        // The next place in the period counts from the capture, not from the readiness. So a frame that
        // comes late takes no reservation from later frames that are on time (docs/decisions/0004).
        let next = captured.max(self.next) + table.period;
        self.with_burst(captured, table.burst - 1, next)
    }

    /// The same if the task starts anew with this request.
    #[must_use]
    pub fn begun(self, captured: Instant, table: &TaskTable) -> Self {
        self.with_burst(captured, table.burst - 1, captured + table.period)
    }

    fn with_burst(mut self, captured: Instant, requests: u8, next: Instant) -> Self {
        self.next = next;
        let place = |rest: &&mut Rest| (rest.requests > 0, rest.captured);
        if requests > 0
            && let Some(rest) = self.open.iter_mut().min_by_key(place)
        {
            *rest = Rest { captured, requests };
        }
        self
    }

    /// What is left of it if a burst has this many requests and no more. One that may not begin now changes nothing, nor does one
    /// that was captured too early for its place in the period: its requests are tested. So are those of a further frame with
    /// the capture time of another: what was said first counts.
    fn announced(self, captured: Instant, requests: u8, table: &TaskTable, now: Instant) -> Self {
        let has_begun = self.has_begun(captured);
        if has_begun || captured < self.next || captured < now - table.jitter {
            return self;
        }
        self.with_burst(captured, requests.min(table.burst), captured + table.period)
    }

    /// What may still come of bursts that began, without a test: a request whose preparation takes longer than the jitter is
    /// tested.
    pub fn rests(&self, table: &TaskTable, now: Instant) -> impl Iterator<Item = Rest> {
        let jitter = table.jitter;
        let open = self.open.into_iter().filter(|rest| rest.requests > 0);
        open.filter(move |rest| rest.captured + jitter >= now)
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Reserved {
    allowance: Allowance,
    /// The same at arrival, where it decides only about reserved buffers.
    at_arrival: Allowance,
    /// When its reservation has made up for its last overrun.
    in_debt_until: Instant,
}

/// The reservations of all tasks.
///
/// Promises: what a task may still have moves to an earlier time only for a request that was tested with the earlier
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

    pub fn allowance(&self, task: TaskId) -> Allowance {
        self.tasks[task.index()].allowance
    }

    /// Whether a frame conforms to its task's reservation.
    pub fn conforms_at(
        &self,
        task: TaskId,
        table: &TaskTable,
        captured: Instant,
        now: Instant,
    ) -> bool {
        let allowance = &self.tasks[task.index()].allowance;
        allowance.admits(captured, stamp(table, captured, now))
    }

    /// Uses a reservation: `after` is what a conforming request leaves of it.
    pub fn use_reservation(&mut self, task: TaskId, after: Allowance) {
        self.tasks[task.index()].allowance = after;
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
        let allowance = &self.tasks[task.index()].at_arrival;
        allowance.admits(captured, stamp(table, captured, now))
    }

    /// Records that an arriving frame takes one of the buffers reserved for its task.
    pub fn take_buffer(&mut self, task: TaskId, table: &TaskTable, captured: Instant) {
        let reserved = &mut self.tasks[task.index()];
        // Counted from its capture, even if it came late. Otherwise one late frame would shift the whole
        // period, and the next frame, on time, would come too early (decision 4).
        reserved.at_arrival = reserved.at_arrival.used(captured, table);
    }

    /// Records how many requests have this capture time, before the first of them arrives.
    pub fn announce(
        &mut self,
        task: TaskId,
        table: &TaskTable,
        captured: Instant,
        requests: u8,
        now: Instant,
    ) {
        let Reserved {
            allowance,
            at_arrival,
            ..
        } = &mut self.tasks[task.index()];
        for kept in [allowance, at_arrival] {
            *kept = kept.announced(captured, requests, table, now);
        }
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
        let delay = wide.div_ceil(u128::from(table.reserved_work().as_nanos().max(1)));
        let delay = Nanos::new(u64::try_from(delay).unwrap_or(u64::MAX));
        let reserved = &mut self.tasks[task.index()];
        let allowance = &mut reserved.allowance;
        // Counted from the earliest stamp that can still come: a `next` in the past would absorb the debt.
        allowance.next = allowance.next.max(now - table.jitter) + delay;
        reserved.in_debt_until = allowance.next;
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
