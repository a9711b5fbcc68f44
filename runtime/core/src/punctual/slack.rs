//! The computation behind every promise: how much slack is left at each deadline, of the pending
//! requests and of the requests that the reserved tasks may still release.
//!
//! `slack(y) = y - f - W(y) - F(y)`. At f the partition is free. W(y) is the pending mandatory work due
//! by y. F(y) is the work due by y that reserved tasks may still release. SAFE holds if no slack is
//! negative (`docs/proof.md`).
//!
//! F is bounded from above, so that a scan examines a bounded number of points. Each task's staircase is
//! exact for its first [`STEPS_MIN`] or more steps. It continues as the straight line that touches it
//! from above. The slopes of all lines sum to less than 1, the utilisation that the offline test allows.
//! So slack only grows between two points, and a scan examines only the deadlines and the exact steps.
//! Over-estimation can reject a request; it never breaks a promise.

use crate::bounded::List;
use crate::ids::TaskId;
use crate::punctual::lifecycle::queues::MandatoryJob;
use crate::punctual::reservations::{Allowance, OPEN_BURSTS};
use crate::punctual::tables::{Row, TaskTable};
use crate::time::{Instant, Nanos};

/// Fewest exact steps of a reserved task.
const STEPS_MIN: usize = 4;
/// Most exact steps of a reserved task: each step is a point, and each point costs instructions.
const STEPS_MAX: usize = 16;
/// Exact steps of all reserved tasks of a partition, as long as each task has its fewest.
const STEPS_BUDGET: usize = 64;

const _: () = assert!(0 < STEPS_MIN && STEPS_MIN <= STEPS_MAX && STEPS_MAX <= STEPS_BUDGET);

/// Exact steps of each of `tasks` reserved tasks. A line over-estimates by up to one job of its task, so
/// each task gets more exact steps where there are few tasks.
pub fn steps_each(tasks: usize) -> usize {
    (STEPS_BUDGET / tasks.max(1)).clamp(STEPS_MIN, STEPS_MAX)
}

/// A deadline and its slack in nanoseconds; negative: SAFE does not hold there.
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
    /// Slope of the line that begins here, in 2^-32; 0 before the task's last exact step.
    slope: u64,
}

/// The input of a scan about one reserved task.
#[derive(Clone, Copy, Debug)]
pub struct Reservation<'a> {
    pub table: &'a TaskTable,
    pub allowance: Allowance,
}

/// A request that is tested before the policy promises its deadline.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub task: TaskId,
    pub due: Instant,
    /// The row of its first stage, which a joint promise would share.
    pub row: Row,
    pub batch_max: u8,
    /// Which conforming requests its task may have after it, if it uses the reservation; `None`: those that it may have now.
    pub after: Option<Allowance>,
}

/// The points of the last scan, by rising time, and the scratch memory of a scan.
#[derive(Clone, Debug)]
pub struct SlackScan {
    points: List<Point>,
    steps: List<Step>,
    steps_each: usize,
}

impl SlackScan {
    /// Allocates for at most `pending` requests and `tasks` reserved tasks.
    pub fn new(pending: usize, tasks: usize) -> Self {
        // And what is left of bursts.
        let steps = tasks * (OPEN_BURSTS + steps_each(tasks));
        Self {
            // One point for each pending request, one for the candidate, one for each exact step.
            points: List::with_capacity(pending + 1 + steps),
            steps: List::with_capacity(steps),
            steps_each: steps_each(tasks),
        }
    }

    /// Every examined deadline with its slack, by rising time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// S: the least slack; `i64::MAX` without any deadline.
    pub fn least(&self) -> i64 {
        self.least_from(Instant::ZERO)
    }

    /// The least slack at `from` or later.
    pub fn least_from(&self, from: Instant) -> i64 {
        let later = self.points.iter().filter(|p| p.at >= from);
        later.map(|p| p.slack).min().unwrap_or(i64::MAX)
    }

    /// Computes the slack at every deadline, with f = `free`. `pending` is sorted by deadline.
    /// `candidate` counts as if it were pending: its deadline and its work.
    pub fn run<'a>(
        &mut self,
        now: Instant,
        free: Instant,
        pending: &[MandatoryJob],
        candidate: Option<(Instant, Nanos)>,
        reserved: impl Iterator<Item = Reservation<'a>>,
    ) {
        debug_assert!(
            pending.is_sorted_by_key(|job| job.due),
            "a scan merges jobs in EDF order"
        );
        self.lay_out_steps(now, reserved);
        self.points.clear();
        let mut demand = Demand::starting(free);
        let (mut pending, mut steps) = (pending.iter().peekable(), self.steps.iter().peekable());
        let mut candidate = candidate;
        loop {
            let of_queue = pending.peek().map(|job| job.due);
            let of_step = steps.peek().map(|step| step.at);
            let of_candidate = candidate.map(|(due, _)| due);
            let Some(at) = earlier(earlier(of_queue, of_step), of_candidate) else {
                return;
            };
            demand.advance(at);
            // All work due at `at` counts before the slack there is computed: W and F include d = y.
            while let Some(job) = pending.next_if(|job| job.due == at) {
                demand.add(job.work);
            }
            while let Some(step) = steps.next_if(|step| step.at == at) {
                demand.add(step.work);
                demand.slope += u128::from(step.slope);
            }
            if let Some((_, work)) = candidate.take_if(|(due, _)| *due == at) {
                demand.add(work);
            }
            debug_assert!(
                demand.slope < 1 << 32,
                "the offline test bounds the utilisation, so slack grows between two points"
            );
            let slack = demand.slack();
            self.points.push(Point { at, slack });
        }
    }

    /// The exact steps of all reserved tasks, by rising time.
    fn lay_out_steps<'a>(&mut self, now: Instant, reserved: impl Iterator<Item = Reservation<'a>>) {
        self.steps.clear();
        for Reservation { table, allowance } in reserved {
            let Some(deadline) = table.own_due() else {
                continue;
            };
            for rest in allowance.rests(table, now) {
                self.steps.push(Step {
                    at: rest.captured + deadline,
                    work: table.work().saturating_mul(u64::from(rest.requests)),
                    slope: 0,
                });
            }
            // nd: the earliest deadline that a request released from now on can have. A stamp is never
            // older than the jitter, so no later request can use an earlier `next`.
            let mut at = allowance.next().max(now - table.jitter) + deadline;
            for step in 1..=self.steps_each {
                let last = step == self.steps_each;
                self.steps.push(Step {
                    at,
                    work: table.reserved_work(),
                    // The line begins at the last exact step. Before it, the steps are the demand.
                    slope: if last { table.slope } else { 0 },
                });
                at = at + table.period;
            }
        }
        self.steps.sort_unstable_by_key(|step| step.at);
    }
}

/// The earlier of two times, if there is one.
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, None) => a,
        (None, b) => b,
    }
}

/// `f + W(y) + F(y)` as y rises.
struct Demand {
    /// f.
    free: Instant,
    /// y.
    at: Instant,
    /// W(y) + F(y) in 2^-32 ns: the fraction is that of a slope, so that the lines add up exactly.
    work: u128,
    /// Sum of the slopes of the lines that began by y, in 2^-32.
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

    /// `y - f - W(y) - F(y)` in nanoseconds. The demand is rounded up, so that the slack is never
    /// over-estimated.
    fn slack(&self) -> i64 {
        let demand = self.work.div_ceil(1 << 32);
        let room = i128::from(self.at.as_nanos()) - i128::from(self.free.as_nanos());
        // Saturates: a partition whose action is lost has f = `FAR_FUTURE`, and the slack stays negative.
        (room - demand as i128).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}
