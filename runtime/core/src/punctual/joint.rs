//! Joint promises: requests whose deadlines are promised together, because their first stage will run
//! in one batch.
//!
//! The requests of a burst for one model may fit in a batch, although they do not fit one by one. So a
//! request that fails the test alone is tested as one more member of the promises to the same stage. The
//! cost of the batch counts once, by the earliest of their deadlines, and no slack may become negative.
//! From then on EDF treats them as one job. It runs whole and without a test, as a head alone does.
//!
//! Such a batch blocks other tasks for longer than a stage alone. The proof allows that if the batch takes
//! at most `min of L - dbf(L)` ([`offline::blocking_allowed`](crate::offline::blocking_allowed)). Without
//! the bound, a reserved frame misses its deadline (`tests/joint.rs`). Without joint promises, admission
//! rejects bursts that batches can serve (`docs/decisions/0007`).

use crate::punctual::ablation::Ablation;
use crate::punctual::admission::Admission;
use crate::punctual::lifecycle::Joins;
use crate::punctual::lifecycle::queues::{MandatoryJob, Queues};
use crate::punctual::slack::Candidate;
use crate::punctual::tables::StageRow;
use crate::time::{Instant, Nanos, ns};

/// The promises that a candidate could join.
struct JointBatch {
    promises: Joins,
    /// Requests that have these promises.
    members: usize,
    /// The largest batch that all members and the candidate accept.
    batch_max: u8,
}

impl Admission<'_> {
    /// The promises with which a request fits in one batch, if the partition is free from `free` on.
    /// `None` if there are none.
    pub fn joint_promises(&mut self, candidate: &Candidate, free: Instant) -> Option<Joins> {
        let view = self.view;
        let row = view.tables.row(candidate.row);
        let batch = view.queues.joint_batch(candidate, row);
        if batch.members == 0 {
            return None;
        }
        let cost = row.cost[row.size_holding(batch.members + 1)?];
        // The head of EDF runs without a test, so the offline bound on blocking must cover the batch.
        let bounded = !view.ablations.has(Ablation::UnboundedJoint);
        if bounded && cost > view.tables.blocking_allowed(view.index) {
            return None;
        }
        let table = view.tables.task(candidate.task);
        let left = table.work_from(row.stage.next());
        // Work of zero adds a point at the candidate's deadline and leaves its work to the loop below.
        view.scan(self.scan, free, Some((candidate, Nanos::ZERO)));
        debug_assert!(
            self.scan.points().iter().any(|p| p.at == candidate.due),
            "the candidate's deadline is a point of its own scan"
        );
        let promised = view.queues.mandatory();
        let members = || promised.iter().filter(|p| batch.includes(p));
        let first = members().map(|p| p.due).min()?.min(candidate.due);
        let (mut members, mut credit) = (members().peekable(), 0);
        // At every deadline, unlike for a request alone: the batch runs by the earliest deadline of its
        // members, so it can delay jobs that are due before the candidate.
        for point in self.scan.points() {
            while let Some(member) = members.next_if(|p| p.due <= point.at) {
                credit += member.charge_of_stage();
            }
            // The members' charges for the stage are replaced by the cost of the new batch.
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
    /// The promises to the candidate's stage, as many as one batch holds with it. Those with the latest
    /// deadlines come first, because the batch is due by the earliest deadline of its members.
    fn joint_batch(&self, candidate: &Candidate, row: &StageRow) -> JointBatch {
        let most = row.sizes[row.sizes.len() - 1];
        let mut batch = JointBatch {
            promises: Joins::new(),
            members: 0,
            batch_max: candidate.batch_max.min(most),
        };
        let pending = self.mandatory();
        // Cohort 0: without re-batching, a request that ran shares batches only with its last companions.
        let open = |p: &&MandatoryJob| !p.running && p.row == candidate.row && p.cohort == 0;
        for entry in pending.iter().rev().filter(open) {
            if batch.includes(entry) {
                continue;
            }
            // A joint promise joins as a whole: its charge covers the batch of all its members.
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
