//! The partitions of a plan that has one for every contiguous range of compute units
//! ([`Partitioning::Ranges`](super::Partitioning::Ranges)), by range.

use alloc::boxed::Box;

use crate::config::{Config, Units};
use crate::ids::PartitionId;

/// All ranges of the units 0 to `all`.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    all: u16,
    /// By first unit, then by count less one.
    partitions: Box<[Option<PartitionId>]>,
}

impl Ranges {
    pub(crate) fn new(config: &Config) -> Self {
        let all = config.partitions.iter().map(|p| p.units.end()).max();
        let all = all.unwrap_or(0);
        let mut partitions = alloc::vec![None; usize::from(all) * usize::from(all)];
        for (index, partition) in config.partitions.iter().enumerate() {
            if partition.units.count > 0 {
                partitions[position(partition.units, all)] = Some(PartitionId(index as u16));
            }
        }
        Self {
            all,
            partitions: partitions.into(),
        }
    }

    /// How many units there are.
    pub(crate) const fn all(&self) -> u16 {
        self.all
    }

    /// The partition that is exactly this range; the plan was checked to have one for each.
    pub(crate) fn partition(&self, units: Units) -> PartitionId {
        self.partitions[position(units, self.all)].expect("every range is a partition")
    }

    /// A range of the plan that has no partition.
    pub(crate) fn missing(&self) -> Option<Units> {
        let mut ranges = (0..self.all)
            .flat_map(|first| (1..=self.all - first).map(move |count| Units { first, count }));
        ranges.find(|&units| self.partitions[position(units, self.all)].is_none())
    }
}

fn position(units: Units, all: u16) -> usize {
    usize::from(units.first) * usize::from(all) + usize::from(units.count) - 1
}
