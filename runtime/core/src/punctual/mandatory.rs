//! Promised work: the earliest deadline first, in a batch with other requests at the same stage where
//! that endangers no promise.

use crate::ids::{BATCH_MAX, StageId};
use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::queues::{MandatoryJob, OptionalJob, Queues};
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::Kind;
use crate::punctual::view::View;
use crate::time::Instant;
use crate::time::{ns, signed};

/// A promised request of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub due: Instant,
    /// Its part of W for the stage ([`MandatoryJob::charge_of_stage`]).
    pub charge: i64,
    pub buffer: u16,
}

/// In EDF order.
pub type Promised = heapless::Vec<Member, BATCH_MAX>;

impl View<'_> {
    /// What promised work to start at `start`, after a scan for that time: the batch around the EDF head, or a full one that goes
    /// before it.
    pub fn mandatory(&self, scan: &SlackScan, start: Instant) -> Option<Choice> {
        let head = *self.queues.head()?;
        let around = self.around_head(scan, &head, start);
        let before = self.full_batch_before(scan, &head, &around, start);
        Some(before.unwrap_or(around))
    }

    /// The head runs without a test, with the requests that were promised jointly with it. No other order
    /// is better for its deadline. Its stage blocks other tasks for no longer than the offline test or
    /// the test of the joint promise allowed (docs/proof.md, "Head alone"). Any larger batch must pass a test.
    fn around_head(&self, scan: &SlackScan, head: &MandatoryJob, start: Instant) -> Choice {
        let row = self.tables.row(head.row);
        let together = self.queues.promised_with(head).count();
        let most = self.queues.batch_max(head);
        let least = row.size_holding(together);
        let least = least.expect("a joint promise was made for a batch that is compiled");
        (least + 1..row.sizes.len())
            .rev()
            .filter(|&size| row.sizes[size] <= most)
            .find_map(|size| {
                let batch = self.batch(scan, head, size, start);
                // If the next smaller size holds the same members, this one only pays for empty places.
                let filled = batch.members.len() > usize::from(row.sizes[size - 1]);
                (filled && batch.start_slack >= 0).then_some(batch)
            })
            .unwrap_or_else(|| self.batch(scan, head, least, start))
    }

    /// If the head's batch has places left: a full one of the stage before the head's, if that endangers no promise. What has
    /// passed that stage then shares batches at the next. Networks that begin alike would otherwise run the stages that are
    /// their own for a request or two at a time, while the beginning runs for all of them.
    fn full_batch_before(
        &self,
        scan: &SlackScan,
        head: &MandatoryJob,
        around: &Choice,
        start: Instant,
    ) -> Option<Choice> {
        let row = self.tables.row(head.row);
        let before = StageId(row.stage.0.checked_sub(1)?);
        let most = self.queues.batch_max(head);
        let largest = row.sizes.iter().rfind(|&&size| size <= most)?;
        if around.members.len() >= usize::from(*largest) {
            return None;
        }
        let at = self.tables.row_of(self.tables.task(head.task), before);
        let mut jobs = self.queues.mandatory().iter();
        let first = jobs.find(|job| job.row == at && !job.running)?;
        let row = self.tables.row(at);
        let most = self.queues.batch_max(first);
        let size = row.sizes.iter().rposition(|&size| size <= most)?;
        if size == 0 {
            return None;
        }
        let batch = self.batch(scan, first, size, start);
        let is_full = batch.members.len() == usize::from(row.sizes[size]);
        (is_full && batch.start_slack >= 0).then_some(batch)
    }

    /// The batch of a compiled size whose first member is the head, or leads another stage's.
    fn batch(&self, scan: &SlackScan, head: &MandatoryJob, size: usize, start: Instant) -> Choice {
        let row = self.tables.row(head.row);
        let (places, cost) = (row.sizes[size], row.cost[size]);
        let promised = self
            .queues
            .batch_members(self.queues.mandatory(), head, places);
        debug_assert_eq!(
            promised.first().map(|member| member.due),
            Some(head.due),
            "the head is the first member"
        );
        // Requests that hold a mandatory answer may take free places. They get no credit in the test,
        // because W does not count them, and the batch must end by their own deadlines.
        let joining = self
            .queues
            .optional_members(head)
            .filter(|job| job.batch_max >= places && start + cost <= job.due)
            .take(usize::from(places) - promised.len());
        let mut start_slack = if self.ablations.has(Ablation::MembersOnlyBatch) {
            (signed(promised[0].due, start) - ns(cost)).min(0)
        } else {
            scan.least_after(&promised, ns(cost))
        };
        let mut members: heapless::Vec<u16, BATCH_MAX> =
            promised.iter().map(|member| member.buffer).collect();
        for job in joining {
            start_slack = start_slack.min(signed(job.due, start) - ns(cost));
            members.extend([job.buffer]);
        }
        Choice {
            kind: Kind::Mandatory,
            home: self.index,
            row: head.row,
            size,
            members,
            start_slack,
        }
    }

    /// Until when a batch of promised work should wait for one more member, after a scan for now. It waits
    /// if a frame for the same stage is expected within the least slack and nothing else is ready. And one
    /// larger batch must end sooner than this batch now and that frame alone.
    pub fn waits_until(&self, scan: &SlackScan, choice: &Choice) -> Option<Instant> {
        let ready = self
            .queues
            .mandatory()
            .iter()
            .filter(|job| !job.running)
            .count();
        // Any other work could use the time of the wait.
        let alone = self.queues.optional().is_empty() && self.queues.best_effort().is_empty();
        let all = ready == choice.members.len();
        if !(self.parameters.waiting && alone && all) {
            return None;
        }
        let row = self.tables.row(choice.row);
        let larger = row.size_holding(choice.members.len() + 1)?;
        let members = self.queues.mandatory().iter().filter(|job| !job.running);
        if members.map(|job| job.batch_max).min()? < row.sizes[larger] {
            return None;
        }
        let joining = self.tables.running(row.model).iter().filter(|task| {
            let table = self.tables.task(**task);
            self.tables.row_of(table, StageId(0)) == choice.row
                && table.batch_max >= row.sizes[larger]
        });
        // Only tasks that come at regular intervals have a prediction. For others, waiting would be a guess.
        let next = joining.filter_map(|task| self.arrivals[task.index()].next());
        let next = next.filter(|next| *next > self.now).min()?;
        let wait = signed(next, self.now);
        let apart = ns(row.cost[choice.size]) + ns(row.cost_alone());
        // Δ + C(k+1) < C(k) + C(1), and Δ <= S keeps SAFE at the end of the wait (docs/proof.md, "Waiting").
        let pays = wait + ns(row.cost[larger]) < apart;
        (wait <= scan.least() && pays).then_some(next)
    }
}

impl Queues {
    /// The waiting requests that a job's promise was made with, itself among them.
    fn promised_with(&self, job: &MandatoryJob) -> impl Iterator<Item = &MandatoryJob> {
        let promise = job.promise;
        let all = self.mandatory().iter();
        all.filter(move |job| job.promise == promise && !job.running)
    }

    /// The largest batch that all of them may join.
    fn batch_max(&self, job: &MandatoryJob) -> u8 {
        let together = self.promised_with(job);
        together.map(|job| job.batch_max).min().unwrap_or(1)
    }

    /// The head with the requests of its promise, and others of `jobs` at its stage, in EDF order. Members of
    /// another joint promise stay out: the charge of one of them is for their whole batch.
    pub fn batch_members(
        &self,
        jobs: &[MandatoryJob],
        head: &MandatoryJob,
        places: u8,
    ) -> Promised {
        // Places for the whole promise of the head are set aside, as these run together without a test.
        let of_promise = |job: &&MandatoryJob| job.promise == head.promise && !job.running;
        let with_head = jobs.iter().filter(of_promise).count();
        let mut others = usize::from(places).saturating_sub(with_head);
        let mut promised = Promised::new();
        for entry in jobs.iter().filter(|job| !job.running) {
            let own = entry.promise == head.promise;
            if !own {
                let can = same_group(entry, head) && !entry.joint && entry.batch_max >= places;
                if !can || others == 0 {
                    continue;
                }
                others -= 1;
            }
            let full = promised.push(Member {
                due: entry.due,
                charge: entry.charge_of_stage(),
                buffer: entry.buffer,
            });
            assert!(full.is_ok(), "a batch has no more than {places} members");
        }
        promised
    }

    /// Requests for the stage of `head` that hold a mandatory answer, by deadline.
    fn optional_members(&self, head: &MandatoryJob) -> impl Iterator<Item = &OptionalJob> {
        let group = (head.row, head.cohort);
        // The queue is sorted by (row, cohort, due), so the group is contiguous.
        let jobs = self.optional();
        let start = jobs.partition_point(|job| (job.row, job.cohort) < group);
        jobs[start..]
            .iter()
            .take_while(move |job| (job.row, job.cohort) == group)
    }
}

impl SlackScan {
    /// The least slack after a batch: its cost reduces every slack, and each member is credited its charge
    /// for the stage from its deadline on. Negative: the batch would break a promise.
    ///
    /// The test covers every deadline. That the members' deadlines hold, as SEEB-GPU and Clockwork test, is
    /// not enough: others are delayed by the whole batch before the credit of its members counts.
    pub fn least_after(&self, members: &Promised, cost: i64) -> i64 {
        // Members are in EDF order, so the credited ones are a prefix.
        let mut members = members.iter().peekable();
        let mut credit = 0;
        let mut least = i64::MAX;
        for point in self.points() {
            while let Some(member) = members.next_if(|member| member.due <= point.at) {
                credit += member.charge;
            }
            least = least.min(point.slack + credit - cost);
        }
        least
    }
}

/// Whether two requests can share a batch.
fn same_group(a: &MandatoryJob, b: &MandatoryJob) -> bool {
    (a.row, a.cohort) == (b.row, b.cohort)
}
