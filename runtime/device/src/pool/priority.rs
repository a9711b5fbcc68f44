//! Best-effort stages run at ordinary priority on the same threads as real-time ones.
//!
//! At real-time priority a closed loop of best-effort work would use up the kernel's real-time
//! share (`sched_rt_runtime_us`), and the core would stand still for 50 ms a second. So a partition's
//! workers become ordinary threads for a best-effort action. When the partition is needed
//! ([`preempt`](crate::Device::preempt), or a real-time action submitted behind), the submitting thread first gives
//! them their priority back. So other programs do not delay the operator that runs, and the bound on preemption is
//! the longest operator and a few system calls.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering, fence};

use punctual_platform::thread;

/// The scheduling of one partition's workers.
pub(super) struct Priorities {
    priority: Option<u8>,
    /// False until the workers run, and always if the machine does not grant the priority.
    granted: AtomicBool,
    /// The leader has made the workers ordinary threads. Relaxed: its own alone.
    lowered: AtomicBool,
    /// The workers' thread ids, filled in as they start.
    tids: Box<[AtomicI32]>,
}

impl Priorities {
    pub(super) fn new(workers: usize, priority: Option<u8>) -> Self {
        Self {
            priority,
            granted: AtomicBool::new(false),
            lowered: AtomicBool::new(false),
            tids: (0..workers).map(|_| AtomicI32::new(0)).collect(),
        }
    }

    // Relaxed below: ids and `granted` are written before the first action is submitted, whose
    // ring publishes them to the leader.

    pub(super) fn started(&self, worker: usize, tid: i32) {
        self.tids[worker].store(tid, Ordering::Relaxed);
    }

    /// The leader's thread id; 0 until it has started.
    pub(super) fn leader(&self) -> i32 {
        self.tids[0].load(Ordering::Relaxed)
    }

    /// All workers run at their priority.
    pub(super) fn grant(&self) {
        self.granted
            .store(self.priority.is_some(), Ordering::Relaxed);
    }

    /// Makes the workers ordinary threads. The leader calls it, and afterwards looks for a reason
    /// to [`raise`](Self::raise) them again.
    pub(super) fn lower(&self) {
        self.lowered.store(true, Ordering::Relaxed);
        if self.granted.load(Ordering::Relaxed) {
            for tid in &self.tids {
                // Lowering is never refused.
                let _ = thread::set_ordinary(tid.load(Ordering::Relaxed));
            }
        }
        // Pairs with the fence in `raise` (label PRIORITY): either the leader sees the reason that
        // was given before the raise, or the raise comes after this lowering.
        fence(Ordering::SeqCst);
    }

    /// Takes a [`lower`](Self::lower) back, if there was one. The leader calls it.
    pub(super) fn restore(&self) {
        if self.lowered.swap(false, Ordering::Relaxed) {
            self.raise();
        }
    }

    /// Gives the workers their priority. Its reason (an interruption, an action) is already to be seen by the leader.
    pub(super) fn raise(&self) {
        // Pairs with the fence in `lower` (label PRIORITY).
        fence(Ordering::SeqCst);
        if let Some(priority) = self.priority
            && self.granted.load(Ordering::Relaxed)
        {
            for tid in &self.tids {
                // It was granted before. If the right to it was taken away since, the thread stays ordinary.
                let _ = thread::set_realtime(tid.load(Ordering::Relaxed), priority);
            }
        }
    }
}
