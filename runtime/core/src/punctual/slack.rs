//! The scan behind every promise: how much time is to spare before each deadline, those of the
//! pending requests and those of the requests that the reserved tasks may still release.
//!
//! `slack(y) = y - f - W(y) - F(y)`, with f the time at which the partition is free, W(y) the
//! pending mandatory work due by y, and F(y) the work due by y that reserved tasks may still
//! release. SAFE holds if no slack is negative.
//!
//! F is bounded from above: each task's staircase is exact for its first [`STEPS_MIN`] or more
//! steps and continues as the straight line that touches it from above. As the lines' slopes sum
//! to less than 1, slack only grows between the points where a step or a pending deadline lies,
//! so these are the only points looked at. Over-estimation can refuse, never endanger.

use crate::bounded::List;
use crate::ids::TaskId;
use crate::punctual::lifecycle::queues::MandatoryJob;
use crate::punctual::tables::{Row, TaskTable};
use crate::time::{Instant, Nanos};

/// Fewest exact steps a reserved task gets (the policy's q).
const STEPS_MIN: usize = 4;
/// Most exact steps a reserved task gets.
const STEPS_MAX: usize = 16;
/// Steps shared out among the reserved tasks of a partition while each gets its least.
const STEPS_BUDGET: usize = 64;

/// Exact steps for each of `tasks` reserved tasks: few tasks get more, as their lines would over-estimate more.
pub fn steps_each(tasks: usize) -> usize {
    (STEPS_BUDGET / tasks.max(1)).clamp(STEPS_MIN, STEPS_MAX)
}

/// A deadline and the time to spare before it, in nanoseconds; negative: it cannot be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub at: Instant,
    pub slack: i64,
}

/// A step of a reserved task's staircase.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: Instant,
    work: Nanos,
    /// Slope of the line that begins here (2^-32 per nanosecond); 0 before the last exact step.
    slope: u64,
}

/// A reserved task's part of the scan.
#[derive(Clone, Copy, Debug)]
pub struct Reservation<'a> {
    pub table: &'a TaskTable,
    /// The earliest stamp that its next conforming request can have.
    pub next: Instant,
}

/// A request that is to be promised its deadline.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub task: TaskId,
    pub due: Instant,
    pub row: Row,
    pub batch_max: u8,
    /// From when on its task's next conforming request may come, if it is promised its deadline;
    /// `None`: that stays as it is.
    pub next: Option<Instant>,
}

/// The last scan's points, by rising time, and the scratch to make them.
#[derive(Clone, Debug)]
pub struct SlackScan {
    points: List<Point>,
    steps: List<Step>,
    steps_each: usize,
}

impl SlackScan {
    /// For at most `pending` requests and `tasks` reserved tasks.
    pub fn new(pending: usize, tasks: usize) -> Self {
        let steps = tasks * steps_each(tasks);
        Self {
            // One for each pending request, one for the request being tested, one a step.
            points: List::with_capacity(pending + 1 + steps),
            steps: List::with_capacity(steps),
            steps_each: steps_each(tasks),
        }
    }

    /// All deadlines in sight with their slack.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// S: the least slack; `i64::MAX` if no deadline is in sight.
    pub fn least(&self) -> i64 {
        self.least_from(Instant::ZERO)
    }

    /// The least slack at `from` or later.
    pub fn least_from(&self, from: Instant) -> i64 {
        let later = self.points.iter().filter(|p| p.at >= from);
        later.map(|p| p.slack).min().unwrap_or(i64::MAX)
    }

    /// Computes slack at every deadline, the partition being free from `free` on. `candidate` is
    /// counted as if it were pending: its deadline and work.
    pub fn run<'a>(
        &mut self,
        now: Instant,
        free: Instant,
        pending: &[MandatoryJob],
        candidate: Option<(Instant, Nanos)>,
        reserved: impl Iterator<Item = Reservation<'a>>,
    ) {
        self.lay_out_steps(now, reserved);
        self.points.clear();
        let mut demand = Demand::starting(free);
        let (mut pending, mut steps) = (pending.iter().peekable(), self.steps.iter().peekable());
        let mut candidate = candidate;
        loop {
            let due = [
                pending.peek().map(|p| p.due),
                steps.peek().map(|s| s.at),
                candidate.map(|(due, _)| due),
            ];
            let Some(at) = due.into_iter().flatten().min() else {
                return;
            };
            demand.advance(at);
            while let Some(p) = pending.next_if(|p| p.due == at) {
                demand.add(p.work);
            }
            while let Some(s) = steps.next_if(|s| s.at == at) {
                demand.add(s.work);
                demand.slope += u128::from(s.slope);
            }
            if let Some((_, work)) = candidate.take_if(|(due, _)| *due == at) {
                demand.add(work);
            }
            let slack = demand.slack();
            self.points.push(Point { at, slack });
        }
    }

    fn lay_out_steps<'a>(&mut self, now: Instant, reserved: impl Iterator<Item = Reservation<'a>>) {
        self.steps.clear();
        for Reservation { table, next } in reserved {
            let Some(deadline) = table.own_due() else {
                continue;
            };
            // The earliest deadline that a request released from now on can have.
            let mut at = next.max(now - table.jitter) + deadline;
            for step in 1..=self.steps_each {
                let last = step == self.steps_each;
                self.steps.push(Step {
                    at,
                    work: table.work(),
                    slope: if last { table.slope } else { 0 },
                });
                at = at + table.period;
            }
        }
        self.steps.sort_unstable_by_key(|step| step.at);
    }
}

/// `f + W(y) + F(y)` as y rises.
struct Demand {
    free: Instant,
    at: Instant,
    /// Work due by now, in 2^-32 ns.
    work: u128,
    slope: u128,
}

impl Demand {
    fn starting(free: Instant) -> Self {
        Self {
            free,
            at: Instant::ZERO,
            work: 0,
            slope: 0,
        }
    }

    fn add(&mut self, work: Nanos) {
        self.work += u128::from(work.as_nanos()) << 32;
    }

    fn advance(&mut self, at: Instant) {
        self.work += self.slope * u128::from(at.since(self.at).as_nanos());
        self.at = at;
    }

    /// `at - f - demand`, the demand rounded up.
    fn slack(&self) -> i64 {
        let demand = self.work.div_ceil(1 << 32);
        let room = i128::from(self.at.as_nanos()) - i128::from(self.free.as_nanos());
        (room - demand as i128).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}
