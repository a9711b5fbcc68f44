//! Why a frame was rejected: the arithmetic of its admission, as far as the plan and the recorded steps tell it.
//!
//! Admission asks whether all promised work is still on time with the frame's own (docs/proof.md): at each deadline from its own
//! on, what is left until then, less the time until the partition is free, less the promised work due by then, less the work that
//! reserved frames may still need by then. The last is the scheduler's own state and is not in the steps; nor are its scale and
//! its lending, nor what batches may save. Where open frames alone leave it enough, reservations hold the rest.

use std::collections::BTreeMap;

use punctual_core::{
    Criticality, Instant, Nanos, PartitionId, Rejection, Reply, StageId, TaskConfig, TaskId,
    Verdict,
};
use punctual_recording::Names;
use punctual_recording::frames::{Follower, Run, Submission};
use serde::Serialize;

use super::bounds::Bounds;

/// The arithmetic of a rejection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rejected {
    /// Whether its input was prepared: else it was rejected when it arrived.
    pub prepared: bool,
    /// From the rejection until an answer had to be decided; negative: that was over.
    pub left_ns: Option<i64>,
    /// The profiled time of its preparation, if that was still to come.
    pub prepare_ns: Nanos,
    /// Its mandatory work, at budgets.
    pub work_ns: Nanos,
    /// Until the partition was free, at budgets. The test at arrival does not count it.
    pub free_in_ns: Nanos,
    /// The promised work before it, at budgets, at the deadline where the least slack is left.
    pub promised_ns: Nanos,
    /// What was missing, as far as open frames tell; none: they left it enough, or the reason is another.
    pub missing_ns: Option<Nanos>,
    /// What ran on its partition's compute units.
    pub running: Vec<Running>,
    /// The open frames of its partition, by task.
    pub open: Vec<Open>,
    /// The tasks of its partition that have reservations.
    pub reserved: Vec<String>,
    /// How many open frames its task had, and may have.
    pub queue: u64,
    pub queue_max: u16,
    pub request_buffers: u16,
}

/// A stage that ran then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Running {
    pub model: String,
    /// 0 is the first.
    pub stage: u8,
    pub frames: Vec<String>,
    /// Since it was ordered.
    pub since_ns: Nanos,
    pub budget_ns: Option<Nanos>,
}

/// The open frames of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Open {
    pub task: String,
    pub frames: u64,
    /// Whether their deadlines may be promised: else they are best effort, and hold no slack.
    pub promised: bool,
    /// Their mandatory work that was left, at budgets.
    pub work_ns: Nanos,
}

/// The promised work of an open frame.
struct Promised {
    due: Instant,
    work: Nanos,
}

/// The deadline at which the least slack is left.
struct Tightest {
    promised: Nanos,
    slack: i64,
}

/// What a rejection is explained from: the state before the step that decided it.
#[derive(Clone, Copy)]
pub struct Holders<'t> {
    pub names: &'t Names,
    pub bounds: Bounds<'t>,
    pub follower: &'t Follower,
}

impl<'t> Holders<'t> {
    /// None of another verdict, and of a task that the plan does not have.
    pub fn of(self, reply: &Reply, now: Instant) -> Option<Rejected> {
        let Verdict::Rejected(why) = reply.verdict else {
            return None;
        };
        let task = self.bounds.task(reply.task)?;
        let prepared = reply.request.is_some();
        let due = Some(self.bounds.due(reply.deadline)).filter(|due| *due != Instant::FAR_FUTURE);
        let work = self.bounds.work_from(task, StageId(0));
        let to_prepare = Some(task.prepare).filter(|_| !prepared);
        let prepare = to_prepare.unwrap_or(Nanos::ZERO);
        let free = self.free_from(task.partition, now).filter(|_| prepared);
        let free = free.unwrap_or(now);
        let tightest = due.map(|due| self.tightest(task, reply, due, free));
        let missing = match why {
            Rejection::LateOnArrival => due.map(|due| ns(prepare + work) - signed(due, now)),
            Rejection::NoSlack => tightest.as_ref().map(|tightest| ns(work) - tightest.slack),
            _ => None,
        };
        let missing = missing.filter(|missing| *missing > 0);
        Some(Rejected {
            prepared,
            left_ns: due.map(|due| signed(due, now)),
            prepare_ns: prepare,
            work_ns: work,
            free_in_ns: free.since(now),
            promised_ns: tightest.map_or(Nanos::ZERO, |tightest| tightest.promised),
            missing_ns: missing.map(|missing| Nanos::new(missing.unsigned_abs())),
            running: self.running(task.partition, now),
            open: self.open(task.partition, reply),
            reserved: self.reserved(task.partition),
            queue: self.queue(reply),
            queue_max: task.queue_max,
            request_buffers: self.bounds.config.request_buffers,
        })
    }

    /// What runs on compute units of a partition.
    fn blocking(self, partition: PartitionId) -> impl Iterator<Item = &'t Run> {
        let running = self.follower.running().map(|run| &**run);
        running.filter(move |run| self.bounds.overlap(run.partition, partition))
    }

    /// f: when the partition is free, at budgets; a stage that is over its budget may end at once.
    fn free_from(self, partition: PartitionId, now: Instant) -> Option<Instant> {
        let delta = self.bounds.config.dispatch_cost;
        let until = |run: &Run| {
            let budget = run.time.map_or(Nanos::ZERO, |time| time.budget);
            (run.ordered + budget + delta).max(now)
        };
        self.blocking(partition).map(until).max()
    }

    fn running(self, partition: PartitionId, now: Instant) -> Vec<Running> {
        let running = self.blocking(partition).map(|run| Running {
            model: self.names.model(run.model),
            stage: run.stage.0,
            frames: (run.members.iter())
                .filter_map(|member| member.frame)
                .map(|frame| self.names.frame(frame))
                .collect(),
            since_ns: now.since(run.ordered),
            budget_ns: run.time.map(|time| time.budget),
        });
        running.collect()
    }

    /// The open frames of a partition but the one that is replied to, with the tasks that answer them.
    fn others(
        self,
        partition: PartitionId,
        reply: &Reply,
    ) -> impl Iterator<Item = (&'t Submission, &'t TaskConfig)> {
        let ticket = reply.ticket;
        let others = self
            .follower
            .open()
            .filter(move |open| open.id.ticket != ticket);
        let with_task = others.filter_map(move |open| {
            let task = open.preparation.map(|preparation| preparation.task)?;
            Some((open, self.bounds.task(task)?))
        });
        with_task.filter(move |(_, task)| task.partition == partition)
    }

    fn open(self, partition: PartitionId, reply: &Reply) -> Vec<Open> {
        let mut by_task: BTreeMap<TaskId, Open> = BTreeMap::new();
        for (open, task) in self.others(partition, reply) {
            let of = by_task.entry(open.id.task).or_insert_with(|| Open {
                task: self.names.task(open.id.task),
                frames: 0,
                promised: task.criticality == Criticality::RealTime,
                work_ns: Nanos::ZERO,
            });
            of.frames += 1;
            of.work_ns += self.work_left(open, task);
        }
        by_task.into_values().collect()
    }

    fn queue(self, reply: &Reply) -> u64 {
        let open = self.follower.open();
        let of_task = open.filter(|open| {
            let task = open
                .preparation
                .map_or(open.id.task, |preparation| preparation.task);
            task == reply.task && open.id.ticket != reply.ticket
        });
        of_task.count() as u64
    }

    fn work_left(self, open: &Submission, task: &TaskConfig) -> Nanos {
        let mut runs = open.runs.iter().rev();
        let done = runs.find(|share| share.answer.is_some() || share.run.end.is_none());
        let next = done.map_or(0, |share| share.run.stage.0.saturating_add(1));
        self.bounds.work_from(task, StageId(next))
    }

    /// The deadline from a frame's own on at which the promised work leaves the least slack, without the frame's own work.
    fn tightest(self, task: &TaskConfig, reply: &Reply, due: Instant, free: Instant) -> Tightest {
        let mut promised = self.promised(task.partition, reply);
        promised.push(Promised {
            due,
            work: Nanos::ZERO,
        });
        promised.sort_by_key(|promised| promised.due);
        let mut sum = Nanos::ZERO;
        let points = promised.iter().map(|promise| {
            sum += promise.work;
            let slack = signed(promise.due, free).saturating_sub(ns(sum));
            (promise.due, sum, slack)
        });
        let later = points.filter(|(at, ..)| *at >= due);
        let least = later.min_by_key(|(_, _, slack)| *slack);
        let (_, promised, slack) = least.expect("the frame's own deadline is one");
        Tightest { promised, slack }
    }

    fn promised(self, partition: PartitionId, reply: &Reply) -> Vec<Promised> {
        let others = self.others(partition, reply);
        let promised = others.filter(|(open, task)| {
            let is_ready = |open: &Submission| open.preparation.is_some_and(|p| p.end.is_some());
            task.criticality == Criticality::RealTime && is_ready(open)
        });
        let promised = promised.filter_map(|(open, task)| {
            // Where it was submitted decides its deadline; the client may shorten it.
            let own = self.bounds.task(open.id.task)?.deadline?;
            let own = open.captured + own;
            let deadline = open.deadline.map_or(own, |deadline| deadline.min(own));
            Some(Promised {
                due: self.bounds.due(deadline),
                work: self.work_left(open, task),
            })
        });
        promised.collect()
    }

    fn reserved(self, partition: PartitionId) -> Vec<String> {
        let tasks = (0..).map(TaskId).zip(&self.bounds.config.tasks);
        let reserved = tasks.filter(|(_, task)| task.partition == partition && task.reserved);
        reserved.map(|(id, _)| self.names.task(id)).collect()
    }
}

/// `a - b` in nanoseconds, saturating.
fn signed(a: Instant, b: Instant) -> i64 {
    let wide = i128::from(a.as_nanos()) - i128::from(b.as_nanos());
    wide.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64
}

fn ns(span: Nanos) -> i64 {
    i64::try_from(span.as_nanos())
        .unwrap_or(i64::MAX)
        .min(i64::MAX / 4)
}
