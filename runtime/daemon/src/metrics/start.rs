//! How far the networks of the tasks are loaded, and since when.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use punctual_core::TaskReadiness;

/// Of one task. Relaxed everywhere: figures that order nothing else.
#[derive(Debug, Default)]
pub struct TaskStart {
    /// A position in [`LEVELS`].
    readiness: AtomicU8,
    ready_ns: AtomicU64,
    whole_ns: AtomicU64,
    answered_ns: AtomicU64,
}

const LEVELS: [TaskReadiness; 4] = [
    TaskReadiness::NotReady,
    TaskReadiness::Unmeasured,
    TaskReadiness::Shallow,
    TaskReadiness::Whole,
];

impl TaskStart {
    /// Scheduler's thread only.
    pub fn is(&self, readiness: TaskReadiness) {
        let level = LEVELS.iter().position(|level| *level == readiness);
        self.readiness.store(level.unwrap_or(0) as u8, Relaxed);
    }

    /// Keeps the time if the task has become ready, or all of its network runs as it was measured. True if so.
    pub fn note(&self, now_ns: u64) -> bool {
        let readiness = self.readiness();
        let ready = readiness != TaskReadiness::NotReady && first(&self.ready_ns, now_ns);
        let whole = readiness == TaskReadiness::Whole && first(&self.whole_ns, now_ns);
        ready || whole
    }

    /// A frame was answered.
    pub fn answered(&self, now_ns: u64) {
        first(&self.answered_ns, now_ns);
    }

    pub fn readiness(&self) -> TaskReadiness {
        LEVELS[usize::from(self.readiness.load(Relaxed)) % LEVELS.len()]
    }

    /// When its mandatory exit could run; none before.
    pub fn ready_ns(&self) -> Option<u64> {
        at(&self.ready_ns)
    }

    /// When all of its network ran as it was measured; none before.
    pub fn whole_ns(&self) -> Option<u64> {
        at(&self.whole_ns)
    }

    /// When its first frame was answered; none before.
    pub fn answered_ns(&self) -> Option<u64> {
        at(&self.answered_ns)
    }
}

/// Keeps a time if there was none. True if so.
fn first(moment: &AtomicU64, now_ns: u64) -> bool {
    moment.compare_exchange(0, now_ns, Relaxed, Relaxed).is_ok()
}

fn at(moment: &AtomicU64) -> Option<u64> {
    Some(moment.load(Relaxed)).filter(|at| *at > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_of_each_is_kept() {
        let start = TaskStart::default();
        let news = |readiness, now_ns| {
            start.is(readiness);
            start.note(now_ns)
        };
        assert!(!news(TaskReadiness::NotReady, 1));
        assert!(news(TaskReadiness::Unmeasured, 2));
        assert!(!news(TaskReadiness::Shallow, 3));
        assert!(news(TaskReadiness::Whole, 4));
        assert!(!news(TaskReadiness::Unmeasured, 5));
        start.answered(6);
        start.answered(7);
        let times = (start.ready_ns(), start.whole_ns(), start.answered_ns());
        assert_eq!(times, (Some(2), Some(4), Some(6)));
        assert_eq!(start.readiness(), TaskReadiness::Unmeasured);
    }
}
