//! Best-effort work, in the time that real-time work leaves (the *gaps*). Its tasks share this time evenly
//! with the tasks of demoted models.

use crate::ids::{BATCH_MAX, TaskId};
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::queues::BestEffortJob;
use crate::punctual::slot::Kind;
use crate::punctual::tables::StageRow;
use crate::punctual::view::View;
use crate::time::Instant;
use crate::time::{ns, signed};

impl View<'_> {
    /// The task that has received the least time, and the batch around its oldest request. `room` is the
    /// slack for a stage of a demoted model.
    pub fn best_effort(&self, room: i64) -> Option<(TaskId, Option<Choice>)> {
        let jobs = self.queues.best_effort().iter();
        let head = *jobs
            .filter(|job| self.can_end_in_time(job, 0) && self.may_run(job, room))
            .min_by_key(|job| (self.life.service.received(job.task), job.order))?;
        if head.demoted {
            return Some((head.task, Some(self.demoted_choice(&head, room))));
        }
        let row = self.tables.row(head.row);
        let mut best: Option<Choice> = None;
        for size in 0..row.sizes.len() {
            let Some(choice) = self.best_effort_batch(&head, row, size) else {
                continue;
            };
            if best.as_ref().is_none_or(|b| cheaper(row, &choice, b)) {
                best = Some(choice);
            }
        }
        Some((head.task, best))
    }

    /// The head and the oldest others of its row, in one compiled batch size. `None` if a smaller size
    /// holds the same members.
    fn best_effort_batch(
        &self,
        head: &BestEffortJob,
        row: &StageRow,
        size: usize,
    ) -> Option<Choice> {
        let places = row.sizes[size];
        // A batch that is preempted in every gap starts again from its beginning and never ends. So sizes
        // adapt to the gaps (docs/decisions/0007). One request alone may always try. What was not measured runs alone.
        let fits_gaps = places <= self.partition.gaps().places();
        if size > 0 && !(fits_gaps && self.readiness.is_measured(row)) {
            return None;
        }
        let fits = |job: &&BestEffortJob| {
            (job.row, job.cohort, job.demoted) == (head.row, head.cohort, head.demoted)
                && job.batch_max >= places
                && self.can_end_in_time(job, size)
        };
        if !fits(&head) {
            return None;
        }
        let others = self.queues.best_effort().iter();
        let others = others.filter(|job| job.buffer != head.buffer).filter(fits);
        let members: heapless::Vec<&BestEffortJob, BATCH_MAX> = core::iter::once(head)
            .chain(others)
            .take(usize::from(places))
            .collect();
        let smaller = if size == 0 { 0 } else { row.sizes[size - 1] };
        if members.len() <= usize::from(smaller) {
            return None;
        }
        let first_due = members.iter().map(|m| m.due).min()?;
        let start_slack = if first_due == Instant::FAR_FUTURE {
            // No deadline bounds the window.
            i64::MAX
        } else {
            signed(first_due, self.now) - ns(row.cost[size])
        };
        Some(Choice {
            kind: Kind::BestEffort,
            home: self.index,
            row: head.row,
            size,
            members: members.iter().map(|m| m.buffer).collect(),
            start_slack,
        })
    }

    /// Whether a request may run now if no real-time work does. A stage of a demoted model must fit the
    /// slack, because it cannot be preempted. Other best-effort work may run unless it is shed.
    fn may_run(&self, job: &BestEffortJob, room: i64) -> bool {
        if job.demoted {
            return ns(self.stretched_cost(job.row)) <= room && !self.sheds(job.task);
        }
        !self.holds.shedding
    }

    /// Whether a request's answer is final because real-time work takes the partition. A request without a
    /// deadline never waits for depth: the next gap goes to its client's next frame (docs/decisions/0006).
    pub fn gives_up_depth(&self, job: &BestEffortJob) -> bool {
        let running = self.partition.slot().running();
        job.due == Instant::FAR_FUTURE
            && !job.demoted
            && running.is_some_and(|action| action.kind != Kind::BestEffort)
            && self.holds_enough(job.buffer)
    }

    /// Whether a best-effort request waits for its first answer that is enough, or runs for it.
    pub fn best_effort_needs_answer(&self) -> bool {
        let running = self.partition.slot().running();
        let running = running.filter(|action| action.kind == Kind::BestEffort);
        let mut members = running.iter().flat_map(|action| &action.members);
        let mut waiting = self.queues.best_effort().iter();
        waiting.any(|job| !job.demoted && !self.holds_enough(job.buffer))
            || members.any(|id| !self.holds_enough(id.buffer))
    }

    /// Whether a request holds an answer that counts, of its task's `threshold_min`: enough where time is short.
    fn holds_enough(&self, buffer: u16) -> bool {
        let request = self.life.requests.get(buffer);
        let least = self.tables.task(request.task).threshold_min;
        self.life.has_mandatory_answer(buffer, self.tables)
            && request
                .answer
                .is_some_and(|(_, answer)| answer.confidence >= least)
    }

    /// Whether the next stage, at a batch size, ends before the request's deadline if it starts
    /// now and is not preempted.
    fn can_end_in_time(&self, job: &BestEffortJob, size: usize) -> bool {
        self.now + self.tables.row(job.row).cost[size] <= job.due
    }
}

/// Whether `a` takes less time for each member. Of equals, the one that comes later is larger, and better.
fn cheaper(row: &StageRow, a: &Choice, b: &Choice) -> bool {
    let each =
        |x: &Choice, y: &Choice| u128::from(row.cost[x.size].as_nanos()) * y.members.len() as u128;
    each(a, b) <= each(b, a)
}
