//! The load: arrivals of each task, counted over the last second.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

use crate::ids::TaskId;
use crate::time::{Instant, Nanos};

/// The number of loads that the price table distinguishes, from 0 in steps of 1/[`LOAD_STEPS_OF_WHOLE`]. The
/// last stands for all higher loads.
pub const LOADS: usize = 49;
/// A load of 1 is this many steps: mandatory work alone that takes all of a partition's time.
pub const LOAD_STEPS_OF_WHOLE: u64 = 32;

/// The span of one second consists of this many slots, of which the oldest is forgotten as a whole.
const SLOTS: usize = 8;
const SLOT: Nanos = Nanos::from_millis(125);

/// Arrivals by task and slot of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    slots: Box<[[u16; SLOTS]]>,
    /// The present slot, counted from the clock's origin.
    slot: u64,
}

impl Load {
    /// Whether it counts as many tasks as another.
    pub fn fits(&self, other: &Self) -> bool {
        self.slots.len() == other.slots.len()
    }

    pub fn new(tasks: usize) -> Self {
        Self {
            slots: alloc::vec![[0; SLOTS]; tasks].into(),
            slot: 0,
        }
    }

    /// Forgets arrivals that are older than the span. True if the counts may have changed.
    pub fn advance(&mut self, now: Instant) -> bool {
        let slot = now.as_nanos() / SLOT.as_nanos();
        let passed = slot - self.slot.min(slot);
        if passed == 0 {
            return false;
        }
        // After a pause longer than the span, each slot is cleared once.
        for step in 1..=passed.min(SLOTS as u64) {
            let at = ((self.slot + step) % SLOTS as u64) as usize;
            for counts in &mut self.slots {
                counts[at] = 0;
            }
        }
        self.slot = slot;
        true
    }

    pub fn arrived(&mut self, task: TaskId) {
        let at = (self.slot % SLOTS as u64) as usize;
        let count = &mut self.slots[task.index()][at];
        // Saturates: a client may submit faster than 65,535 frames in a slot, and all loads above the
        // last step of the table are equal.
        *count = count.saturating_add(1);
    }

    /// Arrivals of a task within the span of one second that ends with the present slot.
    pub fn per_second(&self, task: usize) -> u64 {
        self.slots[task].iter().map(|&count| u64::from(count)).sum()
    }
}

/// The load of a partition, in steps rounded to the nearest, when this much mandatory work arrived within a
/// second.
pub fn load_of(work: Nanos) -> usize {
    const SECOND: u64 = SLOT.as_nanos() * SLOTS as u64;
    let steps = work.as_nanos().saturating_mul(LOAD_STEPS_OF_WHOLE);
    let nearest = steps.saturating_add(SECOND / 2) / SECOND;
    nearest.min(LOADS as u64 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_count_for_a_second_and_no_longer() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut load = Load::new(2);
        for ms in (0..1_000).step_by(10) {
            load.advance(at(ms));
            load.arrived(TaskId(1));
        }
        assert_eq!((load.per_second(0), load.per_second(1)), (0, 100));
        assert!(!load.advance(at(999)));
        assert!(load.advance(at(1_500)));
        assert_eq!(load.per_second(1), 37);
        assert!(load.advance(at(60_000)));
        assert_eq!(load.per_second(1), 0);
    }

    #[test]
    fn loads_are_thirty_seconds_of_a_partition() {
        assert_eq!(load_of(Nanos::ZERO), 0);
        assert_eq!(load_of(Nanos::from_millis(500)), 16);
        assert_eq!(load_of(Nanos::from_millis(1_000)), 32);
        assert_eq!(load_of(Nanos::MAX), LOADS - 1);
    }
}
