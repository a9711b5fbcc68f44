//! Page faults of the real-time threads since the ready signal: flat when memory is locked.

use punctual_platform::faults;

/// Watches a fixed set of threads.
pub enum PageFaults {
    /// They run: the kernel tells.
    Counting {
        /// The kernel's ids.
        tids: Vec<i32>,
        /// What they had at the ready signal.
        before: u64,
    },
    /// They have been told to end.
    Counted(u64),
}

impl PageFaults {
    pub fn of(tids: Vec<i32>) -> Self {
        let before = sum(&tids);
        Self::Counting { tids, before }
    }

    pub fn since_ready(&self) -> u64 {
        match self {
            Self::Counting { tids, before } => sum(tids).saturating_sub(*before),
            Self::Counted(count) => *count,
        }
    }

    /// Keeps the present count: the threads are about to end, and their figures with them.
    pub fn freeze(&mut self) {
        *self = Self::Counted(self.since_ready());
    }
}

fn sum(tids: &[i32]) -> u64 {
    tids.iter().filter_map(|&tid| faults::of_thread(tid)).sum()
}
