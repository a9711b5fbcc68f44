//! Whether the promises can be kept: each task's alone, each core's, each partition's together.

use punctual_core::{Config, Criticality, Nanos};

use crate::cause::Cause;
use crate::load::{self, CoreLoad};
use crate::models::Model;
use crate::placement::Placement;
use crate::plan::ArrivalBound;
use crate::problem::Problems;
use crate::schedulability::{self, PartitionReport};
use crate::settings::kept;
use crate::tasks::Task;

/// Why the promises can be kept.
#[derive(Default)]
pub(crate) struct Promises {
    pub(crate) loads: Vec<CoreLoad>,
    pub(crate) schedulability: Vec<PartitionReport>,
}

/// Notes every promise that cannot be kept.
pub(crate) fn check(
    tasks: &[Task],
    models: &[Model<'_>],
    placement: &Placement,
    arrivals: &[ArrivalBound],
    config: &Config,
    problems: &mut Problems<'_>,
) -> Promises {
    let before = problems.count();
    deadlines(tasks, config, arrivals, problems);
    queues(tasks, config, problems);
    let loads = load::check(tasks, models, placement, config, problems);
    // A task that cannot be on time even alone would only be named again.
    let schedulability = if problems.count() > before {
        Vec::new()
    } else {
        schedulability::test(config, &placement.partitions, tasks, problems)
    };
    Promises {
        loads,
        schedulability,
    }
}

/// Whether each queue holds its promised frames.
fn queues(tasks: &[Task], config: &Config, problems: &mut Problems<'_>) {
    for (task, settings) in tasks.iter().zip(&config.tasks) {
        let (queue, least) = (task.queue, kept(task, settings));
        // A jitter beyond the deadline was noted as such; its queue of thousands would be noise.
        let hopeless = task
            .deadline
            .is_some_and(|deadline| settings.jitter >= deadline);
        if u64::from(queue) < least && !hopeless {
            problems.add(&task.queue_place, Cause::QueueTooShort { queue, least });
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
            let cause = Cause::ArrivalTooSlow {
                jitter,
                channel: arrival.channel,
                prepare: arrival.prepare_worst,
                egress,
                available,
            };
            problems.add(&task.deadline_place, cause);
            continue;
        }
        let stages = &config.models[task.model].stages[..=usize::from(task.mandatory_exit)];
        let work = stages.iter().fold(Nanos::ZERO, |sum, stage| {
            sum + stage.times[0].on[settings.partition.index()].budget + config.dispatch_cost
        });
        let needed = jitter + work;
        if needed > available && task.criticality == Criticality::RealTime {
            let cause = Cause::DeadlineUnreachable {
                needed,
                jitter,
                work,
                exit: task.mandatory_exit,
                egress,
                available,
            };
            problems.add(&task.deadline_place, cause);
        }
    }
}
