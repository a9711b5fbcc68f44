//! Best-effort work, in the gaps. Its tasks share the gaps evenly, with those of demoted models.

use crate::ids::{BATCH_MAX, TaskId};
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::queues::BestEffortJob;
use crate::punctual::slot::Kind;
use crate::punctual::tables::StageRow;
use crate::punctual::view::View;
use crate::time::Instant;
use crate::time::{ns, signed};

impl View<'_> {
    /// The batch around the oldest request of the task that received least, and that task.
    pub fn best_effort(&self, room: i64) -> Option<(TaskId, Option<Choice>)> {
        let waiting = self.queues.best_effort().iter();
        let head = *waiting
            .filter(|w| self.can_end_in_time(w, 0) && self.finds_gap(w, room))
            .min_by_key(|w| (self.life.service.received(w.task), w.order))?;
        if head.demoted {
            return Some((head.task, Some(self.demoted_choice(&head, room))));
        }
        let row = self.tables.row(head.row);
        let mut best: Option<Choice> = None;
        for size in 0..row.sizes.len() {
            let Some(choice) = self.gap_batch(&head, row, size) else {
                continue;
            };
            if best.as_ref().is_none_or(|b| cheaper(row, &choice, b)) {
                best = Some(choice);
            }
        }
        Some((head.task, best))
    }

    /// The head and the oldest others of its row, at a compiled size that they fill better than the next smaller one.
    fn gap_batch(&self, head: &BestEffortJob, row: &StageRow, size: usize) -> Option<Choice> {
        let places = row.sizes[size];
        if size > 0 && places > self.partition.gaps.places() {
            return None;
        }
        let fits = |w: &&BestEffortJob| {
            (w.row, w.cohort, w.demoted) == (head.row, head.cohort, head.demoted)
                && w.batch_max >= places
                && self.can_end_in_time(w, size)
        };
        if !fits(&head) {
            return None;
        }
        let others = self.queues.best_effort().iter();
        let others = others.filter(|w| w.buffer != head.buffer).filter(fits);
        let members: heapless::Vec<&BestEffortJob, BATCH_MAX> = core::iter::once(head)
            .chain(others)
            .take(usize::from(places))
            .collect();
        let smaller = if size == 0 { 0 } else { row.sizes[size - 1] };
        if members.len() <= usize::from(smaller) {
            return None;
        }
        let first_due = members.iter().map(|m| m.due).min()?;
        let spare = if first_due == Instant::FAR_FUTURE {
            i64::MAX
        } else {
            signed(first_due, self.now) - ns(row.cost[size])
        };
        Some(Choice {
            kind: Kind::BestEffort,
            row: head.row,
            size,
            members: members.iter().map(|m| m.buffer).collect(),
            spare,
        })
    }

    /// Whether a request may run now if no real-time work does: of a demoted model, if promises leave
    /// it the time; best-effort work, as that can be stopped, unless it is given up.
    fn finds_gap(&self, waiting: &BestEffortJob, room: i64) -> bool {
        if waiting.demoted {
            return ns(self.stretched_cost(waiting.row)) <= room;
        }
        !self.holds.shedding
    }

    /// Whether the next stage, at a batch size, ends before the request's deadline if it starts
    /// now and is not preempted.
    fn can_end_in_time(&self, waiting: &BestEffortJob, size: usize) -> bool {
        self.now + self.tables.row(waiting.row).cost[size] <= waiting.due
    }
}

/// Less time a member; ties: more members.
fn cheaper(row: &StageRow, a: &Choice, b: &Choice) -> bool {
    let each =
        |x: &Choice, y: &Choice| u128::from(row.cost[x.size].as_nanos()) * y.members.len() as u128;
    each(a, b) <= each(b, a)
}
