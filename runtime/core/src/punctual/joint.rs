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
use crate::punctual::partition::Pending;
use crate::punctual::requests::Request;
use crate::punctual::tables::{Row, StageRow};
use crate::time::{Instant, Nanos};

/// A request that is to be promised its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applicant {
    pub(crate) task: TaskId,
    pub(crate) due: Instant,
    pub(crate) row: Row,
    pub(crate) batch_max: u8,
    /// From when on its task's next conforming request may come, if it is promised its deadline;
    /// `None`: that stays as it is.
    pub(crate) next: Option<Instant>,
}

impl Applicant {
    pub(crate) fn new(task: TaskId, due: Instant, row: Row, batch_max: u8) -> Self {
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
        let cost = row.cost[self.size_holding(row, company.members + 1)?];
        let bounded = !self.ablated(Ablation::UnboundedJoint);
        if bounded && cost > self.tables.blocking_allowed(index) {
            return None;
        }
        let table = self.tables.task(applicant.task);
        let left = table.work_from(row.stage.next());
        // A point at its deadline, without its work.
        self.scan(index, free, Some((applicant, Nanos::ZERO)));
        let partition = &self.partitions[index];
        let members = || partition.pending.iter().filter(|p| company.includes(p));
        let first = members().map(|p| p.due).min()?.min(applicant.due);
        let (mut members, mut credit) = (members().peekable(), 0);
        for point in partition.scan.points() {
            while let Some(member) = members.next_if(|p| p.due <= point.at) {
                credit += self.charge_of_stage(member);
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
        let most = row.sizes[self.sizes_of(row) - 1];
        let mut company = Company {
            promises: heapless::Vec::new(),
            members: 0,
            batch_max: applicant.batch_max.min(most),
        };
        let pending = &self.partitions[index].pending;
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
            let size = self.size_holding(row, members + 1);
            if size.is_some_and(|size| row.sizes[size] <= batch_max)
                && company.promises.push(entry.promise).is_ok()
            {
                (company.members, company.batch_max) = (members, batch_max);
            }
        }
        company
    }

    /// The smallest batch size of a stage, by position, that holds so many requests.
    pub(crate) fn size_holding(&self, row: &StageRow, members: usize) -> Option<usize> {
        let sizes = &row.sizes[..self.sizes_of(row)];
        sizes.iter().position(|&size| usize::from(size) >= members)
    }

    /// What a promise counts for its next stage, in W: all of the batch for the first of a joint
    /// one, nothing for the others.
    pub(crate) fn charge_of_stage(&self, entry: &Pending) -> i64 {
        let request = self.requests.get(entry.buffer);
        let left = self
            .tables
            .task(request.task)
            .work_from(request.stage.next());
        ns(entry.work) - ns(left)
    }

    /// Makes one promise of several and that of a request that has just been promised its deadline.
    pub(crate) fn join(&mut self, index: usize, request: &Request, promises: &[u64]) {
        for entry in self.partitions[index].pending.iter_mut() {
            if promises.contains(&entry.promise) {
                entry.promise = request.order;
            }
        }
        self.share_out(index, request.order);
    }

    /// Charges a promise for the batch of those that are left of it.
    pub(crate) fn share_out(&mut self, index: usize, promise: u64) {
        let pending = &self.partitions[index].pending;
        let mine = |p: &&Pending| p.promise == promise && !p.running;
        let members = pending.iter().filter(mine).count();
        let Some(row) = pending.iter().find(mine).map(|p| p.row) else {
            return;
        };
        let row = self.tables.row(row);
        let size = self.size_holding(row, members);
        let size = size.expect("a joint promise was made for a batch that is compiled");
        let mut cost = row.cost[size];
        for at in 0..self.partitions[index].pending.len() {
            let entry = self.partitions[index].pending[at];
            if !mine(&&entry) {
                continue;
            }
            let request = self.requests.get(entry.buffer);
            let left = self
                .tables
                .task(request.task)
                .work_from(request.stage.next());
            let entry = &mut self.partitions[index].pending[at];
            entry.joint = members > 1;
            entry.work = cost + left;
            cost = Nanos::ZERO;
        }
    }

    /// Takes a request off the list of promised work; what is left of a joint promise pays.
    pub(crate) fn remove_pending(&mut self, index: usize, buffer: u16) {
        if let Some(entry) = self.partitions[index].remove_pending(buffer)
            && entry.joint
        {
            self.share_out(index, entry.promise);
        }
    }
}

impl Company {
    fn includes(&self, entry: &Pending) -> bool {
        !entry.running && self.promises.contains(&entry.promise)
    }
}
