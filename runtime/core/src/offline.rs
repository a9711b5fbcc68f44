//! The schedulability test at plan time: non-preemptive EDF with sporadic tasks and release
//! jitter (George, Rivierre and Spuri, 1996; limited preemption: Baruah, 2005).
//!
//! For one partition, with C the mandatory work of a task at batch 1, that of all requests that may be captured at the
//! same time, D its deadline, T its period and J its release jitter:
//!
//! - `dbf(L) = sum of C_i * max(0, floor((L + J_i - D_i) / T_i) + 1)`: the most mandatory work
//!   that can be released and due inside a span of length L;
//! - `B(L)`: the longest stage, not due inside the span, that may have just started: a mandatory
//!   stage of any real-time task with `D_j > L`, or best-effort work until it is preempted. Tasks without
//!   a reservation count, too: their requests can be the head of the EDF queue.
//!
//! The test passes if `sum of C_i / T_i <= 0.999` and `dbf(L) + B(L) <= L` at every L where
//! `dbf` steps, up to the horizon after which the first condition implies the second. `B` falls with L, so
//! the test examines every step and skips none. Optional stages and batches are not in `B`: the scheduler
//! gates them online against the same bound (docs/proof.md).

use alloc::vec::Vec;

use crate::config::{Config, Criticality};
use crate::ids::{PartitionId, TaskId};
use crate::time::Nanos;

/// Largest utilisation that passes the test, in 1/1000. The horizon has 1 - U as its divisor, so above this
/// value the number of checkpoints is impractical.
const UTILISATION_MAX_MILLI: u64 = 999;

/// Most checkpoints that the test examines. With more, it does not pass.
pub const CHECKPOINTS_MAX: u64 = 4_000_000;

/// A real-time task on the partition under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The task, for the report.
    pub task: TaskId,
    /// C: mandatory work at batch 1, with the dispatch cost of each of its stages, of as many requests as a burst has.
    pub work: Nanos,
    /// The longest of its mandatory stages, with the dispatch cost.
    pub longest_stage: Nanos,
    /// D: deadline relative to capture, less the egress bound.
    pub deadline: Nanos,
    /// T: least time between two captures.
    pub period: Nanos,
    /// J: bound on capture → prepared.
    pub jitter: Nanos,
    /// Whether capacity is reserved for it. Without, it only counts in B.
    pub reserved: bool,
}

/// The test at one length L.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// L.
    pub length: Nanos,
    /// The task whose deadline falls on L.
    pub task: TaskId,
    /// dbf(L).
    pub demand: Nanos,
    /// B(L).
    pub blocking: Nanos,
}

impl Checkpoint {
    /// Whether dbf(L) + B(L) <= L.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.demand + self.blocking <= self.length
    }

    /// L - dbf(L) - B(L); zero also if it is negative.
    #[must_use]
    pub fn slack(&self) -> Nanos {
        self.length.saturating_sub(self.demand + self.blocking)
    }
}

/// Why a set of tasks is not schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Infeasible {
    #[error(
        "mandatory work fills {utilisation_ppm} ppm of the partition, at most {} ppm are possible: lower \
         a rate, choose a shallower mandatory exit, or move a task to another partition",
        UTILISATION_MAX_MILLI * 1_000
    )]
    Utilisation {
        /// Sum of C/T in parts per million, rounded up.
        utilisation_ppm: u64,
    },
    /// A task's jitter takes up its deadline.
    #[error(
        "task {}: its jitter of {jitter} is not less than its deadline of {deadline} (less the egress \
         bound): lengthen the deadline or shorten the preparation", task.0
    )]
    Jitter {
        task: TaskId,
        /// J.
        jitter: Nanos,
        /// D.
        deadline: Nanos,
    },
    /// A task has no period.
    #[error("task {}: its period is 0 ns: give it the least time between two captures", task.0)]
    Period { task: TaskId },
    /// Demand and blocking exceed a span.
    #[error(
        "within {} the mandatory work due is {} and the blocking {}, which is more: a deadline of task {} cannot \
         be promised; lengthen it, lower a rate, or choose a shallower mandatory exit",
        .0.length, .0.demand, .0.blocking, .0.task.0
    )]
    Overload(Checkpoint),
    /// The horizon has too many checkpoints to examine.
    #[error(
        "the utilisation of {utilisation_ppm} ppm is so high that the test needs more than {CHECKPOINTS_MAX} \
         checkpoints: lower a rate or choose a shallower mandatory exit"
    )]
    TooManyCheckpoints {
        /// Sum of C/T in parts per million, rounded up.
        utilisation_ppm: u64,
    },
}

/// The outcome of [`test()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Sum of C/T of the reserved tasks in parts per million, rounded up.
    pub utilisation_ppm: u64,
    /// The longest span that the test must examine.
    pub horizon: Nanos,
    /// The number of lengths that were tested.
    pub tested: u64,
    /// The first [`REPORTED_MAX`] lengths, by rising length.
    pub checkpoints: Vec<Checkpoint>,
    /// The length with the least slack; if the test failed, the first that does not fit.
    pub tightest: Option<Checkpoint>,
    /// Whether the policy can promise the tasks' deadlines.
    pub outcome: Result<(), Infeasible>,
}

/// Most checkpoints in a [`Report`].
pub const REPORTED_MAX: usize = 32;

/// Tests the tasks of one partition. `preemption`: the bound P (with the dispatch cost) if
/// best-effort work may run there.
#[must_use]
pub fn test(tasks: &[Demand], preemption: Option<Nanos>) -> Report {
    let mut report = Report {
        utilisation_ppm: 0,
        horizon: Nanos::ZERO,
        tested: 0,
        checkpoints: Vec::new(),
        tightest: None,
        outcome: Ok(()),
    };
    for task in tasks {
        let (jitter, deadline) = (task.jitter, task.deadline);
        if task.period == Nanos::ZERO {
            report.outcome = Err(Infeasible::Period { task: task.task });
            return report;
        }
        if task.reserved && jitter >= deadline {
            let task = task.task;
            report.outcome = Err(Infeasible::Jitter {
                task,
                jitter,
                deadline,
            });
            return report;
        }
    }
    // In 2^-32 per nanosecond, rounded up: never less than the true utilisation.
    let utilisation: u128 = reserved(tasks).map(slope).sum();
    report.utilisation_ppm = ((utilisation * 1_000_000).div_ceil(1 << 32)) as u64;
    if utilisation * 1_000 > u128::from(UTILISATION_MAX_MILLI) << 32 {
        report.outcome = Err(Infeasible::Utilisation {
            utilisation_ppm: report.utilisation_ppm,
        });
        return report;
    }
    report.horizon = horizon(tasks, preemption, utilisation);
    test_steps(tasks, preemption, &mut report);
    report
}

/// The longest that an action may block the partition without endangering a reserved task: the
/// least `L - dbf(L)` up to the longest deadline. Longer spans have no part in it: the head of the EDF queue
/// blocks only deadlines before its own. The longest span if no task has a reservation; nothing if there are more steps than
/// [`CHECKPOINTS_MAX`]. A joint batch must fit into it (`joint`).
#[must_use]
pub fn blocking_allowed(tasks: &[Demand]) -> Nanos {
    let longest = tasks.iter().map(|task| task.deadline).max();
    let mut steps: Vec<(Nanos, Nanos)> = Vec::new();
    for task in reserved(tasks) {
        let mut at = task.deadline.saturating_sub(task.jitter);
        while longest.is_some_and(|longest| at <= longest) && task.period > Nanos::ZERO {
            if steps.len() as u64 == CHECKPOINTS_MAX {
                return Nanos::ZERO;
            }
            steps.push((at, task.work));
            at += task.period;
        }
    }
    steps.sort_unstable();
    let (mut allowed, mut demand) = (Nanos::MAX, Nanos::ZERO);
    for (at, work) in steps {
        demand += work;
        allowed = allowed.min(at.saturating_sub(demand));
    }
    allowed
}

/// Tests the tasks of a partition as `config` describes them.
///
/// # Panics
/// If the config refers to models, stages or partitions that it does not have.
#[must_use]
pub fn test_partition(config: &Config, partition: PartitionId) -> Report {
    test(&demands(config, partition), preemption(config, partition))
}

/// The real-time tasks of a partition, with the dispatch cost in each stage and without the egress
/// bound in each deadline.
///
/// # Panics
/// If the config refers to models, stages or partitions that it does not have.
#[must_use]
pub fn demands(config: &Config, partition: PartitionId) -> Vec<Demand> {
    let tasks = config.tasks.iter().enumerate();
    tasks
        .filter(|(_, task)| {
            task.partition == partition && task.criticality == Criticality::RealTime
        })
        .map(|(index, task)| {
            let stages = &config.models[task.model.index()].stages[..=task.mandatory_exit.index()];
            let cost = |stage: &crate::StageConfig| {
                stage.times[0].on[partition.index()].budget + config.dispatch_cost
            };
            let work = stages.iter().fold(Nanos::ZERO, |sum, s| sum + cost(s));
            Demand {
                task: TaskId(index as u16),
                work: work.saturating_mul(u64::from(task.burst)),
                longest_stage: stages.iter().map(cost).max().unwrap_or(Nanos::ZERO),
                deadline: task
                    .deadline
                    .unwrap_or(Nanos::ZERO)
                    .saturating_sub(config.egress_bound),
                period: task.period,
                jitter: task.jitter,
                reserved: task.reserved,
            }
        })
        .collect()
}

/// P with the dispatch cost, if best-effort work may run on the partition.
#[must_use]
pub fn preemption(config: &Config, partition: PartitionId) -> Option<Nanos> {
    let best_effort = config
        .tasks
        .iter()
        .any(|task| task.partition == partition && task.criticality == Criticality::BestEffort);
    best_effort
        .then(|| config.partitions[partition.index()].preemption_bound + config.dispatch_cost)
}

/// The number of request buffers, and of places in the task's queue, to reserve for the conforming requests of
/// a task: `ceil((D + J) / T) + 1`. This number can be open at once. Without them, other requests could take all
/// buffers, and a conforming one could not be accepted. `deadline` is with the egress bound.
#[must_use]
pub fn buffers_reserved(deadline: Nanos, jitter: Nanos, period: Nanos) -> u64 {
    let span = (deadline + jitter).as_nanos();
    span.div_ceil(period.as_nanos().max(1)).saturating_add(1)
}

fn reserved(tasks: &[Demand]) -> impl Iterator<Item = &Demand> {
    tasks.iter().filter(|task| task.reserved)
}

/// C/T in 2^-32, rounded up: never less than the true utilisation.
fn slope(task: &Demand) -> u128 {
    (u128::from(task.work.as_nanos()) << 32).div_ceil(u128::from(task.period.as_nanos()))
}

/// `max(max D, (P + sum of C (1 + (J - D)/T)) / (1 - U))`: for longer spans the straight line
/// over `dbf`, which grows by U < 1, stays below `L - P`.
fn horizon(tasks: &[Demand], preemption: Option<Nanos>, utilisation: u128) -> Nanos {
    let deadline_max = tasks.iter().map(|task| task.deadline).max();
    // Every rounding makes the horizon longer: a longer one tests more, a shorter one could miss a step.
    let mut offset = preemption.map_or(0, |p| i128::from(p.as_nanos()) << 32);
    for task in reserved(tasks) {
        let work = i128::from(task.work.as_nanos()) << 32;
        let early = task.deadline.saturating_sub(task.jitter).as_nanos();
        // This part is subtracted, so its slope is rounded down.
        let slope_floor =
            (u128::from(task.work.as_nanos()) << 32) / u128::from(task.period.as_nanos());
        offset += work - (slope_floor * u128::from(early)) as i128;
    }
    let line = u128::try_from(offset)
        .unwrap_or(0)
        .div_ceil((1 << 32) - utilisation);
    deadline_max
        .unwrap_or(Nanos::ZERO)
        .max(Nanos::new(u64::try_from(line).unwrap_or(u64::MAX)))
}

/// Tests every step of `dbf` up to the horizon, by rising length.
fn test_steps(tasks: &[Demand], preemption: Option<Nanos>, report: &mut Report) {
    let mut next: Vec<(Nanos, &Demand)> = reserved(tasks)
        .map(|task| (task.deadline.saturating_sub(task.jitter), task))
        .collect();
    let mut demand = Nanos::ZERO;
    loop {
        let Some(length) = next.iter().map(|(length, _)| *length).min() else {
            return;
        };
        if length > report.horizon {
            return;
        }
        if report.tested == CHECKPOINTS_MAX {
            report.outcome = Err(Infeasible::TooManyCheckpoints {
                utilisation_ppm: report.utilisation_ppm,
            });
            return;
        }
        let mut due = TaskId::default();
        for (at, task) in &mut next {
            if *at == length {
                demand += task.work;
                due = task.task;
                *at += task.period;
            }
        }
        let checkpoint = Checkpoint {
            length,
            task: due,
            demand,
            blocking: blocking(tasks, preemption, length),
        };
        report.tested += 1;
        if report.checkpoints.len() < REPORTED_MAX {
            report.checkpoints.push(checkpoint);
        }
        if report
            .tightest
            .is_none_or(|t| checkpoint.slack() < t.slack())
            || !checkpoint.fits()
        {
            report.tightest = Some(checkpoint);
        }
        if !checkpoint.fits() {
            report.outcome = Err(Infeasible::Overload(checkpoint));
            return;
        }
    }
}

/// B(L).
fn blocking(tasks: &[Demand], preemption: Option<Nanos>, length: Nanos) -> Nanos {
    tasks
        .iter()
        .filter(|task| task.deadline > length)
        .map(|task| task.longest_stage)
        .chain(preemption)
        .max()
        .unwrap_or(Nanos::ZERO)
}
