//! Deeper stages of requests that already hold an answer: run where they are worth most, if they endanger no promise.

use crate::ids::{BATCH_MAX, StageId};
use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::queues::OptionalJob;
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::Kind;
use crate::punctual::view::View;
use crate::time::Instant;
use crate::time::{ns, signed};

/// A batch that may run, and what it is worth.
struct Deepening {
    choice: Choice,
    /// Sum of the members' gains.
    worth: u128,
    cost: u128,
    first_due: Instant,
}

impl Deepening {
    /// More gain for the time (the policy's rho); ties: more members, then more urgent.
    fn better_than(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.worth * other.cost, other.worth * self.cost);
        let (members, more) = (self.choice.members.len(), other.choice.members.len());
        (mine, members) > (theirs, more)
            || (mine, members) == (theirs, more) && self.first_due < other.first_due
    }
}

impl View<'_> {
    /// The best optional batch that may start at `start`, after a scan for that time: it must end
    /// before each member's deadline and take no more than the least slack.
    pub fn optional(&self, scan: &SlackScan, start: Instant) -> Option<Choice> {
        let mut best: Option<Deepening> = None;
        let promised = self.queues.head().map_or(Instant::FAR_FUTURE, |p| p.due);
        let room = self.room(scan);
        // The list is sorted by row and cohort, so each group is a chunk.
        for group in self
            .queues
            .optional()
            .chunk_by(|a, b| (a.row, a.cohort) == (b.row, b.cohort))
        {
            let row = self.tables.row(group[0].row);
            for size in 0..row.sizes.len() {
                let Some(candidate) = self.batch_deeper(group, size, start, room) else {
                    continue;
                };
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

    /// Where it gains most for the time; without mandatory first the most urgent.
    fn prefers(&self, candidate: &Deepening, best: &Deepening) -> bool {
        if self.parameters.mandatory_first || candidate.first_due == best.first_due {
            return candidate.better_than(best);
        }
        candidate.first_due < best.first_due
    }

    /// The members of a group that gain most, at one compiled batch size. `None` if it may not run,
    /// or if a smaller size would hold the same members.
    fn batch_deeper(
        &self,
        group: &[OptionalJob],
        size: usize,
        start: Instant,
        room: i64,
    ) -> Option<Deepening> {
        let row = self.tables.row(group[0].row);
        let (places, cost) = (row.sizes[size], row.cost[size]);
        if ns(cost) > room {
            return None;
        }
        // By falling gain; the group is sorted by deadline, so equals stay in that order.
        let mut members = heapless::Vec::<&OptionalJob, BATCH_MAX>::new();
        let eligible = group.iter().filter(|p| {
            // What is not answered in time is not worth to begin.
            let onward = self
                .tables
                .own(self.tables.task(p.task), row.stage)
                .onward();
            start + cost + onward <= p.due && p.batch_max >= places && self.is_worth_it(p)
        });
        for parked in eligible {
            if members.len() == usize::from(places) {
                if members.last().is_some_and(|m| m.gain >= parked.gain) {
                    continue;
                }
                members.pop();
            }
            let at = members.partition_point(|m| m.gain >= parked.gain);
            let full = members.insert(at, parked);
            assert!(full.is_ok(), "at most {places} members, a place was made");
        }
        let smaller = if size == 0 { 0 } else { row.sizes[size - 1] };
        if members.len() <= usize::from(smaller) {
            return None;
        }
        let first_due = members.iter().map(|m| m.due).min()?;
        let spare = room - ns(cost);
        Some(Deepening {
            worth: members.iter().map(|m| u128::from(m.gain)).sum(),
            cost: u128::from(cost.as_nanos().max(1)),
            first_due,
            choice: Choice {
                kind: Kind::Optional,
                row: group[0].row,
                size,
                members: members.iter().map(|m| m.buffer).collect(),
                spare: spare.min(signed(first_due, start + cost)),
            },
        })
    }

    /// Whether a deeper answer gains enough for its time at the present load. Below the least
    /// threshold it always does.
    pub fn is_worth_it(&self, parked: &OptionalJob) -> bool {
        let exit = StageId(self.tables.row(parked.row).stage.0 - 1);
        let load = self.partition.load;
        !self.parameters.price
            || parked.confidence < self.tables.task(parked.task).threshold_min
            || self
                .prices
                .is_none_or(|prices| prices.goes_on(load, parked.task, exit, parked.confidence))
    }

    /// The time that optional work may take from everybody else (S).
    fn room(&self, scan: &SlackScan) -> i64 {
        if self.ablations.has(Ablation::UngatedOptional) {
            return i64::MAX;
        }
        scan.least()
    }
}
