//! Fair sharing of the gaps: the time that each task received in them. The policy serves the task
//! that received least, so that all get equal parts while they have requests.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

use crate::ids::TaskId;

/// Time received by each task, in nanoseconds.
///
/// Promises: a task's time never falls. A task gets no credit for time in which it had no request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    received: Box<[u64]>,
    /// By partition: the time that the task chosen last had received.
    chosen: Box<[u64]>,
}

impl Service {
    /// Whether it is of as many tasks and partitions as another.
    pub fn fits(&self, other: &Self) -> bool {
        self.received.len() == other.received.len() && self.chosen.len() == other.chosen.len()
    }

    pub fn new(tasks: usize, partitions: usize) -> Self {
        Self {
            received: alloc::vec![0; tasks].into(),
            chosen: alloc::vec![0; partitions].into(),
        }
    }

    pub fn received(&self, task: TaskId) -> u64 {
        self.received[task.index()]
    }

    /// Records that a task gets the next gap of a partition.
    pub fn choose(&mut self, task: TaskId, partition: usize) {
        self.chosen[partition] = self.received(task);
    }

    /// Records that a task has a request again. Without this, a task that had none for an hour would
    /// get all gaps until it had made up for that hour.
    pub fn wake(&mut self, task: TaskId, partition: usize) {
        let received = &mut self.received[task.index()];
        *received = self.chosen[partition].max(*received);
    }

    pub fn charge(&mut self, task: TaskId, nanos: u64) {
        let received = &mut self.received[task.index()];
        *received = received.saturating_add(nanos);
    }
}
