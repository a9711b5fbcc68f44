//! Why a frame was rejected: the arithmetic of its admission, as far as the plan and the recorded steps tell it.
//!
//! Admission asks whether all promised work is still on time with the frame's own (docs/proof.md): at each deadline from its own
//! on, what is left until then, less the time until the partition is free, less the promised work due by then, less the work that
//! frames with a reservation may still need by then. The exact place of each reservation is the scheduler's own state; here it is
//! a period after the newest frame of its task that conformed. The scheduler's scale, its lending and what batches save are not in the steps.
//! Frames beyond the reservations are rejected, too, where real-time work has used its share of the partition's time.

use std::collections::BTreeMap;

use punctual_core::{
    Action, Config, Criticality, Event, Instant, Nanos, PartitionId, Rejection, Reply, StageId,
    TaskConfig, TaskId, Verdict,
};
use punctual_recording::frames::{Follower, Run, Submission};
use punctual_recording::{Names, Step};
use serde::Serialize;

use super::bounds::Bounds;
use super::share::Shares;

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
    /// From the rejection until the deadline where the least slack is left; none without a deadline.
    pub tightest_ns: Option<i64>,
    /// The promised work of open frames until then, at budgets.
    pub promised_ns: Nanos,
    /// The work that is reserved for frames to come until then, about.
    pub reserved_ns: Nanos,
    /// What was missing; none: open frames and reservations left it enough, or the reason is another.
    pub missing_ns: Option<Nanos>,
    /// Whether real-time work had used its share of the partition's time: frames beyond the reservations get no more then.
    pub share_spent: bool,
    /// That share, in thousandths.
    pub share_max: u16,
    /// What ran on its partition's compute units.
    pub running: Vec<Running>,
    /// The open frames of its partition, by task.
    pub open: Vec<Open>,
    /// What is reserved for the next frames of tasks of its partition, as above.
    pub reserved: Vec<Reserved>,
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

/// The reserved frames of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reserved {
    pub task: String,
    pub frames: u64,
    /// Their mandatory work, at budgets.
    pub work_ns: Nanos,
}

/// Work that must be done by a time.
struct Due {
    at: Instant,
    work: Nanos,
    /// Whose reservation it is; none: it is promised to an open frame, or is the frame's own.
    reserved: Option<TaskId>,
}

/// The deadline at which the least slack is left, and how much, without the frame's own work.
#[derive(Clone, Copy)]
struct Tightest {
    at: Instant,
    slack: i64,
}

/// When the next frame of each task conforms, as the accepted frames tell: a period after the last that did. Debts for
/// overruns are not in the steps.
#[derive(Debug)]
pub struct Reservations {
    next: Vec<Instant>,
}

impl Reservations {
    pub fn of(tasks: usize) -> Self {
        Self {
            next: vec![Instant::ZERO; tasks],
        }
    }

    pub fn step(&mut self, step: &Step, config: &Config) {
        let Event::Arrived(arrival) = &step.event else {
            return;
        };
        let is_accepted = |action: &Action| matches!(action, Action::Prepare { ticket, .. } if *ticket == arrival.ticket);
        let index = arrival.task.index();
        if let (Some(next), Some(task)) = (self.next.get_mut(index), config.tasks.get(index))
            && arrival.captured >= *next
            && step.actions.iter().any(is_accepted)
        {
            *next = arrival.captured.min(step.now) + task.period;
        }
    }

    fn next(&self, task: TaskId) -> Instant {
        self.next.get(task.index()).copied().unwrap_or_default()
    }
}

/// Frames of a reservation that are looked ahead, as the scheduler does at most.
const RESERVED_MAX: u64 = 16;

/// What a rejection is explained from: the state before the step that decided it.
#[derive(Clone, Copy)]
pub struct Holders<'t> {
    pub names: &'t Names,
    pub bounds: Bounds<'t>,
    pub follower: &'t Follower,
    pub reservations: &'t Reservations,
    pub shares: &'t Shares,
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
        let dues = self.dues(task.partition, reply, now);
        let tightest = due.map(|due| tightest(&dues, due, free));
        let missing = match why {
            Rejection::LateOnArrival => due.map(|due| ns(prepare + work) - signed(due, now)),
            Rejection::NoSlack => tightest.map(|tightest| ns(work) - tightest.slack),
            _ => None,
        };
        let missing = missing.filter(|missing| *missing > 0);
        let until = tightest.map_or(Instant::ZERO, |tightest| tightest.at);
        let (reserved, promised): (Vec<&Due>, Vec<&Due>) = (dues.iter())
            .filter(|due| due.at <= until)
            .partition(|due| due.reserved.is_some());
        Some(Rejected {
            prepared,
            left_ns: due.map(|due| signed(due, now)),
            prepare_ns: prepare,
            work_ns: work,
            free_in_ns: free.since(now),
            tightest_ns: tightest.map(|tightest| signed(tightest.at, now)),
            promised_ns: sum(&promised),
            reserved_ns: sum(&reserved),
            missing_ns: missing.map(|missing| Nanos::new(missing.unsigned_abs())),
            share_spent: self.is_share_spent(task.partition, now),
            share_max: self.share_max(task.partition),
            running: self.running(task.partition, now),
            open: self.open(task.partition, reply),
            reserved: self.by_task(&reserved),
            queue: self.queue(reply),
            queue_max: task.queue_max,
            request_buffers: self.bounds.config.request_buffers,
        })
    }

    fn is_share_spent(self, partition: PartitionId, now: Instant) -> bool {
        self.shares
            .is_spent(partition, now, self.bounds, self.follower)
    }

    fn share_max(self, partition: PartitionId) -> u16 {
        let plan = self.bounds.config.partitions.get(partition.index());
        plan.map_or(0, |plan| plan.share_max)
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

    /// The promised and the reserved work of a partition, by deadline.
    fn dues(self, partition: PartitionId, reply: &Reply, now: Instant) -> Vec<Due> {
        let tasks = (0..).map(TaskId).zip(&self.bounds.config.tasks);
        let reserved = tasks.filter(|(_, task)| task.partition == partition && task.reserved);
        let reserved = reserved.flat_map(|(id, task)| self.reserved(id, task, now));
        let mut dues: Vec<Due> = self.promised(partition, reply).chain(reserved).collect();
        dues.sort_by_key(|due| due.at);
        dues
    }

    fn promised(self, partition: PartitionId, reply: &Reply) -> impl Iterator<Item = Due> {
        let promised = self.others(partition, reply).filter(|(open, task)| {
            let is_ready = |open: &Submission| open.preparation.is_some_and(|p| p.end.is_some());
            task.criticality == Criticality::RealTime && is_ready(open)
        });
        promised.filter_map(move |(open, task)| {
            // Where it was submitted decides its deadline; the client may shorten it.
            let own = self.bounds.task(open.id.task)?.deadline?;
            let own = open.captured + own;
            let deadline = open.deadline.map_or(own, |deadline| deadline.min(own));
            Some(Due {
                at: self.bounds.due(deadline),
                work: self.work_left(open, task),
                reserved: None,
            })
        })
    }

    /// The next frames of a task that has a reservation.
    fn reserved(self, id: TaskId, task: &'t TaskConfig, now: Instant) -> impl Iterator<Item = Due> {
        let next = self.reservations.next(id).max(now - task.jitter);
        let deadline = task.deadline.into_iter();
        deadline.flat_map(move |deadline| {
            (0..RESERVED_MAX).map(move |place| Due {
                at: self
                    .bounds
                    .due(next + task.period.saturating_mul(place) + deadline),
                work: self.bounds.work_from(task, StageId(0)),
                reserved: Some(id),
            })
        })
    }

    fn by_task(self, reserved: &[&Due]) -> Vec<Reserved> {
        let mut by_task: BTreeMap<TaskId, Reserved> = BTreeMap::new();
        for due in reserved {
            let Some(id) = due.reserved else { continue };
            let of = by_task.entry(id).or_insert_with(|| Reserved {
                task: self.names.task(id),
                frames: 0,
                work_ns: Nanos::ZERO,
            });
            of.frames += 1;
            of.work_ns += due.work;
        }
        by_task.into_values().collect()
    }
}

/// The deadline from a frame's own on with the least slack. `dues` is sorted.
fn tightest(dues: &[Due], own: Instant, free: Instant) -> Tightest {
    let mut work = Nanos::ZERO;
    let mut dues = dues.iter().peekable();
    while let Some(due) = dues.next_if(|due| due.at <= own) {
        work += due.work;
    }
    let slack = |at, work| signed(at, free).saturating_sub(ns(work));
    let mut least = Tightest {
        at: own,
        slack: slack(own, work),
    };
    while let Some(due) = dues.next() {
        work += due.work;
        // All that is due then counts.
        let is_last = dues.peek().is_none_or(|next| next.at > due.at);
        let found = slack(due.at, work);
        if is_last && found < least.slack {
            least = Tightest {
                at: due.at,
                slack: found,
            };
        }
    }
    least
}

fn sum(dues: &[&Due]) -> Nanos {
    dues.iter().fold(Nanos::ZERO, |sum, due| sum + due.work)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_deadline_is_the_frames_own_or_a_later_one() {
        let due = |at, work| Due {
            at: Instant::from_nanos(at),
            work: Nanos::new(work),
            reserved: None,
        };
        let tightest = |own| {
            let dues = [due(10, 9), due(20, 1), due(30, 8), due(30, 8)];
            let found = tightest(&dues, Instant::from_nanos(own), Instant::from_nanos(2));
            (found.at.as_nanos(), found.slack)
        };
        // At 30, all that is due then counts: 28 - 9 - 1 - 16.
        assert_eq!(tightest(5), (10, -1));
        assert_eq!(tightest(15), (30, 2));
        assert_eq!(tightest(25), (30, 2));
        assert_eq!(tightest(99), (99, 71));
    }
}
