//! Why the promises of a partition can be kept: the offline test, and its findings for people.

use punctual_core::offline::{self, Demand, Infeasible, Report};
use punctual_core::{Config, Nanos, PartitionId, TaskId};
use punctual_diagnostics::{Problems, Rule};
use serde::Serialize;
use thiserror::Error;

use super::preemption::PreemptedStage;
use crate::resolve::{Placed, Task};

/// Checkpoints of each task that its tightest is looked for among. The first ones are the tight
/// ones unless the partition is nearly full: later, demand approaches its straight line.
const CHECKPOINTS_A_TASK: u64 = 4_096;

/// What to do where there is too much work.
pub(crate) const LESS_LOAD: &str =
    "lower rates, choose shallower mandatory exits, or use more cores or partitions";

/// Promises of a partition that cannot all be kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unschedulable {
    /// The offline test failed at a checkpoint.
    #[error(
        "partition {partition:?} cannot keep all its promises: within {length}, where task \
             {task:?} is due, the mandatory work due is {demand} and the blocking {blocking}"
    )]
    Overload {
        partition: String,
        /// The task whose deadline falls on the checkpoint.
        task: String,
        length: Nanos,
        demand: Nanos,
        blocking: Nanos,
    },
    /// The offline test failed before any checkpoint.
    #[error("partition {partition:?} cannot keep all its promises: {reason}")]
    Infeasible {
        partition: String,
        reason: Infeasible,
    },
}

impl Rule for Unschedulable {
    fn rule(&self) -> &'static str {
        "dbf(L) + B(L) <= L at every checkpoint L, and utilisation at most 0.999 (policy \
         `punctual`, offline test)"
    }

    fn help(&self) -> String {
        match self {
            Self::Overload { task, .. } => format!("give {task:?} more time, {LESS_LOAD}"),
            Self::Infeasible { .. } => LESS_LOAD.into(),
        }
    }
}

/// The offline test of one partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionReport {
    pub partition: PartitionId,
    /// Sum of mandatory work over period, all reserved tasks.
    pub utilisation: f64,
    /// Checkpoints that the test looked at.
    pub tested: u64,
    /// Bound on how long best-effort work keeps the partition when it is preempted, dispatch
    /// included; none without best-effort tasks.
    pub preemption: Option<Nanos>,
    /// Whose stage that is; none where only one figure is known for all of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted: Option<PreemptedStage>,
    /// One line a reserved task of the partition.
    pub tasks: Vec<TaskReport>,
}

/// The result of the offline test for one reserved task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    pub task: TaskId,
    /// Mandatory work of one request at batch 1, dispatch included (C).
    pub work: Nanos,
    /// Work of one request through all stages at batch 1, dispatch included.
    pub work_to_last_exit: Nanos,
    /// Deadline less the egress bound (D).
    pub deadline: Nanos,
    /// Release jitter (J).
    pub jitter: Nanos,
    /// Period (T).
    pub period: Nanos,
    /// C / T.
    pub utilisation: f64,
    /// The least `L - dbf(L) - B(L)` over this task's own checkpoints.
    pub slack: Nanos,
    /// The checkpoint L where that is.
    pub tightest: Nanos,
}

/// Tests every partition; what fails is noted.
pub(crate) fn test(
    config: &Config,
    partitions: &[Placed],
    tasks: &[Task],
    problems: &mut Problems<'_>,
) -> Vec<PartitionReport> {
    let mut reports = Vec::new();
    let homes = partitions.iter().enumerate();
    // Nothing is promised on a place.
    for (position, partition) in homes.filter(|(_, p)| !p.is_place()) {
        let id = PartitionId(position as u16);
        let report = offline::test_partition(config, id);
        match report.outcome {
            Ok(()) => reports.push(describe(config, id, &report)),
            Err(reason) => {
                problems.add(&partition.place, failure(&partition.name, tasks, reason));
            }
        }
    }
    reports
}

fn failure(partition: &str, tasks: &[Task], reason: Infeasible) -> Unschedulable {
    let partition = partition.to_owned();
    match reason {
        Infeasible::Overload(at) => Unschedulable::Overload {
            partition,
            task: tasks[at.task.index()].name.clone(),
            length: at.length,
            demand: at.demand,
            blocking: at.blocking,
        },
        reason => Unschedulable::Infeasible { partition, reason },
    }
}

fn describe(config: &Config, partition: PartitionId, report: &Report) -> PartitionReport {
    let demands = offline::demands(config, partition);
    let preemption = offline::preemption(config, partition);
    let tasks = demands.iter().filter(|demand| demand.reserved);
    let tasks = tasks.map(|demand| {
        let (tightest, slack) = tightest(demand, &demands, preemption, report.horizon);
        TaskReport {
            task: demand.task,
            work: demand.work,
            work_to_last_exit: full_work(config, demand.task),
            deadline: demand.deadline,
            jitter: demand.jitter,
            period: demand.period,
            utilisation: share(demand.work, demand.period),
            slack,
            tightest,
        }
    });
    PartitionReport {
        partition,
        utilisation: report.utilisation_ppm as f64 / 1e6,
        tested: report.tested,
        preemption,
        preempted: None,
        tasks: tasks.collect(),
    }
}

/// Work of one request through all stages at batch 1, dispatch included.
pub(crate) fn full_work(config: &Config, task: TaskId) -> Nanos {
    let task = &config.tasks[task.index()];
    let stages = &config.models[task.model.index()].stages;
    stages.iter().fold(Nanos::ZERO, |sum, stage| {
        sum + stage.times[0].on[task.partition.index()].budget + config.dispatch_cost
    })
}

pub(crate) fn share(part: Nanos, whole: Nanos) -> f64 {
    part.as_nanos() as f64 / whole.as_nanos().max(1) as f64
}

/// The checkpoint of this task with the least slack, from the definition of `dbf` and `B`: it
/// shares no code with the test itself, and the tests of this crate compare the two.
fn tightest(
    of: &Demand,
    all: &[Demand],
    preemption: Option<Nanos>,
    horizon: Nanos,
) -> (Nanos, Nanos) {
    let first = of.deadline.saturating_sub(of.jitter);
    let mut found = (first, Nanos::MAX);
    for k in 0..CHECKPOINTS_A_TASK {
        let length = first + of.period.saturating_mul(k);
        if k > 0 && length > horizon {
            break;
        }
        let slack = slack(length, all, preemption);
        if slack < found.1 {
            found = (length, slack);
        }
    }
    found
}

fn slack(length: Nanos, all: &[Demand], preemption: Option<Nanos>) -> Nanos {
    let due = all.iter().filter(|demand| demand.reserved).map(|demand| {
        let reach = length + demand.jitter;
        if reach < demand.deadline {
            return Nanos::ZERO;
        }
        let span = reach.saturating_sub(demand.deadline);
        let jobs = span.as_nanos() / demand.period.as_nanos().max(1) + 1;
        demand.work.saturating_mul(jobs)
    });
    let demand = due.fold(Nanos::ZERO, |sum, work| sum + work);
    let longer = all.iter().filter(|other| other.deadline > length);
    let stages = longer.map(|other| other.longest_stage);
    let blocking = stages.chain(preemption).max().unwrap_or(Nanos::ZERO);
    length.saturating_sub(demand + blocking)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of policy `punctual`.
    fn worked_example() -> Vec<Demand> {
        let task = |id, deadline, period, work, stage| Demand {
            task: TaskId(id),
            work: Nanos::from_millis(work),
            longest_stage: Nanos::from_millis(stage),
            deadline: Nanos::from_millis(deadline),
            period: Nanos::from_millis(period),
            jitter: Nanos::ZERO,
            reserved: true,
        };
        vec![
            task(0, 8, 10, 3, 3),
            task(1, 20, 20, 6, 3),
            task(2, 40, 40, 8, 4),
        ]
    }

    #[test]
    fn tightest_checkpoints_agree_with_the_test_that_enumerates_all() {
        let tasks = worked_example();
        let preemption = Some(Nanos::from_millis(1));
        let report = offline::test(&tasks, preemption);
        assert_eq!(report.outcome, Ok(()));
        let least = tasks
            .iter()
            .map(|task| tightest(task, &tasks, preemption, report.horizon))
            .min_by_key(|(_, slack)| *slack)
            .unwrap();
        let expected = report.tightest.unwrap();
        assert_eq!(least, (expected.length, expected.slack()));
        for checkpoint in &report.checkpoints {
            assert_eq!(
                slack(checkpoint.length, &tasks, preemption),
                checkpoint.slack()
            );
        }
    }
}
