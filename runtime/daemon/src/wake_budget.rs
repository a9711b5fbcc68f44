//! What waking a client may cost.
//!
//! The kernel keeps those who wait in queues that many futexes share. A thread that wakes one walks past all of them, with
//! preemption off, and a client can put thousands of its own waiters there. A wake that takes long may also have been
//! interrupted. So the clock only raises a suspicion, and the wakes that follow are measured in the thread's own
//! processor time.

use punctual_platform::clock;

/// A wake takes some microseconds.
const WAKE_NS: u64 = 100_000;

/// This number of too long ones in a row is no accident.
const STRIKES: u8 = 3;

/// One that takes this long is none either, and the next would hold up the core's other threads for as long.
const CROWD_NS: u64 = 1_000_000;

/// Of one client's wakes.
#[derive(Clone, Copy, Debug, Default)]
pub struct WakeBudget {
    suspected: bool,
    /// Wakes in a row that took too much processor time.
    strikes: u8,
}

impl WakeBudget {
    /// Runs something that may wake the client, and keeps account of it.
    pub fn measured<T>(&mut self, wakes: impl FnOnce() -> T) -> T {
        let now = if self.suspected {
            clock::thread_cpu_ns
        } else {
            clock::now_ns
        };
        let before_ns = now();
        let done = wakes();
        self.took(now().saturating_sub(before_ns));
        done
    }

    fn took(&mut self, ns: u64) {
        let is_slow = ns > WAKE_NS;
        self.strikes = if !self.suspected || !is_slow {
            0
        } else if ns > CROWD_NS {
            STRIKES
        } else {
            self.strikes + 1
        };
        self.suspected = is_slow;
    }

    pub fn is_overdrawn(&self) -> bool {
        self.strikes >= STRIKES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(took: &[u64]) -> WakeBudget {
        let mut budget = WakeBudget::default();
        took.iter().for_each(|ns| budget.took(*ns));
        budget
    }

    #[test]
    fn a_suspicion_and_three_long_wakes_in_a_row_are_too_much_or_one_of_a_crowd() {
        let long = WAKE_NS + 1;
        assert!(!after(&[long; 3]).is_overdrawn(), "one was the suspicion");
        assert!(after(&[long; 4]).is_overdrawn());
        assert!(after(&[long, CROWD_NS + 1]).is_overdrawn());
        assert!(!after(&[CROWD_NS + 1]).is_overdrawn(), "by the clock only");
        let interrupted = [long, long, long, WAKE_NS, long, long, long];
        assert!(!after(&interrupted).is_overdrawn());
    }

    #[test]
    fn what_is_measured_is_given_on() {
        let mut budget = WakeBudget::default();
        assert_eq!(budget.measured(|| 7), 7);
        budget.suspected = true;
        assert_eq!(budget.measured(|| 8), 8);
        assert!(!budget.is_overdrawn());
    }
}
