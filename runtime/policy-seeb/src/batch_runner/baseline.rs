//! A policy made of the batch runner and its rules: what each event means to both.

use alloc::boxed::Box;

use super::{Baseline, BaselineRules, BatchRunner, Ended, Job, Members, State};
use punctual_core::lost::reported;
use punctual_core::{
    ActionId, Actions, ClientId, Config, Counters, Delivery, Event, Failure, Finished, Instant,
    Policy, PolicySpec, Readiness, Rejection, RequestId, StageId, TaskId, TaskReadiness, Verdict,
};

impl<R: BaselineRules> Baseline<R> {
    /// The policy of `spec`, which decides by `rules`.
    pub fn boxed(config: &Config, spec: &dyn PolicySpec, rules: R) -> Box<dyn Policy>
    where
        R: Send + 'static,
    {
        Box::new(Self {
            runner: BatchRunner::new(config, spec.contract().partitioning),
            rules,
            queued: false,
        })
    }

    fn prepared(&mut self, id: RequestId, ready: Result<(), Failure>, actions: &mut Actions) {
        let runner = &mut self.runner;
        let Some(request) = runner.requests.find(id) else {
            runner.stale_events += 1;
            return;
        };
        if request.state != State::Preparing {
            runner.stale_events += 1;
            return;
        }
        request.state = State::Queued;
        let (task, gone, superseded) = (request.task, request.gone, request.superseded);
        let failure = match (gone, ready) {
            (true, _) => Failure::ClientGone,
            (false, Err(reason)) => reason,
            (false, Ok(())) if runner.is_locked(task) => {
                return runner.reject(id.buffer, Rejection::NoSlack, actions);
            }
            (false, Ok(())) if superseded => {
                return runner.reject(id.buffer, Rejection::Superseded, actions);
            }
            (false, Ok(())) if runner.sheds(task) => {
                return runner.reject(id.buffer, Rejection::Shedding, actions);
            }
            (false, Ok(())) if !runner.is_ready(task) => {
                return runner.reject(id.buffer, Rejection::NotReady, actions);
            }
            (false, Ok(())) => {
                return match self.rules.enqueue(runner, id.buffer) {
                    Err(reason) => runner.reject(id.buffer, reason, actions),
                    Ok(()) => self.supersede(id.buffer, actions),
                };
            }
        };
        runner.conclude(id.buffer, Verdict::Failed(failure), actions);
    }

    /// A frame was taken on: under [`Delivery::LatestFrame`] those of the same client and task that
    /// are not in a job yet make way.
    fn supersede(&mut self, newer: u16, actions: &mut Actions) {
        let newer = *self.runner.request(newer);
        let task = &self.runner.config.tasks[newer.task.index()];
        if task.delivery == Delivery::EveryFrame {
            return;
        }
        for buffer in 0..self.runner.requests.buffers() {
            let request = self.runner.requests.get_mut(buffer);
            let same = request.ticket.client == newer.ticket.client && request.task == newer.task;
            if !same || request.order >= newer.order {
                continue;
            }
            match request.state {
                State::Preparing => request.superseded = true,
                State::Queued => {
                    self.rules.forget(&self.runner, buffer);
                    self.runner.reject(buffer, Rejection::Superseded, actions);
                }
                State::Free | State::Running | State::Locked => {}
            }
        }
    }

    /// Begins or ends a hold on best-effort work: what waits is refused, jobs that run go on.
    fn hold_best_effort(&mut self, hold: bool, actions: &mut Actions) {
        self.runner.shedding = hold;
        for buffer in 0..self.runner.requests.buffers() {
            let request = *self.runner.request(buffer);
            if request.state == State::Queued && self.runner.sheds(request.task) {
                self.rules.forget(&self.runner, buffer);
                self.runner.reject(buffer, Rejection::Shedding, actions);
            }
        }
    }

    /// A device says how much of a model it can run: while that is not all, its frames are refused, and jobs that run go on.
    fn readiness(&mut self, said: &Readiness, actions: &mut Actions) {
        let all = usize::from(said.stages) >= self.runner.stages(said.model);
        self.runner.ready[said.model.index()] = all;
        for buffer in 0..self.runner.requests.buffers() {
            let request = *self.runner.request(buffer);
            if request.state == State::Queued && !self.runner.is_ready(request.task) {
                self.rules.forget(&self.runner, buffer);
                self.runner.reject(buffer, Rejection::NotReady, actions);
            }
        }
    }

    fn client_gone(&mut self, client: ClientId, actions: &mut Actions) {
        for buffer in 0..self.runner.requests.buffers() {
            let request = self.runner.requests.get_mut(buffer);
            let over = matches!(request.state, State::Free | State::Locked);
            if over || request.ticket.client != client {
                continue;
            }
            if request.state == State::Queued {
                self.rules.forget(&self.runner, buffer);
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.runner.conclude(buffer, verdict, actions);
            } else {
                request.gone = true;
            }
        }
    }

    /// A stage of a job ran: those who leave are answered, the others go on.
    fn finished(&mut self, finished: &Finished, actions: &mut Actions) {
        let Some(mut job) = self.runner.take_job(finished.action) else {
            return;
        };
        if finished.members.len() != job.members.len() {
            return self.failed(&job, actions);
        }
        job.measured += finished.measured;
        let last = self.runner.stages(job.model) == job.stage.index() + 1;
        let stages = &self.runner.config.models[job.model.index()].stages;
        let answers = stages[job.stage.index()].answers;
        let mut staying = Members::new();
        for (&buffer, &answer) in job.members.iter().zip(&finished.members) {
            if answers {
                self.runner.requests.get_mut(buffer).answer = Some((job.stage, answer));
            }
            let gone = self.runner.request(buffer).gone;
            if gone {
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.runner.conclude(buffer, verdict, actions);
            } else if last
                || answers
                    && self
                        .rules
                        .leaves(&self.runner, &job, buffer, job.stage, answer)
            {
                self.runner.answer(buffer, actions);
            } else {
                staying.push(buffer).expect("no more than there were");
            }
        }
        job.members = staying;
        if job.members.is_empty() {
            return self.rules.ended(&mut self.runner, &job, Ended::Finished);
        }
        job.stage = job.stage.next();
        self.runner.order(job, actions);
    }

    fn learn(&mut self, event: &Event, actions: &mut Actions) {
        match event {
            Event::Arrived(arrival) => self.runner.arrived(arrival, actions),
            Event::Prepared { request, ready, .. } => self.prepared(*request, *ready, actions),
            Event::Finished(finished) => self.finished(finished, actions),
            Event::NotRun { action } => self.not_run(*action, actions),
            Event::Loaded { action, measured } => {
                self.rules
                    .loaded(&mut self.runner, *action, Some(*measured));
            }
            Event::Failed { action } if self.runner.jobs.find(*action).is_none() => {
                self.rules.loaded(&mut self.runner, *action, None);
            }
            Event::Failed { action } | Event::Preempted { action } => {
                if let Some(job) = self.runner.take_job(*action) {
                    self.failed(&job, actions);
                }
            }
            Event::ClientGone { client } => self.client_gone(*client, actions),
            Event::Burst { .. } | Event::Tick => {}
            Event::Drain => self.runner.draining = true,
            Event::Shed { hold } => self.hold_best_effort(*hold, actions),
            Event::Starved { partition, starved } => {
                self.runner.starved[partition.index()] = *starved;
            }
            Event::Readiness(said) => self.readiness(said, actions),
        }
    }

    fn failed(&mut self, job: &Job, actions: &mut Actions) {
        for &buffer in &job.members {
            let failure = self.runner.failure(buffer, Failure::Device);
            self.runner
                .conclude(buffer, Verdict::Failed(failure), actions);
        }
        self.rules.ended(&mut self.runner, job, Ended::Failed);
    }

    /// A stage was not begun inside its window. A job at its first stage is as if it had not been
    /// ordered: its members are queued again. A later one holds activations and goes on.
    fn not_run(&mut self, action: ActionId, actions: &mut Actions) {
        let Some(mut job) = self.runner.take_job(action) else {
            return;
        };
        let begun = job.stage > StageId(0);
        if !begun {
            self.rules.ended(&mut self.runner, &job, Ended::NotRun);
        }
        for buffer in core::mem::take(&mut job.members) {
            let runner = &mut self.runner;
            let task = runner.request(buffer).task.index();
            runner.counters[task].not_run += 1;
            if runner.request(buffer).gone {
                let verdict = Verdict::Failed(Failure::ClientGone);
                runner.conclude(buffer, verdict, actions);
            } else if begun {
                job.members.push(buffer).expect("no more than there were");
            } else {
                runner.requests.get_mut(buffer).state = State::Queued;
                if let Err(reason) = self.rules.enqueue(runner, buffer) {
                    runner.reject(buffer, reason, actions);
                }
            }
        }
        if begun && job.members.is_empty() {
            self.rules.ended(&mut self.runner, &job, Ended::Finished);
        } else if begun {
            self.runner.order(job, actions);
        }
    }
}

impl<R: BaselineRules> Policy for Baseline<R> {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        let due = self
            .rules
            .next_timer(&self.runner)
            .is_some_and(|at| at <= now);
        self.runner.now = self.runner.now.max(now);
        match reported(event).filter(|action| self.runner.jobs.is_lost(*action)) {
            Some(action) => self.found(action),
            None => self.learn(event, actions),
        }
        self.give_up(actions);
        if matches!(event, Event::Arrived(_) | Event::Prepared { .. }) {
            // A timer that this event came in the place of must not be forgotten.
            self.queued |= due || matches!(event, Event::Prepared { .. });
            return;
        }
        self.queued = false;
        self.rules.dispatch(&mut self.runner, actions);
    }

    fn next_timer(&self) -> Option<Instant> {
        if self.queued {
            return Some(self.runner.now);
        }
        let rules = self.rules.next_timer(&self.runner);
        rules.into_iter().chain(self.runner.next_loss()).min()
    }

    fn drained(&self) -> bool {
        self.runner.draining && self.runner.requests.open() == 0
    }

    fn readiness(&self, task: TaskId) -> TaskReadiness {
        if self.runner.is_ready(task) {
            TaskReadiness::Whole
        } else {
            TaskReadiness::NotReady
        }
    }

    fn counters(&self, task: TaskId) -> &Counters {
        &self.runner.counters[task.index()]
    }

    fn open(&self) -> usize {
        self.runner.requests.open()
    }

    fn stale_events(&self) -> u64 {
        self.runner.stale_events
    }
}
