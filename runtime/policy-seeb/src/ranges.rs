//! The partitions of a plan that has one for every contiguous range of compute units
//! ([`Partitioning::Ranges`](punctual_core::Partitioning::Ranges)), by range.

use alloc::boxed::Box;

use punctual_core::{Config, ConfigError, PartitionId, Units};

/// All ranges of the units 0 to `all`.
#[derive(Clone, Debug)]
pub struct Ranges {
    all: u16,
    /// By first unit, then by count less one.
    partitions: Box<[Option<PartitionId>]>,
}

impl Ranges {
    pub fn new(config: &Config) -> Self {
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

    pub const fn all(&self) -> u16 {
        self.all
    }

    /// The partition that is exactly this range; the plan was checked to have one for each.
    pub fn partition(&self, units: Units) -> PartitionId {
        self.partitions[position(units, self.all)].expect("every range is a partition")
    }

    /// Whether every range has a partition, for the policy of that name.
    pub fn check(&self, policy: &'static str) -> Result<(), ConfigError> {
        match self.missing() {
            Some(units) => Err(ConfigError::MissingRange { policy, units }),
            None => Ok(()),
        }
    }

    /// A range of the plan that has no partition.
    fn missing(&self) -> Option<Units> {
        let mut ranges = (0..self.all)
            .flat_map(|first| (1..=self.all - first).map(move |count| Units { first, count }));
        ranges.find(|&units| self.partitions[position(units, self.all)].is_none())
    }
}

fn position(units: Units, all: u16) -> usize {
    usize::from(units.first) * usize::from(all) + usize::from(units.count) - 1
}
