//! Batches in flight: at most one a partition.

use alloc::boxed::Box;

use punctual_core::{ActionId, BATCH_MAX, Instant, ModelId, Nanos, PartitionId, StageId};

/// Buffers of the requests in a batch.
pub type Members = heapless::Vec<u16, BATCH_MAX>;

/// A batch on its way through a network.
#[derive(Clone, Debug)]
pub struct Job {
    pub partition: PartitionId,
    pub model: ModelId,
    /// The stage that runs, or ran last.
    pub stage: StageId,
    /// Those who have not left yet.
    pub members: Members,
    pub size: usize,
    /// Whether the batch shrinks as members leave; else the last stage still costs the full batch.
    pub compacts: bool,
    /// Not begun later than this (its first stage; the others follow at once).
    pub latest: Instant,
    pub started: Instant,
    /// Device time of its stages so far.
    pub measured: Nanos,
    pub(super) action: ActionId,
    /// From when on its action is taken for lost.
    pub(super) lost_from: Instant,
    /// It was taken for lost: its members have their verdicts.
    pub(super) lost: bool,
}

/// How a job came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Finished,
    NotRun,
    Failed,
}

/// The jobs, by partition.
#[derive(Debug)]
pub(super) struct Jobs {
    pub(super) running: Box<[Option<Job>]>,
    pub(super) in_flight: usize,
    pub(super) lost: usize,
    /// Not after the first moment at which an action in flight must be taken for lost.
    pub(super) next_loss: Instant,
}

impl Jobs {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            running: alloc::vec![None; partitions].into(),
            in_flight: 0,
            lost: 0,
            next_loss: Instant::FAR_FUTURE,
        }
    }

    pub(super) fn of(&self, partition: PartitionId) -> Option<&Job> {
        self.running[partition.index()].as_ref()
    }

    pub(super) fn put(&mut self, index: usize, job: Job) {
        self.in_flight += 1;
        self.next_loss = self.next_loss.min(job.lost_from);
        self.running[index] = Some(job);
    }

    pub(super) fn take(&mut self, index: usize) -> Option<Job> {
        let job = self.running[index].take()?;
        self.in_flight -= 1;
        self.lost -= usize::from(job.lost);
        if self.in_flight == 0 {
            self.next_loss = Instant::FAR_FUTURE;
        }
        Some(job)
    }

    /// Whether an action was taken for lost.
    pub(super) fn is_lost(&self, action: ActionId) -> bool {
        let of = |job: &Job| job.lost && job.action == action;
        self.lost > 0 && self.running.iter().flatten().any(of)
    }

    pub(super) fn find(&self, action: ActionId) -> Option<usize> {
        let is = |job: &Option<Job>| job.as_ref().is_some_and(|job| job.action == action);
        self.running.iter().position(is)
    }
}
