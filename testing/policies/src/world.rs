//! Clients, an intake and a device in virtual time; the auditor looks at every step.

use std::collections::BTreeMap;

use punctual_core::{
    Action, Actions, Answer, Arrival, BATCH_MAX, ClientId, Confidence, Config, Criticality, Event,
    Finished, Infer, Instant, ModelId, Nanos, PolicySpec, PunctualConfig, Rejection, Reply,
    RequestId, Scheduler, StageTime, TaskId, Ticket, Verdict, Window,
};
use punctual_simulator::audit::{Auditor, Violation};

/// Steps after which a run that should have ended is taken for one that never will.
const STEPS_MAX: u64 = 1_000_000;

/// What the test decides about the world: if nothing, everything takes exactly its budget, every exit
/// is unsure, preparation takes no time.
pub trait Nature {
    /// How long a stage takes, given its budget.
    fn duration(&mut self, _: &Infer, time: StageTime) -> Nanos {
        time.budget
    }
    /// How long a preparation takes.
    fn preparation(&mut self, _: TaskId) -> Nanos {
        Nanos::ZERO
    }
    /// What an exit says.
    fn confidence(&mut self, _: &Infer) -> Confidence {
        Confidence(20_000)
    }
    /// What it says of a member, which is named by the sequence number of its submission.
    fn confidence_of(&mut self, _member: u64, infer: &Infer) -> Confidence {
        self.confidence(infer)
    }
    /// From `Preempt` until the partition is free, given the bound.
    fn stopping(&mut self, bound: Nanos) -> Nanos {
        bound
    }
    /// When an action starts, inside its window.
    fn start(&mut self, window: Window) -> Instant {
        window.earliest
    }
    /// How long a transfer of weights takes, given its budget.
    fn transfer(&mut self, _: ModelId, load: Nanos) -> Nanos {
        load
    }
    /// Whether it brings them.
    fn transfer_ok(&mut self, _: ModelId) -> bool {
        true
    }
    /// What the device reports at the end.
    fn ending(&mut self) -> Ending {
        Ending::Finished
    }
    /// Whether the payload can be read.
    fn payload_ok(&mut self, _: TaskId) -> bool {
        true
    }
}

/// What becomes of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Finished,
    /// With no answers at all: the device broke its contract.
    FinishedWithoutAnswers,
    NotRun,
    Failed,
}

/// Decides nothing.
#[derive(Clone, Debug, Default)]
pub struct Exact;

impl Nature for Exact {}

/// A time, whether it is a device's event, an order.
type Moment = (Instant, bool, u64);

#[derive(Debug)]
pub struct World<N> {
    pub config: Config,
    pub scheduler: Scheduler,
    pub auditor: Auditor,
    pub now: Instant,
    pub nature: N,
    /// Everything ordered, with the time of the order.
    pub log: Vec<(Instant, Action)>,
    /// A fault planted into the decisions of a step before anybody sees them.
    pub tamper: Option<fn(&mut Vec<Action>)>,
    actions: Actions,
    /// By time; at equal times what clients do comes before what devices do, then by order of scheduling.
    agenda: BTreeMap<Moment, Event>,
    scheduled: u64,
    sequence: u64,
    /// The agenda's entry of the end of each action in flight.
    ends: BTreeMap<u64, Moment>,
    /// When what was ordered on a partition so far has ended.
    busy: BTreeMap<u16, Instant>,
    steps: u64,
}

impl<N: Nature> World<N> {
    /// Under the default policy.
    ///
    /// # Panics
    /// If the plan does not pass.
    pub fn new(config: Config, nature: N) -> Self {
        Self::with(config, PunctualConfig::default(), nature)
    }

    /// Under the default policy with other parameters.
    ///
    /// # Panics
    /// If the plan does not pass.
    pub fn with(config: Config, parameters: PunctualConfig, nature: N) -> Self {
        let mut world = Self::under(config, &parameters, nature);
        if !parameters.waiting {
            world.auditor = world.auditor.without_waiting();
        }
        world
    }

    /// Under any policy.
    ///
    /// # Panics
    /// If the policy does not take the plan.
    pub fn under(config: Config, policy: &dyn PolicySpec, nature: N) -> Self {
        Self {
            scheduler: Scheduler::new(&config, policy).expect("the plan is valid"),
            auditor: Auditor::new(&config, policy.contract()),
            actions: Actions::for_config(&config),
            config,
            now: Instant::ZERO,
            nature,
            log: Vec::new(),
            tamper: None,
            agenda: BTreeMap::new(),
            scheduled: 0,
            sequence: 0,
            ends: BTreeMap::new(),
            busy: BTreeMap::new(),
            steps: 0,
        }
    }

    pub fn schedule(&mut self, at: Instant, event: Event) {
        self.enter(at, event);
    }

    fn enter(&mut self, at: Instant, event: Event) -> Moment {
        let from_client = matches!(event, Event::Arrived(_) | Event::Prepared { .. });
        let key = (at, !from_client, self.scheduled);
        self.scheduled += 1;
        self.agenda.insert(key, event);
        key
    }

    /// A frame captured and submitted at `at`, by the client of its task's number.
    pub fn frame(&mut self, task: u16, at: Instant) -> u64 {
        self.frame_captured(task, at, at, None)
    }

    /// A frame submitted at `at`, captured before that, with a deadline of the client's own.
    pub fn frame_captured(
        &mut self,
        task: u16,
        at: Instant,
        captured: Instant,
        deadline: Option<Instant>,
    ) -> u64 {
        self.sequence += 1;
        let ticket = Ticket {
            client: ClientId(task),
            slot: 0,
            sequence: self.sequence,
        };
        let arrival = Arrival {
            task: TaskId(task),
            ticket,
            captured,
            deadline,
        };
        self.schedule(at, Event::Arrived(arrival));
        self.sequence
    }

    /// Removes events from the agenda: they will not be reported.
    pub fn forget(&mut self, which: impl Fn(&Event) -> bool) {
        self.agenda.retain(|_, event| !which(event));
    }

    /// Runs until nothing is left to happen or `end` has come. Timers due before the next event
    /// tick; at equal times events come first.
    ///
    /// # Errors
    /// What the auditor found first.
    ///
    /// # Panics
    /// If the scheduler's own counters do not add up, or a timer is not over after its tick.
    pub fn run_until(&mut self, end: Instant) -> Result<(), Violation> {
        loop {
            let event = self.agenda.first_key_value().map(|((at, ..), _)| *at);
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
                    "a tick leaves its timer at {after:?} when it is {:?}",
                    self.now
                );
            }
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Shuts down, runs to the end, and checks that nothing is left.
    ///
    /// # Errors
    /// What the auditor found first.
    ///
    /// # Panics
    /// If nothing happens any more, but the scheduler does not say that it is drained.
    pub fn drain(&mut self) -> Result<(), Violation> {
        self.step(&Event::Drain)?;
        self.run_until(Instant::from_nanos(u64::MAX / 2))?;
        self.auditor.finish(self.now);
        self.auditor.outcome()?;
        assert!(
            self.scheduler.drained(),
            "nothing happens any more, but it is not drained"
        );
        Ok(())
    }

    /// One step, audited and carried out.
    ///
    /// # Errors
    /// What the auditor found first.
    ///
    /// # Panics
    /// If the scheduler's own counters do not add up.
    pub fn step(&mut self, event: &Event) -> Result<(), Violation> {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "the run does not end");
        self.actions.clear();
        self.scheduler.step(self.now, event, &mut self.actions);
        let mut actions: Vec<Action> = self.actions.iter().cloned().collect();
        if let Some(tamper) = self.tamper {
            tamper(&mut actions);
        }
        self.auditor.step(self.now, event, &actions)?;
        for action in actions {
            self.carry_out(&action);
            self.log.push((self.now, action));
        }
        if self.tamper.is_none() {
            self.check_counters();
        }
        Ok(())
    }

    /// The scheduler's counters agree with themselves and with the auditor's log.
    fn check_counters(&self) {
        let mut open = 0;
        for task in 0..self.config.tasks.len() {
            let c = self.scheduler.counters(TaskId(task as u16));
            let verdicts = c.on_time + c.late + c.rejected() + c.failed();
            assert_eq!(c.submitted, verdicts + c.open, "{c:?}");
            open += c.open;
        }
        assert_eq!(open, self.scheduler.open() as u64);
        assert_eq!(open, self.auditor.open() as u64);
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Prepare { request, task, .. } => {
                let measured = self.nature.preparation(*task);
                let prepared = Event::Prepared {
                    request: *request,
                    measured,
                    ok: self.nature.payload_ok(*task),
                };
                self.schedule(self.now + measured, prepared);
            }
            Action::Infer(infer) => self.infer(infer),
            Action::Preempt { partition, action } => {
                let bound = self.config.partitions[partition.index()].preemption_bound;
                let stop = self.now + self.nature.stopping(bound);
                let end = self.ends[&action.0];
                if end.0 > stop {
                    self.agenda.remove(&end);
                    self.schedule(stop, Event::Preempted { action: *action });
                    self.busy.insert(partition.0, stop);
                }
            }
            Action::Load { id, model } => {
                let weights = self.config.models[model.index()].weights;
                let load = weights.expect("the auditor refuses others").load;
                let measured = self.nature.transfer(*model, load);
                let event = match self.nature.transfer_ok(*model) {
                    true => Event::Loaded {
                        action: *id,
                        measured,
                    },
                    false => Event::Failed { action: *id },
                };
                self.schedule(self.now + measured, event);
            }
            Action::Reply(_)
            | Action::Unload { .. }
            | Action::Demote(_)
            | Action::Reinstate { .. } => {}
        }
    }

    fn infer(&mut self, infer: &Infer) {
        let stage = &self.config.models[infer.model.index()].stages[infer.stage.index()];
        let time = stage.times.iter().find(|t| t.batch == infer.batch);
        let time = time.expect("a compiled size").on[infer.partition.index()];
        let measured = self.nature.duration(infer, time);
        let free = self.busy.get(&infer.partition.0).copied();
        let free = free.unwrap_or(Instant::ZERO);
        let started = self.nature.start(infer.window).max(free);
        let action = infer.id;
        let ending = match started <= infer.window.latest {
            true => self.nature.ending(),
            false => Ending::NotRun,
        };
        let (end, event) = match ending {
            Ending::Failed => (started + measured, Event::Failed { action }),
            Ending::NotRun => (
                infer.window.latest.min(self.now + measured),
                Event::NotRun { action },
            ),
            Ending::Finished | Ending::FinishedWithoutAnswers => {
                let finished = Finished {
                    action,
                    started,
                    measured,
                    members: match ending {
                        Ending::Finished => self.answers(infer),
                        _ => heapless::Vec::new(),
                    },
                };
                (started + measured, Event::Finished(finished))
            }
        };
        // A device needs some time even to refuse.
        let key = self.enter(end.max(self.now + Nanos::new(1)), event);
        self.ends.insert(action.0, key);
        self.busy.insert(infer.partition.0, key.0);
    }

    fn answers(&mut self, infer: &Infer) -> heapless::Vec<Answer, BATCH_MAX> {
        let answer = |id: &RequestId| {
            let sequence = sequence_of(&self.log, *id);
            Answer {
                class: 1,
                confidence: self.nature.confidence_of(sequence, infer),
            }
        };
        infer.members.iter().map(answer).collect()
    }

    /// The verdict on a submission, and when it was given.
    pub fn reply(&self, sequence: u64) -> Option<(Instant, Reply)> {
        let of = |reply: &&(Instant, Reply)| reply.1.ticket.sequence == sequence;
        self.replies().find(|reply| of(&reply))
    }

    /// All verdicts given so far, with their times.
    pub fn replies(&self) -> impl Iterator<Item = (Instant, Reply)> {
        self.log.iter().filter_map(|(at, action)| match action {
            Action::Reply(reply) => Some((*at, *reply)),
            _ => None,
        })
    }

    /// Real-time frames that were taken on and neither answered in time nor given up for a newer one.
    pub fn misses(&self) -> usize {
        let missed = |(_, reply): &(Instant, Reply)| {
            let task = &self.config.tasks[reply.task.index()];
            task.criticality == Criticality::RealTime
                && matches!(
                    reply.verdict,
                    Verdict::Late | Verdict::Failed(punctual_core::Failure::Shed)
                )
        };
        self.replies().filter(missed).count()
    }

    /// Frames of a task that got no answer, but for those that made way to newer ones.
    pub fn refused(&self, task: TaskId) -> usize {
        let superseded = Verdict::Rejected(Rejection::Superseded);
        let refused = |(_, reply): &(Instant, Reply)| {
            reply.task == task && reply.answer.is_none() && reply.verdict != superseded
        };
        self.replies().filter(refused).count()
    }

    /// Frames prepared for another task than the one that they were submitted to.
    pub fn spilled(&self) -> u64 {
        let tasks = 0..self.config.tasks.len() as u16;
        let counters = tasks.map(|task| self.scheduler.counters(TaskId(task)));
        counters.map(|counters| counters.spilled).sum()
    }

    /// The submission that a request came from.
    ///
    /// # Panics
    /// If it was never prepared.
    pub fn sequence(&self, id: RequestId) -> u64 {
        sequence_of(&self.log, id)
    }

    /// The stages ordered so far, with the times of the orders.
    pub fn orders(&self) -> impl Iterator<Item = (Instant, &Infer)> {
        self.log.iter().filter_map(|(at, action)| match action {
            Action::Infer(infer) => Some((*at, infer)),
            _ => None,
        })
    }

    /// Those of real-time or of best-effort work: (first task that asks the model, stage, members, time).
    ///
    /// # Panics
    /// If no task asks a model that was run.
    pub fn orders_of(&self, criticality: Criticality) -> Vec<(u16, u8, usize, Instant)> {
        let of = self.orders().filter(|(_, i)| i.criticality == criticality);
        of.map(|(at, infer)| {
            let mut tasks = self.config.tasks.iter();
            let task = tasks.position(|t| t.model == infer.model);
            let task = task.expect("some task asks this model") as u16;
            (task, infer.stage.0, infer.members.len(), at)
        })
        .collect()
    }
}

fn sequence_of(log: &[(Instant, Action)], id: RequestId) -> u64 {
    let came_from = |(_, action): &(Instant, Action)| match action {
        Action::Prepare {
            request, ticket, ..
        } => (*request == id).then_some(ticket.sequence),
        _ => None,
    };
    let found = log.iter().rev().find_map(came_from);
    found.expect("a request was prepared")
}
