//! Batches in flight: at most one a partition.

use alloc::boxed::Box;

use super::{BatchRunner, State};
use punctual_core::lost::lost_from;
use punctual_core::{
    Action, ActionId, Actions, BATCH_MAX, Criticality, Infer, Instant, ModelId, Nanos, PartitionId,
    RequestId, StageId, Window,
};

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
    action: ActionId,
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

    fn put(&mut self, index: usize, job: Job) {
        self.in_flight += 1;
        self.next_loss = self.next_loss.min(job.lost_from);
        self.running[index] = Some(job);
    }

    fn take(&mut self, index: usize) -> Option<Job> {
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

impl BatchRunner {
    /// Starts a batch of queued requests of one model; the policy has taken them off its queues.
    ///
    /// `latest`: the last moment at which it may begin ([`Instant::FAR_FUTURE`]: whenever the device gets to it).
    pub fn start(
        &mut self,
        partition: PartitionId,
        members: Members,
        compacts: bool,
        latest: Instant,
        actions: &mut Actions,
    ) {
        let task = self.request(members[0]).task;
        for &buffer in &members {
            let request = self.requests.get_mut(buffer);
            debug_assert_eq!(request.state, State::Queued);
            request.state = State::Running;
        }
        let job = Job {
            partition,
            model: self.config.tasks[task.index()].model,
            stage: StageId(0),
            size: members.len(),
            members,
            compacts,
            latest,
            started: self.now,
            measured: Nanos::ZERO,
            action: ActionId(0),
            lost_from: Instant::FAR_FUTURE,
            lost: false,
        };
        self.order(job, actions);
    }

    /// Orders the next stage of a job.
    pub(super) fn order(&mut self, mut job: Job, actions: &mut Actions) {
        debug_assert!(self.is_free(job.partition), "one job a partition");
        let id = self.name_action();
        job.action = id;
        let held = if job.compacts {
            job.members.len()
        } else {
            job.size
        };
        let times = &self.config.models[job.model.index()].stages[job.stage.index()].times;
        let holds = times.iter().find(|time| usize::from(time.batch) >= held);
        let time = holds.expect("members fit the largest compiled batch");
        let (batch, time) = (time.batch, time.on[job.partition.index()]);
        let mut members = heapless::Vec::<RequestId, BATCH_MAX>::new();
        for &buffer in &job.members {
            let full = members.push(self.requests.id(buffer));
            full.expect("a job has no more members than an action");
        }
        let latest = if job.stage == StageId(0) {
            job.latest
        } else {
            Instant::FAR_FUTURE
        };
        job.lost_from = lost_from(self.now, latest, time);
        actions.push(Action::Infer(Infer {
            id,
            partition: job.partition,
            model: job.model,
            stage: job.stage,
            batch,
            members,
            window: Window {
                earliest: self.now,
                latest,
            },
            criticality: Criticality::RealTime,
        }));
        let index = job.partition.index();
        self.jobs.put(index, job);
    }

    /// The job whose stage an event is about; it runs no longer.
    pub(super) fn take_job(&mut self, action: ActionId) -> Option<Job> {
        let Some(index) = self.jobs.find(action) else {
            self.stale_events += 1;
            return None;
        };
        let job = self.jobs.take(index)?;
        for &buffer in job.members.iter().filter(|_| job.lost) {
            self.requests.unlock(buffer);
        }
        Some(job)
    }

    /// How many stages a model has.
    pub fn stages(&self, model: ModelId) -> usize {
        self.config.models[model.index()].stages.len()
    }
}
