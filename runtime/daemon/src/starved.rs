//! Which partitions the machine does not run: why an action is lost that their threads did not get to.
//!
//! Two see it. The watchdog knows which leaders were ready and not run, a few looks later. A stall probe has run a
//! moment ago, unless something above all of the daemon's threads has its core, or the hypervisor has.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::PartitionId;
use punctual_core::lost::LOST_FLOOR;
use punctual_platform::stall::CoreWatch;

/// Leaders that the watchdog found starved at its last look, a bit each. Written by housekeeping.
#[derive(Debug, Default)]
pub struct StarvedLeaders(AtomicU64);

impl StarvedLeaders {
    /// These, and no others.
    pub fn are(&self, partitions: impl Iterator<Item = PartitionId>) {
        let bits = partitions.fold(0, |bits, partition| bits | bit(partition));
        // Relaxed, like its partner in `contains`: the word stands for itself.
        self.0.store(bits, Ordering::Relaxed);
    }

    pub fn contains(&self, partition: PartitionId) -> bool {
        // Relaxed: partner of the store in `are`.
        self.0.load(Ordering::Relaxed) & bit(partition) != 0
    }
}

/// None of a partition beyond the 32 that a plan has at most.
fn bit(partition: PartitionId) -> u64 {
    1_u64.checked_shl(u32::from(partition.0)).unwrap_or(0)
}

/// An action that a device has held for so long may have been starved, in ns: well before it is lost.
pub const HELD_NS_MIN: u64 = LOST_FLOOR.as_nanos() / 2;

/// A probe that has not run for so long has no core, in ns: a hundred of its periods.
const STOOD_NS_MIN: u64 = 100 * punctual_platform::stall::PERIOD_NS;

const _: () = assert!(STOOD_NS_MIN <= HELD_NS_MIN);

/// A partition, as the scheduler's thread sees it.
#[derive(Debug, Default)]
pub struct Starvable {
    /// The probes on its threads' cores.
    pub cores: Box<[CoreWatch]>,
    /// What the scheduler was told.
    told: bool,
}

impl Starvable {
    pub fn new(cores: Box<[CoreWatch]>) -> Self {
        Self { cores, told: false }
    }

    /// Whether it is starved now, if the scheduler does not know that; `held` says whether its device holds an action for long.
    pub fn news(&mut self, held: bool, leader_starves: bool, now_ns: u64) -> Option<bool> {
        let stands = |core: &CoreWatch| core.ran_ns() + STOOD_NS_MIN < now_ns;
        let starved = held && (leader_starves || self.cores.iter().any(stands));
        let is_new = std::mem::replace(&mut self.told, starved) != starved;
        is_new.then_some(starved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_are_told_apart_and_found_again() {
        let starved = StarvedLeaders::default();
        starved.are([PartitionId(0), PartitionId(31)].into_iter());
        assert!(starved.contains(PartitionId(0)) && starved.contains(PartitionId(31)));
        assert!(!starved.contains(PartitionId(1)));
        starved.are(std::iter::empty());
        assert!(!starved.contains(PartitionId(31)));
        assert!(!starved.contains(PartitionId(u16::MAX)));
    }

    #[test]
    fn the_scheduler_hears_of_each_change_once_and_only_of_actions_that_wait() {
        let mut partition = Starvable::default();
        assert_eq!(partition.news(false, true, 0), None);
        assert_eq!(partition.news(true, true, 0), Some(true));
        assert_eq!(partition.news(true, true, 0), None);
        assert_eq!(partition.news(true, false, 0), Some(false));
        assert_eq!(partition.news(true, false, 0), None);
    }
}
