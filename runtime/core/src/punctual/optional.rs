//! Optional work: deeper stages of requests that hold a mandatory answer. They run where they gain most
//! accuracy for their time, and only if they break no promise.
//!
//! The gate is that a batch takes no more than the least slack, C(b) <= S. So SAFE holds after it, and it
//! may even run before promised work (docs/proof.md). Without the gate, promised requests miss their
//! deadlines (docs/results/guarantee.md).

use crate::ids::{BATCH_MAX, StageId};
use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::queues::OptionalJob;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::Kind;
use crate::punctual::tables::Row;
use crate::punctual::view::View;
use crate::time::Instant;
use crate::time::{ns, signed};

/// An optional batch that passed the gate, with its gain and its cost.
pub struct OptionalBatch {
    pub choice: Choice,
    /// Sum of the members' gains.
    pub gain: u128,
    /// C(b) in nanoseconds.
    pub cost: u128,
    first_due: Instant,
}

impl OptionalBatch {
    /// Whether it gains more for its time. Of equals, the one with more members is better, then the one
    /// with the earlier deadline.
    fn better_than(&self, other: &Self) -> bool {
        // gain / cost of both, multiplied by both costs: no rounding.
        let (mine, theirs) = (self.gain * other.cost, other.gain * self.cost);
        let (own_members, their_members) = (self.choice.members.len(), other.choice.members.len());
        (mine, own_members) > (theirs, their_members)
            || (mine, own_members) == (theirs, their_members) && self.first_due < other.first_due
    }
}

impl View<'_> {
    /// The best optional batch that may start at `start`, after a scan for that time. It ends by each
    /// member's deadline and takes no more than the least slack.
    pub fn optional(&self, scan: &SlackScan, start: Instant) -> Option<Choice> {
        let mut best: Option<OptionalBatch> = None;
        let promised = self
            .queues
            .head()
            .map_or(Instant::FAR_FUTURE, |head| head.due);
        let room = self.room(scan);
        // A first answer of best-effort work is worth more than depth beyond `threshold_min` (docs/decisions/0006).
        let best_effort_waits = self.best_effort_needs_answer();
        let gives_way = |job: &OptionalJob| {
            best_effort_waits && job.confidence >= self.tables.task(job.task).threshold_min
        };
        debug_assert!(
            self.queues
                .optional()
                .is_sorted_by_key(|job| (job.row, job.cohort, job.due)),
            "requests that can share a batch are adjacent"
        );
        // The queue is sorted by row and cohort, so each group is a chunk.
        for group in self
            .queues
            .optional()
            .chunk_by(|a, b| (a.row, a.cohort) == (b.row, b.cohort))
        {
            let row = self.tables.row(group[0].row);
            for size in 0..row.sizes.len() {
                let Some(candidate) = self.optional_batch(group, size, start, room, gives_way)
                else {
                    continue;
                };
                // Without mandatory first, EDF order holds for optional work, too.
                if !self.parameters.mandatory_first && candidate.first_due > promised {
                    continue;
                }
                if best.as_ref().is_none_or(|b| self.prefers(&candidate, b)) {
                    best = Some(candidate);
                }
            }
        }
        best.map(|b| b.choice)
    }

    /// Whether a batch is preferred to the best so far: by its gain for its time, or by its deadline without
    /// mandatory first.
    fn prefers(&self, candidate: &OptionalBatch, best: &OptionalBatch) -> bool {
        if self.parameters.mandatory_first || candidate.first_due == best.first_due {
            return candidate.better_than(best);
        }
        candidate.first_due < best.first_due
    }

    /// The members of a group that gain most, in one compiled batch size. `None` if the batch may not run,
    /// or if a smaller size holds the same members.
    fn optional_batch(
        &self,
        group: &[OptionalJob],
        size: usize,
        start: Instant,
        room: i64,
        gives_way: impl Fn(&OptionalJob) -> bool,
    ) -> Option<OptionalBatch> {
        let cost = self.tables.row(group[0].row).cost[size];
        // The gate: C(b) <= S.
        if ns(cost) > room {
            return None;
        }
        let mut batch =
            self.optional_on(group, group[0].row, size, start, |job| !gives_way(job))?;
        batch.choice.start_slack = batch.choice.start_slack.min(room - ns(cost));
        Some(batch)
    }

    /// The members of a group that gain most, in one compiled batch size, with the costs of `row`: their own row
    /// or the same stage on a place.
    pub fn optional_on(
        &self,
        group: &[OptionalJob],
        row: Row,
        size: usize,
        start: Instant,
        may_run: impl Fn(&OptionalJob) -> bool,
    ) -> Option<OptionalBatch> {
        let at = row;
        let row = self.tables.row(row);
        let (places, cost) = (row.sizes[size], row.cost[size]);
        // By falling gain. The group is sorted by deadline, and equals stay in that order.
        let mut members = heapless::Vec::<&OptionalJob, BATCH_MAX>::new();
        let eligible = group.iter().filter(|job| {
            // A stage without an exit gains nothing before the next exit: the request must reach that exit in
            // time, too.
            let onward = self
                .tables
                .own(self.tables.task(job.task), row.stage)
                .onward();
            start + cost + onward <= job.due
                && job.batch_max >= places
                && self.is_worth_it(job)
                && may_run(job)
        });
        for job in eligible {
            if members.len() == usize::from(places) {
                if members.last().is_some_and(|m| m.gain >= job.gain) {
                    continue;
                }
                members.pop();
            }
            let at = members.partition_point(|m| m.gain >= job.gain);
            let full = members.insert(at, job);
            assert!(full.is_ok(), "at most {places} members, a place was made");
        }
        let smaller = if size == 0 { 0 } else { row.sizes[size - 1] };
        if members.len() <= usize::from(smaller) {
            return None;
        }
        let first_due = members.iter().map(|m| m.due).min()?;
        Some(OptionalBatch {
            gain: members.iter().map(|m| u128::from(m.gain)).sum(),
            // At least 1, so that a cost of zero cannot make every comparison a tie.
            cost: u128::from(cost.as_nanos().max(1)),
            first_due,
            choice: Choice {
                kind: Kind::Optional,
                home: self.index,
                row: at,
                size,
                members: members.iter().map(|m| m.buffer).collect(),
                start_slack: signed(first_due, start + cost),
            },
        })
    }

    /// Whether a deeper answer gains enough for its time at the present load. It always does without a
    /// price, which measures better (docs/decisions/0007), and below the least threshold.
    pub fn is_worth_it(&self, job: &OptionalJob) -> bool {
        debug_assert!(
            self.tables.row(job.row).stage.0 > 0,
            "an optional stage follows an exit"
        );
        let exit = StageId(self.tables.row(job.row).stage.0 - 1);
        let load = self.partition.load();
        !self.parameters.price
            || job.confidence < self.tables.task(job.task).threshold_min
            || self
                .prices
                .is_none_or(|prices| prices.goes_on(load, job.task, exit, job.confidence))
    }

    /// S: the time that optional work may take without a negative slack.
    fn room(&self, scan: &SlackScan) -> i64 {
        if self.ablations.has(Ablation::UngatedOptional) {
            return i64::MAX;
        }
        scan.least()
    }
}
