//! How much is asked: arrivals of each task, counted over the last second.

use alloc::boxed::Box;

use crate::ids::TaskId;
use crate::time::{Instant, Nanos};

/// Loads that are told apart, from none in steps of 1/[`LOAD_STEPS_OF_WHOLE`]; the last is every greater one.
pub const LOADS: usize = 49;
/// A step: this part of a partition's time, taken by mandatory work alone.
pub const LOAD_STEPS_OF_WHOLE: u64 = 32;

/// The span counted over is this many slots.
const SLOTS: usize = 8;
const SLOT: Nanos = Nanos::from_millis(125);

/// The counts.
#[derive(Clone, Debug)]
pub struct Load {
    slots: Box<[[u16; SLOTS]]>,
    /// The present slot, counted from the clock's origin.
    slot: u64,
}

impl Load {
    pub fn new(tasks: usize) -> Self {
        Self {
            slots: alloc::vec![[0; SLOTS]; tasks].into(),
            slot: 0,
        }
    }

    /// Forgets what is older than the span; true if the counts may have changed by it.
    pub fn turn(&mut self, now: Instant) -> bool {
        let slot = now.as_nanos() / SLOT.as_nanos();
        let passed = slot - self.slot.min(slot);
        if passed == 0 {
            return false;
        }
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
        *count = count.saturating_add(1);
    }

    /// Arrivals of a task within the span of one second that ends with the present slot.
    pub fn per_second(&self, task: usize) -> u64 {
        self.slots[task].iter().map(|&count| u64::from(count)).sum()
    }
}

/// The load of a partition when so much mandatory work was asked for within a second.
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
            load.turn(at(ms));
            load.arrived(TaskId(1));
        }
        assert_eq!((load.per_second(0), load.per_second(1)), (0, 100));
        assert!(!load.turn(at(999)));
        assert!(load.turn(at(1_500)));
        assert_eq!(load.per_second(1), 37);
        assert!(load.turn(at(60_000)));
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
