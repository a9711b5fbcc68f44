//! How long a frame can take from capture to prepared input: the release jitter J.
//!
//! Preparation is real work on a core that all intake threads share, so a frame may find others
//! being prepared. Fixed-priority response-time analysis (Joseph and Pandya, 1986; with release
//! jitter: Audsley and others, 1993) gives the bound: the least R with
//! `R = own + sum over j of ceil((R + J_j) / T_j) * cost_j`.
//!
//! Frames that the GPU prepares are blocks of kernels on the task's partition. They count in the same way: they delay each other
//! whatever their urgency, as the GPU serves them in the order in which they come, and they stretch the stages of all partitions that
//! have any of these TPCs. That a frame delays a stage by no more than the frame's own time, measured while stages run, is an
//! assumption about the GPU. (emulated)
//!
//! Where a worker has to share its core with the daemon's own threads, it is the least urgent of
//! them (were intake threads less urgent, a frame could wait for several whole inferences), and
//! the same analysis says by how much arrivals stretch its stages.

use punctual_core::{Nanos, SPAN_MAX};
use punctual_diagnostics::Problems;
use serde::Serialize;

use super::prepare::{self, Preparation, PreparedBy};
use crate::resolve::{Model, Resolved, Task, groups, of_frame};

/// Processor time of one event on the way through port and scheduler, system calls
/// included; bounds what they take from intake threads on their core.
pub(crate) const EVENT_COST: Nanos = Nanos::from_micros(30);

/// Bound on the way of a frame from capture to prepared input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ArrivalBound {
    /// Of a part of a pipeline: from the capture until the first part is answered.
    #[serde(skip_serializing_if = "is_zero")]
    pub first: Nanos,
    /// Capture (or the answer that it is made of) to the scheduler's decision to prepare it, wake-ups included (from the manifest).
    pub channel: Nanos,
    /// Preparing it when nothing interferes: the profile's figure with its margin.
    pub prepare: Nanos,
    /// Preparing it while the other intake threads of its core prepare theirs.
    pub prepare_worst: Nanos,
    /// Who prepares it.
    #[serde(skip_serializing_if = "PreparedBy::is_cores")]
    pub prepared_by: PreparedBy,
}

impl ArrivalBound {
    /// The release jitter of policy `punctual`: J.
    #[must_use]
    pub fn jitter(&self) -> Nanos {
        self.first + self.channel + self.prepare_worst
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

/// Work that comes again and again and delays all less urgent work.
pub(crate) struct Interference {
    cost: Nanos,
    period: Nanos,
    jitter: Nanos,
}

/// One bound a task. Figures that are missing from a profile are noted; the bound is then that of the channel alone.
pub(super) fn bounds(resolved: &Resolved<'_>, problems: &mut Problems<'_>) -> Vec<ArrivalBound> {
    let Resolved {
        tasks, placement, ..
    } = resolved;
    let margins = &resolved.manifest.daemon.margins;
    let mut prepare = Vec::new();
    for task in tasks {
        prepare.push(prepare::preparation(task, resolved, problems));
    }
    let streams = streams(tasks, |position| prepare[position]);
    let mut bounds = Vec::new();
    let mut position = 0;
    for stream in &streams {
        let task = &stream.tasks[0];
        let mut others = intake_interference(stream, &streams, resolved);
        if placement.intake_core(task) == placement.first() {
            others.extend(event_interference(resolved));
        }
        let own = stream.cost();
        // Best-effort frames are prepared by ordinary threads: nothing bounds them, and
        // nothing is promised.
        let prepare_worst = if task.is_best_effort() {
            own
        } else {
            response(own, &others)
        };
        bounds.extend(stream.tasks.iter().map(|of| {
            let preparation = prepare[position];
            position += 1;
            ArrivalBound {
                first: of.first_deadline.unwrap_or_default(),
                channel: margins.channel,
                prepare: if stream.is_pipeline() {
                    preparation.time
                } else {
                    stream.prepare
                },
                prepare_worst,
                prepared_by: preparation.by,
            }
        }));
    }
    bounds
}

/// The tasks of one table, which have its rate together, or of a pipeline.
struct Stream<'t> {
    tasks: &'t [Task],
    /// The longest preparation of a frame; of a pipeline, of all its parts.
    prepare: Nanos,
    /// Whether the GPU prepares frames of any.
    on_gpu: bool,
}

impl Stream<'_> {
    /// Of a frame of each client.
    fn cost(&self) -> Nanos {
        let clients = self.tasks[0].clients;
        self.prepare.saturating_mul(u64::from(clients))
    }

    /// How long after its capture a frame may still be prepared.
    fn jitter(&self, channel: Nanos) -> Nanos {
        let after = self.tasks.iter().filter_map(|task| task.first_deadline);
        channel + after.max().unwrap_or_default()
    }

    fn is_pipeline(&self) -> bool {
        self.tasks.iter().any(Task::is_part)
    }

    /// Whether its frames are prepared on TPCs of that partition.
    fn is_prepared_on(&self, partition: usize, resolved: &Resolved<'_>) -> bool {
        let partitions = &resolved.placement.partitions;
        let home = &partitions[self.tasks[0].partition].tpcs;
        self.on_gpu
            && partitions[partition]
                .tpcs
                .iter()
                .any(|tpc| home.contains(tpc))
    }
}

fn streams(tasks: &[Task], prepare: impl Fn(usize) -> Preparation) -> Vec<Stream<'_>> {
    let mut first = 0;
    let mut streams = Vec::new();
    for group in groups(tasks) {
        let of_group = (first..first + group.len()).map(&prepare);
        let of_group: Vec<Preparation> = of_group.collect();
        first += group.len();
        streams.push(Stream {
            tasks: group,
            prepare: of_frame(group, |at| of_group[at].time),
            on_gpu: of_group.iter().any(|each| each.by == PreparedBy::Gpu),
        });
    }
    streams
}

/// Intake threads of the same core that are as urgent or more (the shorter the deadline the more urgent), and frames on the same
/// TPCs.
fn intake_interference(
    own: &Stream<'_>,
    streams: &[Stream<'_>],
    resolved: &Resolved<'_>,
) -> Vec<Interference> {
    let placement = &resolved.placement;
    let margins = &resolved.manifest.daemon.margins;
    let first = &own.tasks[0];
    let core = placement.intake_core(first);
    let urgent = |other: &&Stream<'_>| {
        let task = &other.tasks[0];
        let on_core = placement.intake_core(task) == core && task.deadline <= first.deadline;
        let on_gpu = own.on_gpu && other.is_prepared_on(first.partition, resolved);
        task.group != first.group && !task.is_best_effort() && (on_core || on_gpu)
    };
    let others = streams.iter().filter(urgent);
    others
        .filter_map(|other| {
            Some(Interference {
                cost: other.cost(),
                period: other.tasks[0].promise()?.0,
                jitter: other.jitter(margins.channel),
            })
        })
        .collect()
}

/// Scheduler and ports: arrival, preparation, and the end of each stage of every promised frame.
fn event_interference(resolved: &Resolved<'_>) -> Vec<Interference> {
    let margins = &resolved.manifest.daemon.margins;
    let costs =
        |group: &[Task]| of_frame(group, |at| event_cost(&resolved.models[group[at].model]));
    groups(&resolved.tasks)
        .filter_map(|group| {
            let (period, deadline) = group[0].promise()?;
            Some(Interference {
                cost: costs(group),
                period,
                jitter: margins
                    .channel
                    .max(group[0].frame_deadline.unwrap_or(deadline)),
            })
        })
        .collect()
}

/// What stretches the stages of a partition: arrivals on cores that it shares with the daemon's
/// own threads, and frames that are prepared on its TPCs. Empty if it has its units for itself.
pub(super) fn on_partition(
    partition: usize,
    resolved: &Resolved<'_>,
    arrivals: &[ArrivalBound],
) -> Vec<Interference> {
    let (tasks, placement) = (&resolved.tasks, &resolved.placement);
    let margins = &resolved.manifest.daemon.margins;
    let cores = &placement.partitions[partition].cores;
    let mut others = Vec::new();
    let prepared = |position: usize| Preparation {
        by: arrivals[position].prepared_by,
        time: arrivals[position].prepare,
    };
    for stream in streams(tasks, prepared) {
        let first = &stream.tasks[0];
        let on_core = cores.contains(&placement.intake_core(first));
        let here = on_core || stream.is_prepared_on(partition, resolved);
        if let Some((period, _)) = first.promise().filter(|_| here) {
            others.push(Interference {
                cost: stream.cost(),
                period,
                jitter: stream.jitter(margins.channel),
            });
        }
    }
    if cores.contains(&placement.first()) {
        others.extend(event_interference(resolved));
    }
    others
}

/// What one frame of this model costs the scheduler and its client's port together.
pub(crate) fn event_cost(model: &Model<'_>) -> Nanos {
    EVENT_COST.saturating_mul(2 + u64::from(model.stages()))
}

/// The least fixed point, or [`SPAN_MAX`] if there is none below it.
pub(crate) fn response(own: Nanos, others: &[Interference]) -> Nanos {
    // Each round adds at least one more release of somebody, so the loop ends; the bound keeps a
    // nearly overloaded core from taking long to find out.
    const ROUNDS_MAX: usize = 100_000;
    let mut response = own;
    for _ in 0..ROUNDS_MAX {
        let mut next = own;
        for other in others {
            let span = (response + other.jitter).as_nanos();
            let releases = span.div_ceil(other.period.as_nanos().max(1));
            next += other.cost.saturating_mul(releases);
        }
        if next == response {
            return response;
        }
        if next >= SPAN_MAX {
            break;
        }
        response = next;
    }
    SPAN_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(period_us: u64, cost_us: u64) -> Interference {
        Interference {
            cost: Nanos::from_micros(cost_us),
            period: Nanos::from_micros(period_us),
            jitter: Nanos::ZERO,
        }
    }

    #[test]
    fn the_textbook_example_has_its_textbook_response_times() {
        // Tasks (T, C): (7, 3), (12, 3), (20, 5): Buttazzo, Hard Real-Time Computing Systems.
        let (first, second) = (every(7, 3), every(12, 3));
        let us = Nanos::from_micros;
        assert_eq!(response(us(3), &[]), us(3));
        assert_eq!(response(us(3), &[every(7, 3)]), us(6));
        assert_eq!(response(us(5), &[first, second]), us(20));
    }

    #[test]
    fn an_overloaded_core_has_no_bound() {
        assert_eq!(response(Nanos::from_micros(1), &[every(10, 10)]), SPAN_MAX);
    }
}
