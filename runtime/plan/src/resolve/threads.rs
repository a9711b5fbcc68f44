//! The threads of a plan: what each does, on which core, how urgently.
//!
//! What the daemon's own threads ask of `SCHED_DEADLINE`, if the manifest wants them to:
//! docs/decisions/0011-real-time.md.

use punctual_core::{Criticality, Nanos, PartitionId};
use punctual_diagnostics::{Problems, Rule, Spanned};
use serde::Serialize;
use thiserror::Error;

use super::Resolved;
use super::placement::Placement;
use super::tasks::{Task, groups};
use crate::inputs::Host;
use crate::manifest::{Margins, Scheduling};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Runs `drive`.
    Scheduler,
    /// Takes a client's descriptors, writes its verdicts, wakes it. One a client slot.
    Port {
        /// Position in [`Plan::client_slots`](crate::Plan::client_slots).
        client: u16,
    },
    /// Copies a client's payload in and prepares it. One a client slot.
    Intake {
        /// Position in [`Plan::client_slots`](crate::Plan::client_slots).
        client: u16,
    },
    /// One a compute unit of a partition; unit 0 leads.
    Worker {
        partition: PartitionId,
        /// Position in the partition's cores.
        unit: u8,
    },
    /// Watches for stalls of the machine. One a core that the plan uses, since a virtual machine stalls core by core.
    StallProbe,
}

/// Where a thread runs and how urgent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadPlan {
    pub role: Role,
    /// The one core that it is pinned to.
    pub core: u16,
    /// `SCHED_FIFO` priority, 1 to 99, larger is more urgent. `None`: an ordinary thread.
    pub priority: Option<u8>,
    /// To be asked for first, on [`Plan::housekeeping_cores`](crate::Plan::housekeeping_cores); the priority is for a kernel that refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

/// Time that a thread may use, within `period_ns` of its wake-up. Deadline and period are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reservation {
    pub runtime_ns: u64,
    /// In each of these, in ns.
    pub period_ns: u64,
}

/// The highest `SCHED_FIFO` priority.
const PRIORITY_MAX: u8 = 99;

/// Worker, port, scheduler, probe: the levels above the intake threads'.
const LEVELS_ABOVE_INTAKE: u8 = 4;

/// More levels than there are above the base.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the plan needs {needed} priorities from {base} on, and the highest is {PRIORITY_MAX}")]
#[non_exhaustive]
pub struct PrioritiesExhausted {
    pub base: u8,
    pub needed: usize,
}

impl Rule for PrioritiesExhausted {
    fn rule(&self) -> &'static str {
        "intake, worker < port < scheduler < probe, within 1 to 99"
    }

    fn help(&self) -> String {
        "lower `daemon.priority`".into()
    }
}

/// Priorities by role, from the lowest up: one level for each different deadline's intake threads
/// (the shorter the deadline the higher), worker, port, scheduler, stall probe. Where
/// they have to share a core, the worker is below the intake threads (see `arrival`).
struct Priorities {
    base: u8,
    /// Whether workers come first.
    shared: bool,
    /// Different deadlines of real-time tasks, longest first.
    levels: Vec<Nanos>,
}

impl Priorities {
    fn new(base: &Spanned<u64>, tasks: &[Task], shared: bool, problems: &mut Problems<'_>) -> Self {
        let mut levels: Vec<_> = tasks
            .iter()
            .filter(|task| task.criticality == Criticality::RealTime)
            .filter_map(|task| task.deadline)
            .collect();
        levels.sort_unstable();
        levels.dedup();
        levels.reverse();
        let (needed, lowest) = (
            levels.len() + usize::from(LEVELS_ABOVE_INTAKE),
            base.value as u8,
        );
        if usize::from(lowest) + needed - 1 > usize::from(PRIORITY_MAX) {
            let cause = PrioritiesExhausted {
                base: lowest,
                needed,
            };
            problems.add(&base.place, cause);
        }
        Self {
            base: lowest,
            shared,
            levels,
        }
    }

    /// Best-effort payloads are prepared by ordinary threads: they must never delay a real-time frame's preparation.
    fn intake(&self, task: &Task) -> Option<u8> {
        let deadline = task.deadline?;
        let level = self.levels.iter().position(|level| *level == deadline)?;
        let level = level as u8 + u8::from(self.shared);
        (task.criticality == Criticality::RealTime).then(|| self.base.saturating_add(level))
    }

    fn worker(&self) -> Option<u8> {
        if self.shared {
            return Some(self.base);
        }
        self.above(0)
    }

    fn above(&self, steps: u8) -> Option<u8> {
        Some(self.base.saturating_add(self.levels.len() as u8 + steps))
    }
}

/// All threads of the plan, as urgent as the host allows them to be.
pub(crate) fn threads(
    resolved: &Resolved<'_>,
    host: &Host,
    problems: &mut Problems<'_>,
) -> Vec<ThreadPlan> {
    let Resolved {
        manifest,
        placement,
        models,
        tasks,
        ..
    } = resolved;
    let daemon = &manifest.daemon;
    let shared = placement.shared().next().is_some();
    let priorities = Priorities::new(&daemon.priority, tasks, shared, problems);
    let mut threads = placed(placement, &priorities, tasks, host.realtime);
    if daemon.scheduling == Scheduling::Deadline {
        let stages_max = models.iter().map(|model| model.stages()).max().unwrap_or(1);
        reserve(&mut threads, tasks, stages_max, &daemon.margins);
    }
    threads
}

fn placed(
    placement: &Placement,
    priorities: &Priorities,
    tasks: &[Task],
    realtime: bool,
) -> Vec<ThreadPlan> {
    let first = placement.first();
    let mut threads = Vec::new();
    let mut add = |role, core, priority: Option<u8>| {
        threads.push(ThreadPlan {
            role,
            core,
            priority: priority.filter(|_| realtime),
            reservation: None,
        });
    };
    add(Role::Scheduler, first, priorities.above(2));
    for client in 0..clients(tasks) {
        add(Role::Port { client }, first, priorities.above(1));
    }
    let mut client = 0;
    for task in groups(tasks).map(|group| &group[0]) {
        let core = placement.intake_core(task);
        for _ in 0..task.clients {
            add(Role::Intake { client }, core, priorities.intake(task));
            client += 1;
        }
    }
    for (position, partition) in placement.partitions.iter().enumerate() {
        // Ranges of TPCs may share a leader.
        let before = placement.partitions[..position].iter();
        let mut led = before.filter(|other| !other.tpcs.is_empty());
        if !partition.tpcs.is_empty() && led.any(|other| other.cores == partition.cores) {
            continue;
        }
        for (unit, core) in partition.cores.iter().enumerate() {
            let role = Role::Worker {
                partition: PartitionId(position as u16),
                unit: unit as u8,
            };
            add(role, *core, priorities.worker());
        }
    }
    for core in placement.used() {
        add(Role::StallProbe, core, priorities.above(3));
    }
    threads
}

fn clients(tasks: &[Task]) -> u16 {
    groups(tasks).map(|group| group[0].clients).sum()
}

/// The period of a plan whose tasks have none.
const PERIOD: Nanos = Nanos::from_millis(10);

/// The kernel's shortest and longest, by its defaults (`sched_deadline_period_{min,max}_us`).
const PERIOD_MIN: Nanos = Nanos::from_micros(100);
const PERIOD_MAX: Nanos = Nanos::from_millis(4_000);

/// Gives scheduler and ports their reservations.
fn reserve(threads: &mut [ThreadPlan], tasks: &[Task], stages_max: u8, margins: &Margins) {
    let periods = tasks.iter().filter_map(|task| task.period);
    let period = periods.min().unwrap_or(PERIOD);
    let period_ns = period.clamp(PERIOD_MIN, PERIOD_MAX).as_nanos();
    let frames = frames_within(period_ns, tasks);
    let clients = u64::from(clients(tasks)).max(1);
    for thread in threads {
        // Of an event each: arrival, preparation, the end of each stage. All of them fit one core, of which the kernel gives
        // 95%.
        let (bound_ns, most_ns) = match thread.role {
            Role::Scheduler => (
                margins.dispatch.as_nanos() * (2 + u64::from(stages_max)),
                period_ns * 3 / 10,
            ),
            Role::Port { .. } => (
                (margins.dispatch + margins.egress).as_nanos(),
                period_ns * 6 / 10 / clients,
            ),
            Role::Intake { .. } | Role::Worker { .. } | Role::StallProbe => continue,
        };
        let runtime_ns = bound_ns.saturating_mul(frames).min(most_ns);
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
    groups(tasks).map(|group| of(&group[0])).sum()
}
