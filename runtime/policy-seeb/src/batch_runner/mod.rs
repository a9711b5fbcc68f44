//! What all policies but the default one share: the way of a request through its buffer, the
//! batches in flight, verdicts and counters. A policy is the [`BaselineRules`] that it adds.
//!
//! These policies treat a network as one piece of work: a *job* is a batch that runs stage after
//! stage on its partition until its last member has left; nothing else runs there meanwhile. A
//! policy says when a member leaves (most: at the last exit).

mod baseline;
mod jobs;
mod loss;
mod requests;

use core::fmt;

use alloc::boxed::Box;

use punctual_core::lost::lost_from;
use punctual_core::{
    Action, ActionId, Actions, Answer, Arrival, BATCH_MAX, Config, Counters, Criticality, Failure,
    Infer, Instant, ModelId, Nanos, PartitionId, Partitioning, Rejection, Reply, RequestId,
    StageId, TaskId, Verdict, Window,
};

pub use jobs::{Ended, Job, Members};
pub use requests::{Request, State};

use jobs::Jobs;
use requests::Requests;

/// What a policy decides, beyond what all have in common.
pub trait BaselineRules: fmt::Debug + Send {
    /// A request's input is prepared: put it in a queue, or refuse it. To refuse is to return the
    /// reason; everything else about the request is the batch runner's.
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection>;

    /// A queued request has got its verdict without the policy's doing (its client is gone): take it off the queues.
    fn forget(&mut self, runner: &BatchRunner, buffer: u16);

    /// Whether a member that got `answer` at `exit` leaves there. Asked at all exits but the last.
    fn leaves(
        &self,
        _runner: &BatchRunner,
        _job: &Job,
        _buffer: u16,
        _exit: StageId,
        _answer: Answer,
    ) -> bool {
        false
    }

    /// A job is over (or was not begun in its window, or failed).
    fn ended(&mut self, _runner: &mut BatchRunner, _job: &Job, _how: Ended) {}

    /// A model's weights arrived (`Some`: how long it took) or did not.
    fn loaded(&mut self, _runner: &mut BatchRunner, _action: ActionId, _measured: Option<Nanos>) {}

    /// Called last in a step (after arrivals and preparations: in the tick that follows once no
    /// more of them come at that moment, so that requests that come together are seen together):
    /// refuse what is hopeless, start what must be started.
    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions);

    /// When it wants to be asked again, if nothing happens before.
    fn next_timer(&self, runner: &BatchRunner) -> Option<Instant>;
}

/// A policy made of the batch runner and its rules.
#[derive(Debug)]
pub struct Baseline<R> {
    runner: BatchRunner,
    rules: R,
    /// Requests were queued since the last dispatch.
    queued: bool,
}

/// Requests, jobs and counters.
#[derive(Debug)]
pub struct BatchRunner {
    pub config: Config,
    pub now: Instant,
    /// Partitions share their units: jobs on them run at the same time.
    shared: bool,
    requests: Requests,
    jobs: Jobs,
    counters: Box<[Counters]>,
    actions_ordered: u64,
    stale_events: u64,
    draining: bool,
    /// Best-effort work is refused ([`Event::Shed`](crate::Event::Shed)).
    shedding: bool,
    /// Partitions whose threads the machine does not run ([`Event::Starved`](crate::Event::Starved)).
    starved: Box<[bool]>,
    /// By model: all of its stages can run ([`Event::Readiness`](crate::Event::Readiness)).
    ready: Box<[bool]>,
}

impl BatchRunner {
    fn new(config: &Config, partitioning: Partitioning) -> Self {
        Self {
            shared: partitioning == Partitioning::PerTask,
            now: Instant::ZERO,
            requests: Requests::new(config.request_buffers),
            jobs: Jobs::new(config.partitions.len()),
            counters: alloc::vec![Counters::default(); config.tasks.len()].into(),
            actions_ordered: 0,
            stale_events: 0,
            draining: false,
            shedding: false,
            starved: alloc::vec![false; config.partitions.len()].into(),
            ready: alloc::vec![true; config.models.len()].into(),
            config: config.clone(),
        }
    }

    pub fn request(&self, buffer: u16) -> &Request {
        self.requests.get(buffer)
    }

    /// Whether nothing runs on a partition.
    pub fn is_free(&self, partition: PartitionId) -> bool {
        self.jobs.of(partition).is_none()
    }

    /// Profiled time of one stage at the smallest compiled batch size that holds `members`.
    pub fn stage_time(
        &self,
        model: ModelId,
        stage: StageId,
        members: usize,
        partition: PartitionId,
    ) -> Nanos {
        let times = &self.config.models[model.index()].stages[stage.index()].times;
        let holds = times.iter().find(|t| usize::from(t.batch) >= members);
        let time = holds.or(times.last()).expect("a stage has times");
        time.on[partition.index()].budget + self.config.dispatch_cost
    }

    /// The compiled batch sizes of a task's model that its configuration allows and every stage holds, rising.
    pub fn sizes(&self, task: TaskId) -> impl DoubleEndedIterator<Item = u8> + '_ {
        let task = &self.config.tasks[task.index()];
        let stages = &self.config.models[task.model.index()].stages;
        let largest = stages.iter().filter_map(|stage| stage.times.last());
        let most = largest.map(|time| time.batch).min().unwrap_or(1);
        let most = most.min(task.batch_max);
        let sizes = stages[0].times.iter().map(|time| time.batch);
        sizes.filter(move |&size| size <= most)
    }

    /// Refuses a queued request; the policy has taken it off its queues.
    pub fn reject(&mut self, buffer: u16, reason: Rejection, actions: &mut Actions) {
        self.conclude(buffer, Verdict::Rejected(reason), actions);
    }

    /// A name for an action that the policy orders itself (loads).
    pub fn name_action(&mut self) -> ActionId {
        self.actions_ordered += 1;
        ActionId(self.actions_ordered - 1)
    }

    /// Whether a task's frames are given up at present.
    fn sheds(&self, task: TaskId) -> bool {
        let criticality = self.config.tasks[task.index()].criticality;
        self.shedding && criticality == Criticality::BestEffort
    }

    /// Whether all of a task's network can run: a job runs it as a whole.
    fn is_ready(&self, task: TaskId) -> bool {
        let model = self.config.tasks[task.index()].model;
        self.ready[model.index()]
    }

    fn answer(&mut self, buffer: u16, actions: &mut Actions) {
        let on_time = self.now <= self.request(buffer).due;
        let verdict = if on_time {
            Verdict::OnTime
        } else {
            Verdict::Late
        };
        self.conclude(buffer, verdict, actions);
    }

    fn conclude(&mut self, buffer: u16, verdict: Verdict, actions: &mut Actions) {
        let request = self.requests.release(buffer);
        self.reply(buffer, &request, verdict, actions);
    }

    /// Says what became of a request that was in `buffer`.
    fn reply(&mut self, buffer: u16, request: &Request, verdict: Verdict, actions: &mut Actions) {
        let id = RequestId {
            buffer,
            generation: request.generation,
        };
        let answered = matches!(verdict, Verdict::OnTime | Verdict::Late);
        let answer = request.answer.filter(|_| answered);
        let counters = &mut self.counters[request.task.index()];
        counters.open -= 1;
        counters.count(verdict, answer.map(|(exit, _)| exit));
        actions.push(Action::Reply(Reply {
            request: Some(id),
            task: request.task,
            ticket: request.ticket,
            verdict,
            answer,
            captured: request.captured,
            deadline: request.deadline,
            delivered: None,
        }));
    }

    /// Why a request gets no answer from an action that failed for this reason.
    fn failure(&self, buffer: u16, reason: Failure) -> Failure {
        if self.request(buffer).gone {
            Failure::ClientGone
        } else {
            reason
        }
    }

    fn arrived(&mut self, arrival: &Arrival, actions: &mut Actions) {
        let (locked, sheds) = (self.is_locked(arrival.task), self.sheds(arrival.task));
        let is_ready = self.is_ready(arrival.task);
        let task = &self.config.tasks[arrival.task.index()];
        let captured = arrival.captured.min(self.now);
        let own = task.deadline.map_or(Instant::FAR_FUTURE, |d| captured + d);
        let deadline = arrival.deadline.map_or(own, |d| d.min(own));
        let due = if deadline == Instant::FAR_FUTURE {
            deadline
        } else {
            deadline - self.config.egress_bound
        };
        let counters = &mut self.counters[arrival.task.index()];
        counters.submitted += 1;
        let full = counters.open >= u64::from(task.queue_max) || !self.requests.has_free();
        let reason = match (locked, full) {
            _ if self.draining => Rejection::Draining,
            _ if sheds => Rejection::Shedding,
            _ if !is_ready => Rejection::NotReady,
            (true, _) => Rejection::NoSlack,
            (false, true) => Rejection::QueueFull,
            (false, false) => {
                counters.open += 1;
                let request = self.requests.take(Request {
                    task: arrival.task,
                    ticket: arrival.ticket,
                    captured,
                    deadline,
                    due,
                    ..Request::FREE
                });
                return actions.push(Action::Prepare {
                    request,
                    task: arrival.task,
                    ticket: arrival.ticket,
                });
            }
        };
        counters.count(Verdict::Rejected(reason), None);
        actions.push(Action::Reply(Reply {
            request: None,
            task: arrival.task,
            ticket: arrival.ticket,
            verdict: Verdict::Rejected(reason),
            answer: None,
            captured,
            deadline,
            delivered: None,
        }));
    }

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
    fn order(&mut self, mut job: Job, actions: &mut Actions) {
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
    fn take_job(&mut self, action: ActionId) -> Option<Job> {
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

/// The largest batch that requests for a model may join, whatever their tasks: compiled for every
/// stage, and allowed by every task that asks it.
pub fn largest_batch(config: &Config, model: ModelId) -> usize {
    let stages = &config.models[model.index()].stages;
    let tasks = config.tasks.iter().filter(|task| task.model == model);
    let largest = tasks.flat_map(|task| {
        stages.iter().filter_map(|stage| {
            let sizes = stage.times.iter().map(|time| time.batch);
            sizes.filter(|&size| size <= task.batch_max).max()
        })
    });
    usize::from(largest.min().unwrap_or(1))
}
