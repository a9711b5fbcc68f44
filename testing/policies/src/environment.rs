//! Clients, an intake and a device in virtual time, without a scheduler. Tests of the core inside the
//! crate and tests of policies share it.

use std::collections::BTreeMap;
use std::vec::Vec;

use punctual_core::{
    Action, Answer, Arrival, BATCH_MAX, ClientId, Confidence, Config, Criticality, Event, Failure,
    Finished, Infer, Instant, ModelId, Nanos, Reply, RequestId, StageTime, TaskId, Ticket, Verdict,
    Window,
};

/// A confidence below the threshold of every plan of the tests, so requests go deeper.
pub const UNSURE: Confidence = Confidence(20_000);

/// The properties of the environment that a test can change. By default, each stage takes exactly its budget, no exit is
/// confident, and preparation takes no time.
pub trait Nature {
    /// How long a stage takes, given its budget.
    fn duration(&mut self, _: &Infer, time: StageTime) -> Nanos {
        time.budget
    }
    /// How long a preparation takes.
    fn preparation(&mut self, _: TaskId) -> Nanos {
        Nanos::ZERO
    }
    fn confidence(&mut self, _: &Infer) -> Confidence {
        UNSURE
    }
    /// The confidence of an exit for one member, named by the sequence number of its submission.
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
    fn transfer_ok(&mut self, _: ModelId) -> bool {
        true
    }
    /// The event that the device reports at the end.
    fn ending(&mut self) -> Ending {
        Ending::Finished
    }
    /// Whether the payload can be read.
    fn payload_ok(&mut self, _: TaskId) -> bool {
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Finished,
    /// With no answers at all: the device broke its contract.
    FinishedWithoutAnswers,
    NotRun,
    Failed,
}

/// The default of every property.
#[derive(Clone, Debug, Default)]
pub struct Exact;

impl Nature for Exact {}

/// A time, whether it is a device's event, an order.
type Moment = (Instant, bool, u64);

#[derive(Clone, Debug)]
pub struct Environment<N> {
    pub config: Config,
    pub now: Instant,
    pub nature: N,
    pub log: Vec<(Instant, Action)>,
    /// By time; at equal times clients' events come before devices' events, then by order of scheduling.
    agenda: BTreeMap<Moment, Event>,
    scheduled: u64,
    sequence: u64,
    /// By action in flight: the agenda's entry of its end.
    ends: BTreeMap<u64, Moment>,
    /// By partition: the time at which all its actions so far have ended.
    busy: BTreeMap<u16, Instant>,
}

impl<N: Nature> Environment<N> {
    pub fn new(config: Config, nature: N) -> Self {
        Self {
            config,
            now: Instant::ZERO,
            nature,
            log: Vec::new(),
            agenda: BTreeMap::new(),
            scheduled: 0,
            sequence: 0,
            ends: BTreeMap::new(),
            busy: BTreeMap::new(),
        }
    }

    pub fn schedule(&mut self, at: Instant, event: Event) {
        self.enter(at, event);
    }

    fn enter(&mut self, at: Instant, event: Event) -> Moment {
        let from_client = matches!(
            event,
            Event::Arrived(_) | Event::Burst { .. } | Event::Prepared { .. }
        );
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
        let arrival = Arrival {
            captured,
            deadline,
            ..self.arrival(task, at)
        };
        self.schedule(at, Event::Arrived(arrival));
        self.sequence
    }

    /// A frame captured and submitted at `at`, by a client that answers take so long to.
    pub fn frame_of_slow_client(&mut self, task: u16, at: Instant, egress: Nanos) -> u64 {
        let arrival = Arrival {
            egress,
            ..self.arrival(task, at)
        };
        self.schedule(at, Event::Arrived(arrival));
        self.sequence
    }

    fn arrival(&mut self, task: u16, at: Instant) -> Arrival {
        self.sequence += 1;
        Arrival {
            task: TaskId(task),
            ticket: Ticket {
                client: ClientId(task),
                slot: 0,
                part: 0,
                sequence: self.sequence,
            },
            captured: at,
            deadline: None,
            egress: Nanos::ZERO,
        }
    }

    /// Removes events from the agenda: they will not be reported.
    pub fn forget(&mut self, which: impl Fn(&Event) -> bool) {
        self.agenda.retain(|_, event| !which(event));
    }

    /// What happens next, if it does until `end`: an event, or the tick of a timer of the scheduler. Time
    /// passes to it. At equal times events come first.
    pub fn next(&mut self, timer: Option<Instant>, end: Instant) -> Option<Event> {
        let event = self.agenda.first_key_value().map(|((at, ..), _)| *at);
        let next = event.into_iter().chain(timer).min();
        let Some(next) = next.filter(|at| *at <= end) else {
            self.now = self.now.max(end);
            return None;
        };
        self.now = self.now.max(next);
        if event.is_some_and(|at| at <= next) {
            return self.agenda.pop_first().map(|(_, event)| event);
        }
        Some(Event::Tick)
    }

    /// Does what a step ordered, and keeps it in the log.
    ///
    /// # Panics
    /// If the order makes no sense: weights that are not paged, a size that is not compiled.
    pub fn carry_out(&mut self, action: Action) {
        match &action {
            Action::Prepare { request, task, .. } => {
                let measured = self.nature.preparation(*task);
                let prepared = Event::Prepared {
                    request: *request,
                    measured,
                    ready: if self.nature.payload_ok(*task) {
                        Ok(())
                    } else {
                        Err(Failure::Payload)
                    },
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
                let event = if self.nature.transfer_ok(*model) {
                    Event::Loaded {
                        action: *id,
                        measured,
                    }
                } else {
                    Event::Failed { action: *id }
                };
                self.schedule(self.now + measured, event);
            }
            Action::Deliver(_)
            | Action::Reply(_)
            | Action::Unload { .. }
            | Action::Demote(_)
            | Action::Reinstate { .. } => {}
        }
        self.log.push((self.now, action));
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
        let ending = if started <= infer.window.latest {
            self.nature.ending()
        } else {
            Ending::NotRun
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
        // A device needs some time even to report that it did not run an action.
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

    /// Accepted real-time frames that were late or dropped, except superseded ones.
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
