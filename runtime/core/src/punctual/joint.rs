//! Joint promises: requests that are promised their deadlines together, because their first stage
//! will run in one batch.
//!
//! A burst of frames for one model may not fit one by one, and yet fit in a batch. So a request
//! that fails the test alone is tried as one more member of the promises to the same stage: the
//! batch's cost counts once, by the earliest of their deadlines, and every slack must stay
//! positive. From then on they are one job to EDF: when its turn comes it runs whole, without a
//! test, like a head alone. That blocks others for longer than a stage alone would; it is within
//! the proof as long as the batch takes no more than the offline test has room for at any length,
//! `min of L - dbf(L)` ([`offline::blocking_allowed`](crate::offline::blocking_allowed)).

use crate::punctual::ablation::Ablation;
use crate::punctual::admission::Admission;
use crate::punctual::lifecycle::Joins;
use crate::punctual::lifecycle::queues::{MandatoryJob, Queues};
use crate::punctual::slack::Candidate;
use crate::punctual::tables::StageRow;
use crate::time::{Instant, Nanos, ns};

/// Promises that a request can join: their names, how many requests they are in all, and the
/// largest batch that all of those may join.
struct JointBatch {
    promises: Joins,
    members: usize,
    batch_max: u8,
}

impl Admission<'_> {
    /// Whether a request that does not fit alone fits into a batch with promises to the same
    /// stage, the partition being free from `free` on; which ones, then.
    pub fn joins(&mut self, candidate: &Candidate, free: Instant) -> Option<Joins> {
        let view = self.view;
        let row = view.tables.row(candidate.row);
        let batch = view.queues.joint_batch(candidate, row);
        if batch.members == 0 {
            return None;
        }
        let cost = row.cost[row.size_holding(batch.members + 1)?];
        let bounded = !view.ablations.has(Ablation::UnboundedJoint);
        if bounded && cost > view.tables.blocking_allowed(view.index) {
            return None;
        }
        let table = view.tables.task(candidate.task);
        let left = table.work_from(row.stage.next());
        // A point at its deadline, without its work.
        view.scan(self.scan, free, Some((candidate, Nanos::ZERO)));
        let promised = view.queues.mandatory();
        let members = || promised.iter().filter(|p| batch.includes(p));
        let first = members().map(|p| p.due).min()?.min(candidate.due);
        let (mut members, mut credit) = (members().peekable(), 0);
        for point in self.scan.points() {
            while let Some(member) = members.next_if(|p| p.due <= point.at) {
                credit += member.charge_of_stage();
            }
            let cost = if first <= point.at { ns(cost) } else { 0 };
            let later = if candidate.due <= point.at {
                ns(left)
            } else {
                0
            };
            if point.slack + credit - cost - later < 0 {
                return None;
            }
        }
        Some(batch.promises)
    }
}

impl Queues {
    /// The promises to the candidate's stage, the latest first, as many as a batch holds with it.
    fn joint_batch(&self, candidate: &Candidate, row: &StageRow) -> JointBatch {
        let most = row.sizes[row.sizes.len() - 1];
        let mut batch = JointBatch {
            promises: Joins::new(),
            members: 0,
            batch_max: candidate.batch_max.min(most),
        };
        let pending = self.mandatory();
        let open = |p: &&MandatoryJob| !p.running && p.row == candidate.row && p.cohort == 0;
        for entry in pending.iter().rev().filter(open) {
            if batch.includes(entry) {
                continue;
            }
            let together = pending.iter().filter(|p| p.promise == entry.promise);
            let (mut members, mut batch_max) = (batch.members, batch.batch_max);
            for member in together {
                members += 1;
                batch_max = batch_max.min(member.batch_max);
            }
            let size = row.size_holding(members + 1);
            if size.is_some_and(|size| row.sizes[size] <= batch_max)
                && batch.promises.push(entry.promise).is_ok()
            {
                (batch.members, batch.batch_max) = (members, batch_max);
            }
        }
        batch
    }
}

impl JointBatch {
    fn includes(&self, entry: &MandatoryJob) -> bool {
        !entry.running && self.promises.contains(&entry.promise)
    }
}
