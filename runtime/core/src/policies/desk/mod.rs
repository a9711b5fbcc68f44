//! What all policies but the default one share: the way of a request through its buffer, the
//! batches in flight, verdicts and counters. A policy is the [`Rules`] that it adds.
//!
//! These policies treat a network as one piece of work: a *job* is a batch that runs stage after
//! stage on its partition until its last member has left; nothing else runs there meanwhile. A
//! policy says when a member leaves (most: at the last exit).

mod jobs;
mod loss;
mod requests;

use core::fmt;

use alloc::boxed::Box;

use crate::action::{Action, Failure, Rejection, Reply, Verdict};
use crate::actions::Actions;
use crate::config::Config;
use crate::counters::Counters;
use crate::event::{Answer, Arrival, Event};
use crate::ids::{ActionId, ClientId, ModelId, PartitionId, RequestId, StageId, TaskId};
use crate::lost::reported;
use crate::policies::Policy;
use crate::time::{Instant, Nanos};

pub(crate) use jobs::{Ended, Job, Members};
pub(crate) use requests::{Request, State};

use jobs::Jobs;
use requests::Requests;

/// What a policy decides, beside what all have in common.
pub(crate) trait Rules: fmt::Debug {
    /// A request's input is prepared: put it in a queue, or refuse it. To refuse is to return the
    /// reason; everything else about the request is the desk's.
    ///
    /// # Errors
    /// Why it is not taken on.
    fn enqueue(&mut self, desk: &Desk, buffer: u16) -> Result<(), Rejection>;

    /// A queued request has got its verdict without the policy's doing (its client is gone): take
    /// it off the queues.
    fn forget(&mut self, desk: &Desk, buffer: u16);

    /// Whether a member that got `answer` at `exit` leaves there. Asked at all exits but the last.
    fn leaves(
        &self,
        _desk: &Desk,
        _job: &Job,
        _buffer: u16,
        _exit: StageId,
        _answer: Answer,
    ) -> bool {
        false
    }

    /// A job is over (or was not begun in its window, or failed).
    fn ended(&mut self, _desk: &mut Desk, _job: &Job, _how: Ended) {}

    /// A model's weights arrived (`Some`: how long it took) or did not.
    fn loaded(&mut self, _desk: &mut Desk, _action: ActionId, _measured: Option<Nanos>) {}

    /// Called last in a step (after arrivals and preparations: in the tick that follows once no
    /// more of them come at that moment, so that requests that come together are seen together):
    /// refuse what is hopeless, start what is to be started.
    fn dispatch(&mut self, desk: &mut Desk, actions: &mut Actions);

    /// When it wants to be asked again, if nothing happens before.
    fn next_timer(&self, desk: &Desk) -> Option<Instant>;
}

/// A policy made of the desk and its rules.
#[derive(Debug)]
pub(crate) struct Baseline<R> {
    desk: Desk,
    rules: R,
    /// Requests were queued since the last dispatch.
    queued: bool,
}

/// Requests, jobs and counters.
#[derive(Debug)]
pub(crate) struct Desk {
    /// The plan.
    pub(crate) config: Config,
    /// The time of this step.
    pub(crate) now: Instant,
    requests: Requests,
    jobs: Jobs,
    counters: Box<[Counters]>,
    actions_ordered: u64,
    stale_events: u64,
    draining: bool,
}

impl Desk {
    fn new(config: &Config) -> Self {
        Self {
            now: Instant::ZERO,
            requests: Requests::new(config.request_buffers),
            jobs: Jobs::new(config.partitions.len()),
            counters: alloc::vec![Counters::default(); config.tasks.len()].into(),
            actions_ordered: 0,
            stale_events: 0,
            draining: false,
            config: config.clone(),
        }
    }

    /// The request in a buffer.
    pub(crate) fn request(&self, buffer: u16) -> &Request {
        self.requests.get(buffer)
    }

    /// Whether nothing runs on a partition.
    pub(crate) fn is_free(&self, partition: PartitionId) -> bool {
        self.jobs.of(partition).is_none()
    }

    /// Profiled time of one stage at the smallest compiled batch size that holds `members`.
    pub(crate) fn stage_time(
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

    /// The compiled batch sizes of a task's model that its configuration allows, rising.
    pub(crate) fn sizes(&self, task: TaskId) -> impl DoubleEndedIterator<Item = u8> + '_ {
        let task = &self.config.tasks[task.index()];
        let first = &self.config.models[task.model.index()].stages[0];
        let most = task.batch_max;
        let sizes = first.times.iter().map(|time| time.batch);
        sizes.filter(move |&size| size <= most)
    }

    /// Refuses a queued request; the policy has taken it off its queues.
    pub(crate) fn reject(&mut self, buffer: u16, reason: Rejection, actions: &mut Actions) {
        self.conclude(buffer, Verdict::Rejected(reason), actions);
    }

    /// A name for an action that the policy orders itself (loads).
    pub(crate) fn name_action(&mut self) -> ActionId {
        self.actions_ordered += 1;
        ActionId(self.actions_ordered - 1)
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
        }));
    }

    /// Why a request gets no answer from an action that failed.
    fn failure(&self, buffer: u16) -> Failure {
        if self.request(buffer).gone {
            Failure::ClientGone
        } else {
            Failure::Device
        }
    }

    fn arrived(&mut self, arrival: &Arrival, actions: &mut Actions) {
        let locked = self.is_locked(arrival.task);
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
        let reason = match (self.draining, locked, full) {
            (true, _, _) => Rejection::Draining,
            (false, true, _) => Rejection::NoSlack,
            (false, false, true) => Rejection::QueueFull,
            (false, false, false) => {
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
        }));
    }
}

impl<R: Rules> Baseline<R> {
    pub(crate) fn new(config: &Config, rules: R) -> Self {
        Self {
            desk: Desk::new(config),
            rules,
            queued: false,
        }
    }

    fn prepared(&mut self, id: RequestId, ok: bool, actions: &mut Actions) {
        let desk = &mut self.desk;
        let Some(request) = desk.requests.find(id) else {
            desk.stale_events += 1;
            return;
        };
        if request.state != State::Preparing {
            desk.stale_events += 1;
            return;
        }
        request.state = State::Queued;
        let (task, gone) = (request.task, request.gone);
        let failure = match (gone, ok) {
            (true, _) => Failure::ClientGone,
            (false, false) => Failure::Payload,
            (false, true) if desk.is_locked(task) => {
                return desk.reject(id.buffer, Rejection::NoSlack, actions);
            }
            (false, true) => {
                if let Err(reason) = self.rules.enqueue(desk, id.buffer) {
                    desk.reject(id.buffer, reason, actions);
                }
                return;
            }
        };
        desk.conclude(id.buffer, Verdict::Failed(failure), actions);
    }

    fn client_gone(&mut self, client: ClientId, actions: &mut Actions) {
        for buffer in 0..self.desk.requests.buffers() {
            let request = self.desk.requests.get_mut(buffer);
            let over = matches!(request.state, State::Free | State::Locked);
            if over || request.ticket.client != client {
                continue;
            }
            if request.state == State::Queued {
                self.rules.forget(&self.desk, buffer);
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.desk.conclude(buffer, verdict, actions);
            } else {
                request.gone = true;
            }
        }
    }

    /// A stage of a job ran: those who leave are answered, the others go on.
    fn finished(&mut self, finished: &crate::Finished, actions: &mut Actions) {
        let Some(mut job) = self.desk.take_job(finished.action) else {
            return;
        };
        if finished.members.len() != job.members.len() {
            return self.failed(&job, actions);
        }
        job.measured += finished.measured;
        let last = self.desk.stages(job.model) == job.stage.index() + 1;
        let mut staying = Members::new();
        for (&buffer, &answer) in job.members.iter().zip(&finished.members) {
            self.desk.requests.get_mut(buffer).answer = Some((job.stage, answer));
            let gone = self.desk.request(buffer).gone;
            if gone {
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.desk.conclude(buffer, verdict, actions);
            } else if last
                || self
                    .rules
                    .leaves(&self.desk, &job, buffer, job.stage, answer)
            {
                self.desk.answer(buffer, actions);
            } else {
                staying.push(buffer).expect("no more than there were");
            }
        }
        job.members = staying;
        if job.members.is_empty() {
            return self.rules.ended(&mut self.desk, &job, Ended::Finished);
        }
        job.stage = job.stage.next();
        self.desk.order(job, actions);
    }

    fn learn(&mut self, event: &Event, actions: &mut Actions) {
        match event {
            Event::Arrived(arrival) => self.desk.arrived(arrival, actions),
            Event::Prepared { request, ok, .. } => self.prepared(*request, *ok, actions),
            Event::Finished(finished) => self.finished(finished, actions),
            Event::NotRun { action } => self.not_run(*action, actions),
            Event::Loaded { action, measured } => {
                self.rules.loaded(&mut self.desk, *action, Some(*measured));
            }
            Event::Failed { action } if self.desk.jobs.find(*action).is_none() => {
                self.rules.loaded(&mut self.desk, *action, None);
            }
            Event::Failed { action } | Event::Preempted { action } => {
                if let Some(job) = self.desk.take_job(*action) {
                    self.failed(&job, actions);
                }
            }
            Event::ClientGone { client } => self.client_gone(*client, actions),
            Event::Tick => {}
            Event::Drain => self.desk.draining = true,
        }
    }

    fn failed(&mut self, job: &Job, actions: &mut Actions) {
        for &buffer in &job.members {
            let failure = self.desk.failure(buffer);
            self.desk
                .conclude(buffer, Verdict::Failed(failure), actions);
        }
        self.rules.ended(&mut self.desk, job, Ended::Failed);
    }

    /// A stage was not begun inside its window. A job at its first stage is as if it had not been
    /// ordered: its members are queued again. A later one holds activations and goes on.
    fn not_run(&mut self, action: ActionId, actions: &mut Actions) {
        let Some(mut job) = self.desk.take_job(action) else {
            return;
        };
        let begun = job.stage > StageId(0);
        if !begun {
            self.rules.ended(&mut self.desk, &job, Ended::NotRun);
        }
        for buffer in core::mem::take(&mut job.members) {
            let desk = &mut self.desk;
            let task = desk.request(buffer).task.index();
            desk.counters[task].not_run += 1;
            if desk.request(buffer).gone {
                let verdict = Verdict::Failed(Failure::ClientGone);
                desk.conclude(buffer, verdict, actions);
            } else if begun {
                job.members.push(buffer).expect("no more than there were");
            } else {
                desk.requests.get_mut(buffer).state = State::Queued;
                if let Err(reason) = self.rules.enqueue(desk, buffer) {
                    desk.reject(buffer, reason, actions);
                }
            }
        }
        if begun && job.members.is_empty() {
            self.rules.ended(&mut self.desk, &job, Ended::Finished);
        } else if begun {
            self.desk.order(job, actions);
        }
    }
}

impl<R: Rules> Policy for Baseline<R> {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.desk.now = self.desk.now.max(now);
        match reported(event).filter(|action| self.desk.jobs.is_lost(*action)) {
            Some(action) => self.found(action),
            None => self.learn(event, actions),
        }
        self.give_up(actions);
        if matches!(event, Event::Arrived(_) | Event::Prepared { .. }) {
            self.queued |= matches!(event, Event::Prepared { .. });
            return;
        }
        self.queued = false;
        self.rules.dispatch(&mut self.desk, actions);
    }

    fn next_timer(&self) -> Option<Instant> {
        if self.queued {
            return Some(self.desk.now);
        }
        let rules = self.rules.next_timer(&self.desk);
        rules.into_iter().chain(self.desk.next_loss()).min()
    }

    fn drained(&self) -> bool {
        self.desk.draining && self.desk.requests.open() == 0
    }

    fn counters(&self, task: TaskId) -> &Counters {
        &self.desk.counters[task.index()]
    }

    fn open(&self) -> usize {
        self.desk.requests.open()
    }

    fn stale_events(&self) -> u64 {
        self.desk.stale_events
    }
}

/// The largest batch that requests for a model may join, whatever their tasks: compiled for every
/// stage, and allowed by every task that asks it.
pub(crate) fn largest_batch(config: &Config, model: ModelId) -> usize {
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
