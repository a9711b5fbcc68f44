//! Clients, an intake and a device in virtual time; every step is booked.

use std::collections::BTreeMap;

use super::books::{Books, Breach};
use punctual_core::{
    Action, ActionId, Actions, Answer, Arrival, BATCH_MAX, ClientId, Confidence, Config, Event,
    Finished, Infer, Instant, Nanos, PartitionId, PolicySpec, Reply, RequestId, Scheduler, StageId,
    TaskId, Ticket,
};
use punctual_types::Random;

/// Steps after which a run that should have ended is taken for one that never will.
const STEPS_MAX: u64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Every stage takes its budget, every exit is unsure, nothing fails.
    Calm,
    /// Stages end early or overrun, windows are missed, devices and payloads fail.
    Foul,
}

#[derive(Debug)]
pub struct World {
    pub config: Config,
    pub scheduler: Scheduler,
    pub books: Books,
    pub now: Instant,
    /// Everything ordered, with the time of the order.
    pub log: Vec<(Instant, Action)>,
    /// A fault planted into the decisions of a step before anybody sees them.
    pub tamper: fn(&mut Vec<Action>),
    /// What an exit says in calm weather, by sequence number of the submission.
    pub confidence: fn(u64, StageId) -> Confidence,
    weather: Weather,
    random: Random,
    actions: Actions,
    agenda: BTreeMap<(Instant, u64), Event>,
    scheduled: u64,
    sequence: u64,
    /// When each partition has run what it was given.
    free_from: Vec<Instant>,
    /// Where the end of an action stands on the agenda.
    ends: BTreeMap<u64, (Instant, u64)>,
    steps: u64,
}

impl World {
    /// # Panics
    /// If the policy does not take the plan.
    pub fn new(config: &Config, policy: &dyn PolicySpec, weather: Weather, random: Random) -> Self {
        Self {
            scheduler: Scheduler::new(config, policy).expect("the plan is valid"),
            books: Books::new(config, policy.contract()),
            actions: Actions::for_config(config),
            free_from: vec![Instant::ZERO; config.partitions.len()],
            config: config.clone(),
            now: Instant::ZERO,
            log: Vec::new(),
            tamper: |_| {},
            confidence: |_, _| Confidence(0),
            weather,
            random,
            agenda: BTreeMap::new(),
            scheduled: 0,
            sequence: 0,
            ends: BTreeMap::new(),
            steps: 0,
        }
    }

    /// A frame captured and submitted at `at`, by the client of its task's number.
    pub fn frame(&mut self, task: u16, at: Instant) -> u64 {
        self.sequence += 1;
        let arrival = Arrival {
            task: TaskId(task),
            ticket: Ticket {
                client: ClientId(task),
                slot: 0,
                sequence: self.sequence,
            },
            captured: at,
            deadline: None,
        };
        self.schedule(at, Event::Arrived(arrival));
        self.sequence
    }

    pub fn schedule(&mut self, at: Instant, event: Event) {
        self.agenda.insert((at, self.scheduled), event);
        self.scheduled += 1;
    }

    /// Runs until nothing is left to happen before or at `end`.
    pub fn run_until(&mut self, end: Instant) -> Result<(), Breach> {
        loop {
            let event = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let timer = self.scheduler.next_timer();
            let Some(next) = event.into_iter().chain(timer).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if event.is_some_and(|e| e <= next) {
                let (_, event) = self.agenda.pop_first().expect("just seen");
                self.step(&event)?;
            } else {
                self.step(&Event::Tick)?;
                let after = self.scheduler.next_timer();
                assert!(
                    after.is_none_or(|t| t > self.now),
                    "a tick leaves its timer at {after:?}, now is {:?}",
                    self.now
                );
            }
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Shuts down, runs to the end, and checks that nothing is left.
    pub fn drain(&mut self) -> Result<(), Breach> {
        self.step(&Event::Drain)?;
        let frames_end = Instant::from_nanos(u64::MAX / 2);
        self.run_until(frames_end)?;
        if !self.scheduler.drained() {
            return Err(Breach::Lost);
        }
        self.books.end()
    }

    /// One step, booked and carried out.
    pub fn step(&mut self, event: &Event) -> Result<(), Breach> {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "the run does not end");
        self.actions.clear();
        self.scheduler.step(self.now, event, &mut self.actions);
        let mut actions: Vec<Action> = self.actions.iter().cloned().collect();
        (self.tamper)(&mut actions);
        self.books.step(self.now, event, &actions)?;
        self.check_counters()?;
        for action in actions {
            self.carry_out(&action);
            self.log.push((self.now, action));
        }
        Ok(())
    }

    /// The scheduler's counters agree with themselves and with the books.
    fn check_counters(&self) -> Result<(), Breach> {
        let mut open = 0;
        for task in 0..self.config.tasks.len() {
            let c = self.scheduler.counters(TaskId(task as u16));
            let verdicts = c.on_time + c.late + c.rejected() + c.failed();
            assert_eq!(c.submitted, verdicts + c.open, "{c:?}");
            if c.on_time + c.late != self.books.answered[task] {
                return Err(Breach::Lost);
            }
            open += c.open;
        }
        assert_eq!(open, self.scheduler.open() as u64);
        match open == self.books.open() as u64 {
            true => Ok(()),
            false => Err(Breach::Lost),
        }
    }

    fn foul(&mut self, once_in: u64) -> bool {
        self.weather == Weather::Foul && self.random.one_in(once_in)
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Prepare { request, task, .. } => self.prepare(*request, *task),
            Action::Infer(infer) => self.infer(infer),
            Action::Load { id, model } => {
                let weights = self.config.models[model.index()].weights;
                let measured = weights.expect("only paged weights are loaded").load;
                let event = match self.foul(10) {
                    true => Event::Failed { action: *id },
                    false => Event::Loaded {
                        action: *id,
                        measured,
                    },
                };
                self.schedule(self.now + measured, event);
            }
            Action::Preempt { partition, action } => self.stop(*partition, *action),
            Action::Unload { .. }
            | Action::Reply(_)
            | Action::Demote(_)
            | Action::Reinstate { .. } => {}
        }
    }

    fn prepare(&mut self, request: RequestId, task: TaskId) {
        let mut measured = self.config.tasks[task.index()].prepare;
        if self.weather == Weather::Foul {
            measured = Nanos::new(self.random.within(0, measured.as_nanos() * 2));
        }
        let prepared = Event::Prepared {
            request,
            measured,
            ok: !self.foul(20),
        };
        self.schedule(self.now + measured, prepared);
    }

    fn infer(&mut self, infer: &Infer) {
        let partition = infer.partition.index();
        let stage = &self.config.models[infer.model.index()].stages[infer.stage.index()];
        let time = stage.times.iter().find(|t| t.batch == infer.batch);
        let budget = time.expect("a compiled size").on[partition].budget;
        let measured = match self.weather {
            Weather::Calm => budget,
            Weather::Foul => {
                let longest = if self.random.one_in(10) { 3 } else { 1 };
                Nanos::new(self.random.within(1, budget.as_nanos() * longest))
            }
        };
        let begin = infer.window.earliest.max(self.free_from[partition]);
        let late = self.foul(15) || begin > infer.window.latest;
        let (end, event) = if late {
            // A device needs some time even to refuse.
            let action = infer.id;
            (begin + Nanos::new(1), Event::NotRun { action })
        } else if self.foul(15) {
            let action = infer.id;
            (begin + measured, Event::Failed { action })
        } else {
            let finished = self.answers(infer, begin, measured);
            (begin + measured, Event::Finished(finished))
        };
        self.free_from[partition] = end;
        self.ends.insert(infer.id.0, (end, self.scheduled));
        self.schedule(end, event);
    }

    fn answers(&mut self, infer: &Infer, started: Instant, measured: Nanos) -> Finished {
        let mut members = heapless::Vec::<Answer, BATCH_MAX>::new();
        let none_at_all = self.foul(40);
        for id in infer.members.iter().filter(|_| !none_at_all) {
            let confidence = match self.weather {
                Weather::Calm => (self.confidence)(self.sequence(*id), infer.stage),
                Weather::Foul => Confidence(self.random.next_u64() as u16),
            };
            let full = members.push(Answer {
                class: 0,
                confidence,
            });
            full.expect("no more answers than members");
        }
        Finished {
            action: infer.id,
            started,
            measured,
            members,
        }
    }

    /// The device will say nothing of an action: the test does.
    pub fn forget_end_of(&mut self, action: ActionId) {
        self.agenda.remove(&self.ends[&action.0]);
    }

    fn stop(&mut self, partition: PartitionId, action: ActionId) {
        let stop = self.now + self.config.partitions[partition.index()].preemption_bound;
        let end = self.ends[&action.0];
        if end.0 > stop {
            self.agenda.remove(&end);
            self.free_from[partition.index()] = stop;
            self.schedule(stop, Event::Preempted { action });
        }
    }

    /// The verdict on a submission, and when it was given.
    pub fn reply(&self, sequence: u64) -> Option<(Instant, Reply)> {
        self.log.iter().find_map(|(at, action)| match action {
            Action::Reply(r) if r.ticket.sequence == sequence => Some((*at, *r)),
            _ => None,
        })
    }

    /// The submission that a request came from.
    pub fn sequence(&self, id: RequestId) -> u64 {
        let came_from = |(_, action): &(Instant, Action)| match action {
            Action::Prepare {
                request, ticket, ..
            } => (*request == id).then_some(ticket.sequence),
            _ => None,
        };
        let found = self.log.iter().rev().find_map(came_from);
        found.expect("a request was prepared")
    }

    /// The stages ordered so far, with the times of the orders.
    pub fn orders(&self) -> impl Iterator<Item = (Instant, &Infer)> {
        self.log.iter().filter_map(|(at, action)| match action {
            Action::Infer(infer) => Some((*at, infer)),
            _ => None,
        })
    }
}
