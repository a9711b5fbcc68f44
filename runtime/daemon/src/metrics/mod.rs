//! What the real-time threads count and housekeeping reads. Atomics only: no thread waits.

mod histogram;
mod late;
mod lending;
mod outcomes;
mod running;
mod stages;
mod start;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual_core::{ClientId, Counters, STAGES_MAX, Scheduler, TaskId};
use punctual_plan::Plan;

pub use histogram::{AtomicHistogram, Quantiles};
pub use late::{LateSpan, LateSpans};
pub use lending::LendingMetrics;
pub use outcomes::{Counted, Outcome, Outcomes};
pub use running::{Running, RunningStage};
pub use stages::{StageKey, StageMetrics, StageTimes};
pub use start::TaskStart;

use crate::messages::{Answered, Refused};

/// All of it; shared by every thread. Relaxed everywhere: counts that order nothing else.
#[derive(Debug)]
pub struct Metrics {
    /// One entry a task of the plan.
    pub tasks: Box<[TaskMetrics]>,
    /// One entry a partition of the plan.
    pub partitions: Box<[PartitionMetrics]>,
    /// One entry a client slot of the plan, of the client that has it.
    pub clients: Box<[Outcomes]>,
    pub stages: StageMetrics,
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

#[derive(Debug)]
pub struct TaskMetrics {
    pub outcomes: Outcomes,
    pub start: TaskStart,
    /// Answers with outputs of which values are not finite.
    pub not_finite: AtomicU64,
    /// Frames that another task took on.
    pub offloaded: AtomicU64,
    /// Frames whose pixels were read, and bytes of them that were copied for that.
    pub prepared: AtomicU64,
    pub copied_bytes: AtomicU64,
    /// Those of them that the GPU prepared.
    pub prepared_by_gpu: AtomicU64,
    /// Copied from the scheduler's counters when a stage has ended.
    pub overruns: AtomicU64,
    pub overrun_worst: AtomicU64,
    pub demotions: AtomicU64,
    pub reinstatements: AtomicU64,
    pub exits: [AtomicU64; STAGES_MAX],
    /// From capture to hand-over, answered frames only.
    pub latency: AtomicHistogram,
    /// From hand-over to the deadline, of the same; 0 of late ones. Empty without a deadline.
    pub slack: AtomicHistogram,
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
    /// The part of it that was best-effort work.
    pub best_effort_ns: AtomicU64,
    pub running: Running,
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
            stages: StageMetrics::new(&plan.scheduler),
            ..Self::with_counts(
                plan.tasks.len(),
                plan.partitions.len(),
                plan.client_slots.len(),
            )
        }
    }

    pub fn with_counts(tasks: usize, partitions: usize, clients: usize) -> Self {
        Self {
            tasks: (0..tasks).map(|_| TaskMetrics::new()).collect(),
            clients: (0..clients).map(|_| Outcomes::default()).collect(),
            partitions: (0..partitions)
                .map(|_| PartitionMetrics::default())
                .collect(),
            stages: StageMetrics::default(),
            lending: None,
            paging: PagingMetrics::new(),
            decisions: AtomicHistogram::new(),
            late: LateSpans::new(),
            channel_faults: AtomicU64::new(0),
        }
    }

    pub fn submitted(&self, task: TaskId, client: ClientId) {
        self.tasks[task.index()].outcomes.submitted();
        self.clients[client.index()].submitted();
    }

    /// A crop of a frame, for a task after the one that the frame was submitted to.
    pub fn part_found(&self, task: TaskId) {
        self.tasks[task.index()].outcomes.submitted();
    }

    /// A box beyond those of a frame that the task looks at.
    pub fn part_left_out(&self, task: TaskId) {
        let outcomes = &self.tasks[task.index()].outcomes;
        outcomes.submitted();
        outcomes.ended(Outcome::FanOut);
    }

    /// A crop that the policy never saw.
    pub fn part_refused(&self, task: TaskId, reason: Refused) {
        self.tasks[task.index()].outcomes.ended(reason.into());
    }

    /// A submission that the policy never saw. True if it is the first of its client that ended so.
    pub fn refused(&self, task: TaskId, client: ClientId, reason: Refused) -> bool {
        self.tasks[task.index()].outcomes.ended(reason.into());
        self.clients[client.index()].ended(reason.into())
    }

    /// A frame was read by its intake, which copied `copied_bytes` of it.
    pub fn prepared(&self, task: TaskId, copied_bytes: usize) {
        let task = &self.tasks[task.index()];
        count(&task.prepared);
        task.copied_bytes.fetch_add(copied_bytes as u64, Relaxed);
    }

    /// The GPU prepared a frame, which is counted by [`prepared`](Self::prepared), too.
    pub fn prepared_by_gpu(&self, task: TaskId) {
        count(&self.tasks[task.index()].prepared_by_gpu);
    }

    /// The one verdict of a submission. True if it is the first of its client that ended so.
    pub fn concluded(&self, answered: &Answered) -> bool {
        self.part_concluded(answered);
        let reply = &answered.reply;
        self.clients[reply.ticket.client.index()].ended(reply.verdict.into())
    }

    /// The one verdict of a crop of a frame.
    pub fn part_concluded(&self, answered: &Answered) {
        let reply = &answered.reply;
        let task = &self.tasks[reply.task.index()];
        if let Some((exit, _)) = reply.answer {
            count(&task.exits[exit.index()]);
            task.start.answered(answered.decided_ns);
        }
        if answered.not_finite {
            count(&task.not_finite);
        }
        task.outcomes.ended(reply.verdict.into());
    }

    /// How the tasks' stages kept their budgets: of this task and a few more, as there may be thousands. Returns the task to
    /// continue with. Scheduler's thread only.
    pub fn copy_conduct(&self, scheduler: &Scheduler, from: usize) -> usize {
        const AT_ONCE: usize = 64;
        let end = self.tasks.len().min(from + AT_ONCE);
        for (index, metrics) in self.tasks.iter().enumerate().take(end).skip(from) {
            metrics.copy_conduct(scheduler.counters(TaskId(index as u16)));
        }
        if end < self.tasks.len() { end } else { 0 }
    }

    /// How much of the tasks' networks serves their frames. Scheduler's thread only.
    pub fn copy_readiness(&self, scheduler: &Scheduler, tasks: impl Iterator<Item = TaskId>) {
        tasks.for_each(|id| self.task(id).start.is(scheduler.readiness(id)));
    }

    /// Keeps the time for those of the tasks that have become ready. True if any has.
    pub fn note_readiness(&self, now_ns: u64, tasks: impl Iterator<Item = TaskId>) -> bool {
        tasks.fold(false, |news, id| self.task(id).start.note(now_ns) | news)
    }

    pub fn task_ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.tasks.len()).map(|index| TaskId(index as u16))
    }

    pub fn task(&self, task: TaskId) -> &TaskMetrics {
        &self.tasks[task.index()]
    }
}

impl TaskMetrics {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            outcomes: Outcomes::default(),
            start: TaskStart::default(),
            not_finite: zero(),
            offloaded: zero(),
            prepared: zero(),
            copied_bytes: zero(),
            prepared_by_gpu: zero(),
            overruns: zero(),
            overrun_worst: zero(),
            demotions: zero(),
            reinstatements: zero(),
            exits: [const { AtomicU64::new(0) }; STAGES_MAX],
            latency: AtomicHistogram::new(),
            slack: AtomicHistogram::new(),
        }
    }

    fn copy_conduct(&self, counters: &Counters) {
        self.overruns.store(counters.overruns, Relaxed);
        self.overrun_worst.store(counters.overrun_worst, Relaxed);
        self.demotions.store(counters.demotions, Relaxed);
        self.reinstatements.store(counters.reinstatements, Relaxed);
    }
}
