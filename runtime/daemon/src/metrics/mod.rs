//! What the real-time threads count and housekeeping reads. Atomics only: no thread waits.

mod histogram;
mod late;
mod lending;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual_core::{Counters, Failure, Rejection, STAGES_MAX, Scheduler, TaskId, Verdict};
use punctual_plan::Plan;

pub use histogram::{AtomicHistogram, Quantiles};
pub use late::{LateSpan, LateSpans};
pub use lending::LendingMetrics;

use crate::messages::Answered;
use crate::report::{FailedReport, RejectedReport};

/// All of it; shared by every thread. Relaxed everywhere: counts that order nothing else.
#[derive(Debug)]
pub struct Metrics {
    /// One entry a task of the plan.
    pub tasks: Box<[TaskMetrics]>,
    /// One entry a partition of the plan.
    pub partitions: Box<[PartitionMetrics]>,
    /// None without places.
    pub lending: Option<LendingMetrics>,
    pub paging: PagingMetrics,
    /// From before a step to after its actions.
    pub decisions: AtomicHistogram,
    /// The late ones, to be compared with the machine's stalls.
    pub late: LateSpans,
    /// Channel faults that cost a client its connection.
    pub channel_faults: AtomicU64,
}

/// Of one task. `submitted` is written before the verdict that ends the submission.
#[derive(Debug)]
pub struct TaskMetrics {
    pub submitted: AtomicU64,
    pub on_time: AtomicU64,
    pub late: AtomicU64,
    pub late_on_arrival: AtomicU64,
    pub no_slack: AtomicU64,
    pub queue_full: AtomicU64,
    pub draining: AtomicU64,
    pub superseded: AtomicU64,
    pub shedding: AtomicU64,
    pub invalid: AtomicU64,
    pub quota: AtomicU64,
    pub no_area: AtomicU64,
    pub failed_device: AtomicU64,
    pub failed_payload: AtomicU64,
    pub failed_client_gone: AtomicU64,
    pub failed_shed: AtomicU64,
    pub failed_not_finite: AtomicU64,
    pub failed_vector: AtomicU64,
    pub failed_starved: AtomicU64,
    /// Answers with outputs of which values are not finite.
    pub not_finite: AtomicU64,
    /// Frames that another task took on.
    pub offloaded: AtomicU64,
    /// Copied from the scheduler's counters when a stage has ended.
    pub overruns: AtomicU64,
    pub overrun_worst: AtomicU64,
    pub demotions: AtomicU64,
    pub reinstatements: AtomicU64,
    pub exits: [AtomicU64; STAGES_MAX],
    /// From capture to hand-over, answered frames only.
    pub latency: AtomicHistogram,
}

#[derive(Debug, Default)]
pub struct PartitionMetrics {
    pub actions: AtomicU64,
    pub members: AtomicU64,
    pub finished: AtomicU64,
    pub preempted: AtomicU64,
    pub not_run: AtomicU64,
    pub failed: AtomicU64,
    pub busy_ns: AtomicU64,
}

/// Of weights that come and go.
#[derive(Debug)]
pub struct PagingMetrics {
    /// Requests that found their weights when they arrived, and that did not.
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    /// How long successful loads took.
    pub loads: AtomicHistogram,
    pub failed: AtomicU64,
    pub evictions: AtomicU64,
}

impl PagingMetrics {
    fn new() -> Self {
        Self {
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            loads: AtomicHistogram::new(),
            failed: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Metrics {
    pub fn new(plan: &Plan) -> Self {
        Self {
            lending: LendingMetrics::new(&plan.scheduler),
            ..Self::with_counts(plan.tasks.len(), plan.partitions.len())
        }
    }

    pub fn with_counts(tasks: usize, partitions: usize) -> Self {
        Self {
            tasks: (0..tasks).map(|_| TaskMetrics::new()).collect(),
            partitions: (0..partitions)
                .map(|_| PartitionMetrics::default())
                .collect(),
            lending: None,
            paging: PagingMetrics::new(),
            decisions: AtomicHistogram::new(),
            late: LateSpans::new(),
            channel_faults: AtomicU64::new(0),
        }
    }

    /// How the tasks' stages kept their budgets. Scheduler's thread only.
    pub fn copy_conduct(&self, scheduler: &Scheduler) {
        for (index, metrics) in self.tasks.iter().enumerate() {
            metrics.copy_conduct(scheduler.counters(TaskId(index as u16)));
        }
    }

    pub fn task(&self, task: TaskId) -> &TaskMetrics {
        &self.tasks[task.index()]
    }
}

impl TaskMetrics {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            submitted: zero(),
            on_time: zero(),
            late: zero(),
            late_on_arrival: zero(),
            no_slack: zero(),
            queue_full: zero(),
            draining: zero(),
            superseded: zero(),
            shedding: zero(),
            invalid: zero(),
            quota: zero(),
            no_area: zero(),
            failed_device: zero(),
            failed_payload: zero(),
            failed_client_gone: zero(),
            failed_shed: zero(),
            failed_not_finite: zero(),
            failed_vector: zero(),
            failed_starved: zero(),
            not_finite: zero(),
            offloaded: zero(),
            overruns: zero(),
            overrun_worst: zero(),
            demotions: zero(),
            reinstatements: zero(),
            exits: [const { AtomicU64::new(0) }; STAGES_MAX],
            latency: AtomicHistogram::new(),
        }
    }

    /// Counts the one verdict of a submission.
    pub fn count(&self, answered: &Answered) {
        let reply = &answered.reply;
        count(match reply.verdict {
            Verdict::OnTime => &self.on_time,
            Verdict::Late => &self.late,
            Verdict::Rejected(Rejection::LateOnArrival) => &self.late_on_arrival,
            Verdict::Rejected(Rejection::NoSlack) => &self.no_slack,
            Verdict::Rejected(Rejection::QueueFull) => &self.queue_full,
            Verdict::Rejected(Rejection::Draining) => &self.draining,
            Verdict::Rejected(Rejection::Superseded) => &self.superseded,
            Verdict::Rejected(Rejection::Shedding) => &self.shedding,
            Verdict::Failed(Failure::Device) => &self.failed_device,
            Verdict::Failed(Failure::Payload) => &self.failed_payload,
            Verdict::Failed(Failure::ClientGone) => &self.failed_client_gone,
            Verdict::Failed(Failure::Shed) => &self.failed_shed,
            Verdict::Failed(Failure::NotFinite) => &self.failed_not_finite,
            Verdict::Failed(Failure::Vector) => &self.failed_vector,
            Verdict::Failed(Failure::Starved) => &self.failed_starved,
        });
        if let Some((exit, _)) = reply.answer {
            count(&self.exits[exit.index()]);
        }
        if answered.not_finite {
            count(&self.not_finite);
        }
    }

    fn copy_conduct(&self, counters: &Counters) {
        self.overruns.store(counters.overruns, Relaxed);
        self.overrun_worst.store(counters.overrun_worst, Relaxed);
        self.demotions.store(counters.demotions, Relaxed);
        self.reinstatements.store(counters.reinstatements, Relaxed);
    }

    pub fn rejected(&self) -> RejectedReport {
        RejectedReport {
            late_on_arrival: self.late_on_arrival.load(Relaxed),
            no_slack: self.no_slack.load(Relaxed),
            queue_full: self.queue_full.load(Relaxed),
            draining: self.draining.load(Relaxed),
            superseded: self.superseded.load(Relaxed),
            shedding: self.shedding.load(Relaxed),
            invalid: self.invalid.load(Relaxed),
            quota: self.quota.load(Relaxed),
            no_area: self.no_area.load(Relaxed),
        }
    }

    pub fn failed(&self) -> FailedReport {
        FailedReport {
            device: self.failed_device.load(Relaxed),
            payload: self.failed_payload.load(Relaxed),
            client_gone: self.failed_client_gone.load(Relaxed),
            shed: self.failed_shed.load(Relaxed),
            not_finite: self.failed_not_finite.load(Relaxed),
            vector: self.failed_vector.load(Relaxed),
            starved: self.failed_starved.load(Relaxed),
        }
    }
}
