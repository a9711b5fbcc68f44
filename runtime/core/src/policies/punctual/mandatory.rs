//! Promised work: the earliest deadline first, with others of the same stage in one batch where
//! that endangers no promise.

use crate::ids::BATCH_MAX;
use crate::policies::punctual::Punctual;
use crate::policies::punctual::ablation::Ablation;
use crate::policies::punctual::dispatch::{Choice, ns};
use crate::policies::punctual::partition::{Kind, Partition, Pending};
use crate::time::Instant;

/// Requests that could run in one batch.
type Members = heapless::Vec<(Instant, u16), BATCH_MAX>;

impl Punctual {
    /// The batch around the head of the EDF order, after a scan for now.
    pub(crate) fn mandatory(&self, index: usize) -> Option<Choice> {
        let partition = &self.partitions[index];
        let head = *partition.pending.iter().find(|p| !p.running)?;
        let row = self.tables.row(head.row);
        let sizes = &row.sizes;
        (1..self.sizes_of(row))
            .rev()
            .filter(|&size| sizes[size] <= head.batch_max)
            .find_map(|size| self.batch(partition, &head, size))
            .or_else(|| Some(self.alone(partition, &head)))
    }

    /// The head alone. It needs no test: no schedule is better for it, and the blocking that it
    /// causes is within what was promised (policy, section 8).
    fn alone(&self, partition: &Partition, head: &Pending) -> Choice {
        let cost = ns(self.tables.row(head.row).cost_alone());
        let mut members = heapless::Vec::new();
        members.push(head.buffer).expect("one member fits");
        let mut spare = i64::MAX;
        for point in partition.scan.points() {
            let credit = if head.due <= point.at { cost } else { 0 };
            spare = spare.min(point.slack + credit - cost);
        }
        Choice {
            kind: Kind::Mandatory,
            row: head.row,
            size: 0,
            members,
            spare,
        }
    }

    /// A batch of a compiled size, the head its first member. `None` if it would endanger a
    /// promise, or if a smaller size would hold the same members.
    fn batch(&self, partition: &Partition, head: &Pending, size: usize) -> Option<Choice> {
        let row = self.tables.row(head.row);
        let (places, cost) = (row.sizes[size], row.cost[size]);
        let promised = partition
            .pending
            .iter()
            .filter(|p| !p.running && same_group(p, head) && p.batch_max >= places)
            .map(|p| (p.due, p.buffer));
        let promised: Members = promised.take(usize::from(places)).collect();
        // Requests whose answer already counts may take free places: they get no credit in the
        // test, and their own deadline must hold.
        let optional = in_group(partition, head)
            .filter(|(due, batch_max, _)| *batch_max >= places && self.now + cost <= *due)
            .map(|(due, _, buffer)| (due, buffer));
        let optional: Members = optional
            .take(usize::from(places) - promised.len())
            .collect();
        if promised.len() + optional.len() <= usize::from(row.sizes[size - 1]) {
            return None;
        }
        let alone = ns(row.cost_alone());
        let mut spare = self.spare_after(partition, &promised, alone, ns(cost))?;
        for (due, _) in &optional {
            spare = spare.min(self.until(*due) - ns(cost));
        }
        Some(Choice {
            kind: Kind::Mandatory,
            row: head.row,
            size,
            members: promised.iter().chain(&optional).map(|(_, b)| *b).collect(),
            spare,
        })
    }

    /// The least slack once a batch is charged: each member's own time alone is credited from its
    /// deadline on, the batch's is taken off everywhere. `None` if any gets negative. That every
    /// member's deadline holds is not enough: others pay for the batch before they profit.
    fn spare_after(
        &self,
        partition: &Partition,
        members: &Members,
        alone: i64,
        cost: i64,
    ) -> Option<i64> {
        if self.ablated(Ablation::MembersOnlyBatch) {
            let (first_due, _) = members.first()?;
            return (self.until(*first_due) >= cost).then_some(0);
        }
        // Members are in EDF order, so the credited ones are a prefix.
        let mut credited = 0;
        let mut spare = i64::MAX;
        for point in partition.scan.points() {
            while members
                .get(credited)
                .is_some_and(|(due, _)| *due <= point.at)
            {
                credited += 1;
            }
            spare = spare.min(point.slack + alone * credited as i64 - cost);
            if spare < 0 {
                return None;
            }
        }
        Some(spare)
    }
}

/// Whether two requests can share a batch.
fn same_group(a: &Pending, b: &Pending) -> bool {
    (a.row, a.cohort) == (b.row, b.cohort)
}

/// Parked requests that can share a batch with `head`: deadline, largest batch, buffer; by
/// deadline.
fn in_group<'a>(
    partition: &'a Partition,
    head: &Pending,
) -> impl Iterator<Item = (Instant, u8, u16)> + 'a {
    let group = (head.row, head.cohort);
    let start = partition
        .parked
        .partition_point(|p| (p.row, p.cohort) < group);
    partition.parked[start..]
        .iter()
        .take_while(move |p| (p.row, p.cohort) == group)
        .map(|p| (p.due, p.batch_max, p.buffer))
}
