//! Who is next among those that share the gaps: each task's time in them, so that all get the same.

use alloc::boxed::Box;

use crate::ids::TaskId;

/// Time received by each task, in nanoseconds.
///
/// Promises: it never falls; a task that wakes up is not ahead of the one that was chosen last on
/// its partition.
#[derive(Clone, Debug)]
pub struct Service {
    received: Box<[u64]>,
    /// By partition: what the task chosen last had received.
    chosen: Box<[u64]>,
}

impl Service {
    pub fn new(tasks: usize, partitions: usize) -> Self {
        Self {
            received: alloc::vec![0; tasks].into(),
            chosen: alloc::vec![0; partitions].into(),
        }
    }

    pub fn received(&self, task: TaskId) -> u64 {
        self.received[task.index()]
    }

    pub fn choose(&mut self, task: TaskId, partition: usize) {
        self.chosen[partition] = self.received(task);
    }

    /// A task that was away gets no credit for the time it did not ask for.
    pub fn wake(&mut self, task: TaskId, partition: usize) {
        let received = &mut self.received[task.index()];
        *received = self.chosen[partition].max(*received);
    }

    pub fn charge(&mut self, task: TaskId, nanos: u64) {
        let received = &mut self.received[task.index()];
        *received = received.saturating_add(nanos);
    }
}
