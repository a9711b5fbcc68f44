//! Whether the promises can be kept: each task's alone, each core's, each partition's together.

use punctual_core::{Config, Criticality, Nanos, TaskConfig};
use punctual_diagnostics::{Problems, Rule};
use thiserror::Error;

use super::arrival::ArrivalBound;
use super::load::{self, CoreLoad};
use super::schedulability::{self, PartitionReport};
use super::settings::kept;
use crate::resolve::{Resolved, Task};

/// What keeps the promise of a task from being kept, whatever the others do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PromiseRule {
    /// A frame could be older than its deadline before its input is ready.
    #[error(
        "arrival alone can take {jitter} (channel {channel}, preparation {prepare}), and the \
             deadline less the reply's {egress} is {available}"
    )]
    ArrivalTooSlow {
        jitter: Nanos,
        channel: Nanos,
        prepare: Nanos,
        egress: Nanos,
        available: Nanos,
    },
    /// Not on time even on an idle machine.
    #[error(
        "the mandatory part takes {needed} (arrival {jitter}, stages to exit {exit} {work}), \
             and the deadline less the reply's {egress} is {available}"
    )]
    DeadlineUnreachable {
        needed: Nanos,
        jitter: Nanos,
        work: Nanos,
        exit: u8,
        egress: Nanos,
        available: Nanos,
    },
    /// Not on time even on an idle machine: all parts of a pipeline.
    #[error(
        "a frame's first part takes {first}, and the tasks after it {after}, each with its arrival and its mandatory stages: \
             more than the deadline, {deadline}"
    )]
    PipelineUnreachable {
        first: Nanos,
        after: Nanos,
        deadline: Nanos,
    },
    /// Less room than the promised frames take.
    #[error("`queue_depth` is {queue}; {least} frames can be open at once")]
    QueueTooShort { queue: u16, least: u64 },
}

impl Rule for PromiseRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::ArrivalTooSlow { .. } => "a frame's input is ready before its deadline (J < D)",
            Self::DeadlineUnreachable { .. } | Self::PipelineUnreachable { .. } => {
                "a frame alone on the machine is on time"
            }
            Self::QueueTooShort { .. } => "a queue holds ceil((D + J) / T) + 1 promised frames",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::ArrivalTooSlow { .. } => {
                "lower `daemon.channel_bound_us` if the channel is faster, crop less, or give the task \
                 more time"
                    .into()
            }
            Self::DeadlineUnreachable { .. } => {
                "give the task more time, choose a shallower `mandatory_exit`, or a larger \
                 partition"
                    .into()
            }
            Self::PipelineUnreachable { .. } => {
                "give the frame more time, lower `crops.at_most`, or choose shallower `mandatory_exit`s"
                    .into()
            }
            Self::QueueTooShort { least, .. } => format!("set queue_depth = {least} or more"),
        }
    }
}

/// Why the promises can be kept.
#[derive(Default)]
pub(crate) struct Promises {
    pub(crate) loads: Vec<CoreLoad>,
    pub(crate) schedulability: Vec<PartitionReport>,
}

/// Notes every promise that cannot be kept.
pub(super) fn check(
    resolved: &Resolved<'_>,
    arrivals: &[ArrivalBound],
    config: &Config,
    problems: &mut Problems<'_>,
) -> Promises {
    let tasks = &resolved.tasks;
    let before = problems.count();
    deadlines(tasks, config, arrivals, problems);
    queues(tasks, config, problems);
    let loads = load::check(resolved, config, problems);
    // A task that cannot be on time even alone would only be named again.
    let schedulability = if problems.count() > before {
        Vec::new()
    } else {
        schedulability::test(config, &resolved.placement.partitions, tasks, problems)
    };
    Promises {
        loads,
        schedulability,
    }
}

/// Whether each queue holds its promised frames.
fn queues(tasks: &[Task], config: &Config, problems: &mut Problems<'_>) {
    for (task, settings) in tasks.iter().zip(&config.tasks) {
        let (queue, least) = (task.queue_depth, kept(task, settings));
        // A jitter beyond the deadline was noted as such; its queue of thousands would be noise.
        let hopeless = task
            .deadline
            .is_some_and(|deadline| settings.jitter >= deadline);
        if u64::from(queue) < least && !hopeless {
            problems.add(
                &task.queue_place,
                PromiseRule::QueueTooShort { queue, least },
            );
        }
    }
}

/// Whether each task could be on time if it were alone.
fn deadlines(
    tasks: &[Task],
    config: &Config,
    arrivals: &[ArrivalBound],
    problems: &mut Problems<'_>,
) {
    let egress = config.egress_bound;
    for ((task, settings), arrival) in tasks.iter().zip(&config.tasks).zip(arrivals) {
        let Some(deadline) = task.deadline else {
            continue;
        };
        let available = deadline.saturating_sub(egress);
        let jitter = arrival.jitter();
        if jitter >= available {
            let cause = PromiseRule::ArrivalTooSlow {
                jitter,
                channel: arrival.channel,
                prepare: arrival.prepare_worst,
                egress,
                available,
            };
            problems.add(&task.deadline_place, cause);
            continue;
        }
        if let Some(cause) = unreachable(task, settings, jitter, config) {
            problems.add(&task.deadline_place, cause);
        }
    }
}

/// Why a real-time task cannot be on time even alone, on its partition.
fn unreachable(
    task: &Task,
    settings: &TaskConfig,
    jitter: Nanos,
    config: &Config,
) -> Option<PromiseRule> {
    let egress = config.egress_bound;
    let available = task.deadline?.saturating_sub(egress);
    let stages = &config.models[task.model].stages[..=usize::from(task.mandatory_exit)];
    let work = stages.iter().fold(Nanos::ZERO, |sum, stage| {
        sum + stage.times[0].on[settings.partition.index()].budget + config.dispatch_cost
    });
    let needed = jitter + work;
    (needed > available && task.criticality == Criticality::RealTime).then_some(
        PromiseRule::DeadlineUnreachable {
            needed,
            jitter,
            work,
            exit: task.mandatory_exit,
            egress,
            available,
        },
    )
}
