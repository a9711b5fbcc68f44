//! Promised work: the earliest deadline first, with others of the same stage in one batch where
//! that endangers no promise.

use crate::ids::BATCH_MAX;
use crate::punctual::ablation::Ablation;
use crate::punctual::choice::Choice;
use crate::punctual::lifecycle::queues::{MandatoryJob, Queues};
use crate::punctual::slack::SlackScan;
use crate::punctual::slot::Kind;
use crate::punctual::view::View;
use crate::time::Instant;
use crate::time::{ns, signed};

/// Promised requests that run in one batch: deadline, what they count for the stage, buffer.
type Promised = heapless::Vec<(Instant, i64, u16), BATCH_MAX>;

/// Requests that take its free places: deadline, buffer.
type Joining = heapless::Vec<(Instant, u16), BATCH_MAX>;

impl View<'_> {
    /// The batch around the head of the EDF order to start at `start`, after a scan for that time.
    ///
    /// The head, with those that were promised their deadlines jointly with it, needs no test: no
    /// schedule is better for it, and the blocking that it causes is within what was promised
    /// (policy, section 8; `joint`). Any larger batch does.
    pub fn mandatory(&self, scan: &SlackScan, start: Instant) -> Option<Choice> {
        let head = *self.queues.head()?;
        let row = self.tables.row(head.row);
        let together = self.queues.mandatory().iter();
        let together = together.filter(|p| p.promise == head.promise && !p.running);
        let (count, most) = together.fold((0, u8::MAX), |(count, most), member| {
            (count + 1, most.min(member.batch_max))
        });
        let least = row.size_holding(count);
        let least = least.expect("a joint promise was made for a batch that is compiled");
        (least + 1..row.sizes.len())
            .rev()
            .filter(|&size| row.sizes[size] <= most)
            .find_map(|size| {
                let batch = self.batch(scan, &head, size, start);
                let filled = batch.members.len() > usize::from(row.sizes[size - 1]);
                (filled && batch.spare >= 0).then_some(batch)
            })
            .or_else(|| Some(self.batch(scan, &head, least, start)))
    }

    /// A batch of a compiled size, the head its first member.
    fn batch(&self, scan: &SlackScan, head: &MandatoryJob, size: usize, start: Instant) -> Choice {
        let row = self.tables.row(head.row);
        let (places, cost) = (row.sizes[size], row.cost[size]);
        let promised = self.queues.batch_with(head, places);
        // Requests whose answer already counts may take free places: they get no credit in the
        // test, and their own deadline must hold.
        let joining: Joining = self
            .queues
            .optional_with(head)
            .filter(|(due, batch_max, _)| *batch_max >= places && start + cost <= *due)
            .map(|(due, _, buffer)| (due, buffer))
            .take(usize::from(places) - promised.len())
            .collect();
        let mut spare = match self.ablations.has(Ablation::MembersOnlyBatch) {
            true => (signed(promised[0].0, start) - ns(cost)).min(0),
            false => scan.least_after(&promised, ns(cost)),
        };
        for (due, _) in &joining {
            spare = spare.min(signed(*due, start) - ns(cost));
        }
        let promised = promised.iter().map(|(_, _, buffer)| *buffer);
        let members = promised.chain(joining.iter().map(|(_, buffer)| *buffer));
        Choice {
            kind: Kind::Mandatory,
            row: head.row,
            size,
            members: members.collect(),
            spare,
        }
    }

    /// Until when a batch of promised work should wait for one more member, after a scan for now:
    /// a frame for the same stage is expected within the least slack, nothing else is ready, and
    /// one batch then ends sooner than this one now and that frame alone.
    pub fn waits_until(&self, scan: &SlackScan, choice: &Choice) -> Option<Instant> {
        let ready = self
            .queues
            .mandatory()
            .iter()
            .filter(|p| !p.running)
            .count();
        let alone = self.queues.optional().is_empty() && self.queues.best_effort().is_empty();
        let all = ready == choice.members.len();
        if !(self.parameters.waiting && alone && all) {
            return None;
        }
        let row = self.tables.row(choice.row);
        let larger = row.size_holding(choice.members.len() + 1)?;
        let members = self.queues.mandatory().iter().filter(|p| !p.running);
        if members.map(|p| p.batch_max).min()? < row.sizes[larger] {
            return None;
        }
        let tasks = self.tables.tasks().iter().zip(self.arrivals);
        let joining = tasks.filter(|(table, _)| {
            self.tables.row_of(table, crate::StageId(0)) == choice.row
                && table.batch_max >= row.sizes[larger]
        });
        let next = joining.filter_map(|(_, rhythm)| rhythm.next());
        let next = next.filter(|next| *next > self.now).min()?;
        let wait = signed(next, self.now);
        let apart = ns(row.cost[choice.size]) + ns(row.cost_alone());
        let pays = wait + ns(row.cost[larger]) < apart;
        (wait <= scan.least() && pays).then_some(next)
    }
}

impl Queues {
    /// The head with those of its promise, and others of its stage in EDF order; not those that
    /// were promised their deadlines in another batch. In EDF order.
    fn batch_with(&self, head: &MandatoryJob, places: u8) -> Promised {
        let of_promise = |p: &&MandatoryJob| p.promise == head.promise && !p.running;
        let with_head = self.mandatory().iter().filter(of_promise).count();
        let mut others = usize::from(places).saturating_sub(with_head);
        let mut promised = Promised::new();
        for entry in self.mandatory().iter().filter(|p| !p.running) {
            let own = entry.promise == head.promise;
            if !own {
                let can = same_group(entry, head) && !entry.joint && entry.batch_max >= places;
                if !can || others == 0 {
                    continue;
                }
                others -= 1;
            }
            let full = promised.push((entry.due, entry.charge_of_stage(), entry.buffer));
            assert!(full.is_ok(), "a batch has no more than {places} members");
        }
        promised
    }

    /// OptionalJob requests that can share a batch with `head`: deadline, largest batch, buffer; by deadline.
    fn optional_with(&self, head: &MandatoryJob) -> impl Iterator<Item = (Instant, u8, u16)> {
        let group = (head.row, head.cohort);
        let parked = self.optional();
        let start = parked.partition_point(|p| (p.row, p.cohort) < group);
        parked[start..]
            .iter()
            .take_while(move |p| (p.row, p.cohort) == group)
            .map(|p| (p.due, p.batch_max, p.buffer))
    }
}

impl SlackScan {
    /// The least slack once a batch is charged: each member is credited what it counts for the stage from
    /// its deadline on, the batch's cost is taken off everywhere. Negative: it would endanger a promise.
    /// That every member's deadline holds is not enough: others pay for the batch before they profit.
    fn least_after(&self, members: &Promised, cost: i64) -> i64 {
        // Members are in EDF order, so the credited ones are a prefix.
        let mut members = members.iter().peekable();
        let mut credit = 0;
        let mut spare = i64::MAX;
        for point in self.points() {
            while let Some((_, charge, _)) = members.next_if(|(due, ..)| *due <= point.at) {
                credit += charge;
            }
            spare = spare.min(point.slack + credit - cost);
        }
        spare
    }
}

/// Whether two requests can share a batch.
fn same_group(a: &MandatoryJob, b: &MandatoryJob) -> bool {
    (a.row, a.cohort) == (b.row, b.cohort)
}
