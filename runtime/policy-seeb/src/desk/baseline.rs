//! A policy made of the desk and its rules: what each event means to both.

use alloc::boxed::Box;

use super::{Baseline, Desk, Ended, Job, Members, Rules, State};
use punctual_core::lost::reported;
use punctual_core::{
    ActionId, Actions, ClientId, Config, Counters, Delivery, Event, Failure, Finished, Instant,
    Policy, PolicySpec, Rejection, RequestId, StageId, TaskId, Verdict,
};

impl<R: Rules> Baseline<R> {
    /// The policy of `spec`, which decides by `rules`.
    pub fn boxed(config: &Config, spec: &dyn PolicySpec, rules: R) -> Box<dyn Policy>
    where
        R: Send + 'static,
    {
        Box::new(Self {
            desk: Desk::new(config, spec.contract().partitioning),
            rules,
            queued: false,
        })
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
        let (task, gone, superseded) = (request.task, request.gone, request.superseded);
        let failure = match (gone, ok) {
            (true, _) => Failure::ClientGone,
            (false, false) => Failure::Payload,
            (false, true) if desk.is_locked(task) => {
                return desk.reject(id.buffer, Rejection::NoSlack, actions);
            }
            (false, true) if superseded => {
                return desk.reject(id.buffer, Rejection::Superseded, actions);
            }
            (false, true) if desk.sheds(task) => {
                return desk.reject(id.buffer, Rejection::Shedding, actions);
            }
            (false, true) => {
                return match self.rules.enqueue(desk, id.buffer) {
                    Err(reason) => desk.reject(id.buffer, reason, actions),
                    Ok(()) => self.supersede(id.buffer, actions),
                };
            }
        };
        desk.conclude(id.buffer, Verdict::Failed(failure), actions);
    }

    /// A frame was taken on: under [`Delivery::LatestFrame`] those of the same client and task that
    /// are not in a job yet make way.
    fn supersede(&mut self, newer: u16, actions: &mut Actions) {
        let newer = *self.desk.request(newer);
        let task = &self.desk.config.tasks[newer.task.index()];
        if task.delivery == Delivery::EveryFrame {
            return;
        }
        for buffer in 0..self.desk.requests.buffers() {
            let request = self.desk.requests.get_mut(buffer);
            let same = request.ticket.client == newer.ticket.client && request.task == newer.task;
            if !same || request.order >= newer.order {
                continue;
            }
            match request.state {
                State::Preparing => request.superseded = true,
                State::Queued => {
                    self.rules.forget(&self.desk, buffer);
                    self.desk.reject(buffer, Rejection::Superseded, actions);
                }
                State::Free | State::Running | State::Locked => {}
            }
        }
    }

    /// Begins or ends a hold on best-effort work: what waits is refused, jobs that run go on.
    fn hold_best_effort(&mut self, hold: bool, actions: &mut Actions) {
        self.desk.shedding = hold;
        for buffer in 0..self.desk.requests.buffers() {
            let request = *self.desk.request(buffer);
            if request.state == State::Queued && self.desk.sheds(request.task) {
                self.rules.forget(&self.desk, buffer);
                self.desk.reject(buffer, Rejection::Shedding, actions);
            }
        }
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
    fn finished(&mut self, finished: &Finished, actions: &mut Actions) {
        let Some(mut job) = self.desk.take_job(finished.action) else {
            return;
        };
        if finished.members.len() != job.members.len() {
            return self.failed(&job, actions);
        }
        job.measured += finished.measured;
        let last = self.desk.stages(job.model) == job.stage.index() + 1;
        let stages = &self.desk.config.models[job.model.index()].stages;
        let answers = stages[job.stage.index()].answers;
        let mut staying = Members::new();
        for (&buffer, &answer) in job.members.iter().zip(&finished.members) {
            if answers {
                self.desk.requests.get_mut(buffer).answer = Some((job.stage, answer));
            }
            let gone = self.desk.request(buffer).gone;
            if gone {
                let verdict = Verdict::Failed(Failure::ClientGone);
                self.desk.conclude(buffer, verdict, actions);
            } else if last
                || answers
                    && self
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
            Event::Shed { hold } => self.hold_best_effort(*hold, actions),
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
        let due = self
            .rules
            .next_timer(&self.desk)
            .is_some_and(|at| at <= now);
        self.desk.now = self.desk.now.max(now);
        match reported(event).filter(|action| self.desk.jobs.is_lost(*action)) {
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
