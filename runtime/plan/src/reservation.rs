//! What the daemon's own threads ask of `SCHED_DEADLINE`, if the manifest wants them to
//! (docs/decisions/0011-real-time.md).

use punctual_core::Nanos;
use serde::Serialize;

use crate::budgets::Margins;
use crate::plan::{Role, ThreadPlan};
use crate::tasks::Task;

/// The period of a plan whose tasks have none.
const PERIOD: Nanos = Nanos::from_millis(10);

/// The kernel's shortest and longest, by its defaults (`sched_deadline_period_{min,max}_us`).
const PERIOD_MIN: Nanos = Nanos::from_micros(100);
const PERIOD_MAX: Nanos = Nanos::from_millis(4_000);

/// How the daemon's threads get their urgency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// `SCHED_FIFO`, each pinned to a core.
    #[default]
    Fifo,
    /// `SCHED_DEADLINE` for ingress, scheduler and egress, on all of the daemon's own cores.
    Deadline,
}

/// Time that a thread may use, within `period_ns` of its wake-up. Deadline and period are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reservation {
    pub runtime_ns: u64,
    /// In each of these, in ns.
    pub period_ns: u64,
}

/// Gives the three threads their reservations.
pub(crate) fn assign(
    threads: &mut [ThreadPlan],
    tasks: &[Task],
    stages_max: usize,
    margins: &Margins,
) {
    let periods = tasks.iter().filter_map(|task| task.period);
    let period = periods.min().unwrap_or(PERIOD);
    let period_ns = period.clamp(PERIOD_MIN, PERIOD_MAX).as_nanos();
    let frames = frames_within(period_ns, tasks);
    for thread in threads {
        // Of an event each: arrival, preparation, the end of each stage.
        let bound_ns = match thread.role {
            Role::Ingress => margins.dispatch.as_nanos(),
            Role::Scheduler => margins.dispatch.as_nanos() * (2 + stages_max as u64),
            Role::Egress => margins.egress.as_nanos(),
            Role::Intake { .. } | Role::Worker { .. } | Role::StallProbe => continue,
        };
        // Three of them fit one core, of which the kernel gives 95%.
        let runtime_ns = bound_ns.saturating_mul(frames).min(period_ns * 3 / 10);
        thread.reservation = thread.priority.map(|_| Reservation {
            runtime_ns: runtime_ns.max(RUNTIME_NS_MIN),
            period_ns,
        });
    }
}

/// The kernel takes none below 1024 ns (its DL_SCALE).
const RUNTIME_NS_MIN: u64 = 1_024;

/// Frames that all clients may submit within a period, at least one each.
fn frames_within(period_ns: u64, tasks: &[Task]) -> u64 {
    let of = |task: &Task| {
        let by_rate = task
            .period
            .map_or(1, |period| period_ns.div_ceil(period.as_nanos().max(1)));
        by_rate.max(u64::from(task.clients))
    };
    tasks.iter().map(of).sum()
}
