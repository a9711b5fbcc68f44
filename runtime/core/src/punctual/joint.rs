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

use crate::ids::{BATCH_MAX, TaskId};
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::punctual::dispatch::ns;
use crate::punctual::queues::Pending;
use crate::punctual::tables::Row;
use crate::time::{Instant, Nanos};

/// A request that is to be promised its deadline.
#[derive(Clone, Copy, Debug)]
pub struct Applicant {
    pub task: TaskId,
    pub due: Instant,
    pub row: Row,
    pub batch_max: u8,
    /// From when on its task's next conforming request may come, if it is promised its deadline;
    /// `None`: that stays as it is.
    pub next: Option<Instant>,
}

impl Applicant {
    pub fn new(task: TaskId, due: Instant, row: Row, batch_max: u8) -> Self {
        Self {
            task,
            due,
            row,
            batch_max,
            next: None,
        }
    }
}

/// Promises that a request can join: their names, how many requests they are in all, and the
/// largest batch that all of those may join.
struct Company {
    promises: heapless::Vec<u64, BATCH_MAX>,
    members: usize,
    batch_max: u8,
}

impl Punctual {
    /// Whether a request that does not fit alone fits into a batch with promises to the same
    /// stage, the partition being free from `free` on; which ones, then.
    pub(crate) fn joins(
        &mut self,
        index: usize,
        applicant: &Applicant,
        free: Instant,
    ) -> Option<heapless::Vec<u64, BATCH_MAX>> {
        let company = self.company(index, applicant);
        if company.members == 0 {
            return None;
        }
        let row = self.tables.row(applicant.row);
        let cost = row.cost[row.size_holding(company.members + 1)?];
        let bounded = !self.ablated(Ablation::UnboundedJoint);
        if bounded && cost > self.tables.blocking_allowed(index) {
            return None;
        }
        let table = self.tables.task(applicant.task);
        let left = table.work_from(row.stage.next());
        // A point at its deadline, without its work.
        self.scan(index, free, Some((applicant, Nanos::ZERO)));
        let partition = &self.partitions[index];
        let members = || {
            partition
                .queues
                .promised()
                .iter()
                .filter(|p| company.includes(p))
        };
        let first = members().map(|p| p.due).min()?.min(applicant.due);
        let (mut members, mut credit) = (members().peekable(), 0);
        for point in partition.scan.points() {
            while let Some(member) = members.next_if(|p| p.due <= point.at) {
                credit += member.charge_of_stage();
            }
            let batch = if first <= point.at { ns(cost) } else { 0 };
            let later = if applicant.due <= point.at {
                ns(left)
            } else {
                0
            };
            if point.slack + credit - batch - later < 0 {
                return None;
            }
        }
        Some(company.promises)
    }

    /// The promises to the applicant's stage, the latest first, as many as a batch holds with it.
    fn company(&self, index: usize, applicant: &Applicant) -> Company {
        let row = self.tables.row(applicant.row);
        let most = row.sizes[row.sizes.len() - 1];
        let mut company = Company {
            promises: heapless::Vec::new(),
            members: 0,
            batch_max: applicant.batch_max.min(most),
        };
        let pending = self.partitions[index].queues.promised();
        let open = |p: &&Pending| !p.running && p.row == applicant.row && p.cohort == 0;
        for entry in pending.iter().rev().filter(open) {
            if company.includes(entry) {
                continue;
            }
            let together = pending.iter().filter(|p| p.promise == entry.promise);
            let (mut members, mut batch_max) = (company.members, company.batch_max);
            for member in together {
                members += 1;
                batch_max = batch_max.min(member.batch_max);
            }
            let size = row.size_holding(members + 1);
            if size.is_some_and(|size| row.sizes[size] <= batch_max)
                && company.promises.push(entry.promise).is_ok()
            {
                (company.members, company.batch_max) = (members, batch_max);
            }
        }
        company
    }
}

impl Company {
    fn includes(&self, entry: &Pending) -> bool {
        !entry.running && self.promises.contains(&entry.promise)
    }
}
