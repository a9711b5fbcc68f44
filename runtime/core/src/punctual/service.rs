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

/// What batches of best-effort work the gaps of a partition have had room for of late.
///
/// Promises: a batch that was stopped, and lost all that it did, is followed by smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct Gaps {
    places: u8,
    /// How many gaps were used since `places` was set.
    used: u8,
}

impl Gaps {
    pub const fn new() -> Self {
        Self {
            places: u8::MAX,
            used: 0,
        }
    }

    /// The largest batch that they have room for.
    pub const fn places(&self) -> u8 {
        self.places
    }

    /// A batch was stopped.
    pub fn was_short(&mut self, batch: u8) {
        self.places = (batch / 2).max(1);
        self.used = 0;
    }

    /// A batch came to its end: twice, and larger ones are tried again.
    pub fn was_long_enough(&mut self) {
        self.used += 1;
        if self.used == 2 {
            self.places = self.places.saturating_mul(2);
            self.used = 0;
        }
    }
}
