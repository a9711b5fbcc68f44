//! Devices, an intake and clients in virtual time. This module only counts misses. The auditor, which checks
//! everything, depends on this crate and so cannot be used here.

use std::collections::BTreeMap;
use std::vec::Vec;

use punctual_types::Random;

use crate::policy::Policy as _;
use crate::punctual::Punctual;
use crate::{
    Action, Actions, Answer, Arrival, ClientId, Confidence, Config, Criticality, Event, Failure,
    Finished, Infer, Instant, ModelId, Nanos, PunctualConfig, Rejection, Reply, StageTime, TaskId,
    Ticket, Verdict, Window,
};

/// The properties of the world that a test can change. By default, each stage takes exactly its budget, no exit is
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
    /// The confidence of an exit.
    fn confidence(&mut self, _: &Infer) -> Confidence {
        super::plans::UNSURE
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
    /// Whether a transfer succeeds.
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

/// The end of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Finished,
    NotRun,
}

/// The default of every property.
#[derive(Clone, Debug, Default)]
pub struct Exact;

impl Nature for Exact {}

/// A time, whether it is a device's event, an order.
type Moment = (Instant, bool, u64);

/// The world.
#[derive(Clone, Debug)]
pub struct World<N> {
    pub config: Config,
    pub scheduler: Punctual,
    pub now: Instant,
    pub nature: N,
    /// All actions, with their times.
    pub log: Vec<(Instant, Action)>,
    /// Requests random layouts at random times.
    pub layouts: Option<Random>,
    /// Real-time requests that were accepted and then late or dropped.
    pub misses: u64,
    actions: Actions,
    /// By time; at equal times clients' events come before devices' events, then by order of scheduling.
    agenda: BTreeMap<Moment, Event>,
    scheduled: u64,
    sequence: u64,
    /// By action in flight: the agenda's entry of its end.
    ends: BTreeMap<u64, Moment>,
    /// By partition: the time at which all its actions so far have ended.
    busy: BTreeMap<u16, Instant>,
}

impl<N: Nature> World<N> {
    pub fn new(config: Config, nature: N) -> Self {
        Self::with(config, PunctualConfig::default(), nature)
    }

    pub fn with(config: Config, parameters: PunctualConfig, nature: N) -> Self {
        let scheduler = Punctual::new(&config, parameters).expect("the plan is valid");
        Self {
            actions: Actions::for_config(&config),
            scheduler,
            config,
            nature,
            now: Instant::ZERO,
            log: Vec::new(),
            layouts: None,
            misses: 0,
            agenda: BTreeMap::new(),
            scheduled: 0,
            sequence: 0,
            ends: BTreeMap::new(),
            busy: BTreeMap::new(),
        }
    }

    pub fn schedule(&mut self, at: Instant, event: Event) -> Moment {
        let from_client = matches!(event, Event::Arrived(_) | Event::Prepared { .. });
        let key = (at, !from_client, self.scheduled);
        self.scheduled += 1;
        self.agenda.insert(key, event);
        key
    }

    /// A frame captured and submitted at `at`.
    pub fn frame(&mut self, task: u16, at: Instant) -> u64 {
        self.frame_captured(task, at, at, None)
    }

    /// A frame submitted at `at` and captured before, possibly with a deadline from the client.
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
        self.schedule(
            at,
            Event::Arrived(Arrival {
                task: TaskId(task),
                ticket,
                captured,
                deadline,
            }),
        );
        self.sequence
    }

    /// Runs until no event is left or `end` has come. A timer that is due before the next event ticks; at equal times
    /// the event comes first.
    pub fn run_until(&mut self, end: Instant) {
        loop {
            let event = self.agenda.first_key_value().map(|((at, ..), _)| *at);
            let timer = self.scheduler.next_timer();
            let next = match (event, timer) {
                (Some(e), Some(t)) => e.min(t),
                (Some(e), None) => e,
                (None, Some(t)) => t,
                (None, None) => break,
            };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            if event.is_some_and(|e| e <= next) {
                let (_, event) = self.agenda.pop_first().expect("just seen");
                self.step(&event);
            } else {
                self.step(&Event::Tick);
                let after = self.scheduler.next_timer();
                assert!(
                    after.is_none_or(|t| t > self.now),
                    "a tick leaves its timer at {after:?} when it is {:?}",
                    self.now
                );
            }
        }
        self.now = self.now.max(end);
    }

    /// Makes one step and carries out its actions.
    pub fn step(&mut self, event: &Event) {
        self.actions.clear();
        if let Some(random) = &mut self.layouts
            && random.one_in(8)
        {
            let layout = random.within(0, self.config.layouts.len() as u64);
            self.scheduler.layouts.want(layout as usize);
        }
        self.scheduler.step(self.now, event, &mut self.actions);
        let actions: Vec<Action> = self.actions.iter().cloned().collect();
        for action in actions {
            if let Action::Reply(reply) = &action {
                self.misses += u64::from(self.breaks_a_promise(event, reply));
            }
            self.carry_out(&action);
            self.log.push((self.now, action));
        }
    }

    fn breaks_a_promise(&self, event: &Event, reply: &Reply) -> bool {
        let task = &self.config.tasks[reply.task.index()];
        // The task's own model, or that of the task that it offloads to.
        let paged = |id: TaskId| {
            let model = self.config.tasks[id.index()].model;
            self.config.models[model.index()].weights.is_some()
        };
        let waits_for_weights = paged(reply.task) || task.spill.is_some_and(paged);
        let undecided = matches!(event, Event::Arrived(_) | Event::Prepared { .. });
        let broken = match reply.verdict {
            Verdict::Late | Verdict::Failed(Failure::Shed) => true,
            Verdict::Rejected(Rejection::Superseded) => false,
            Verdict::Rejected(_) => !undecided && !waits_for_weights,
            _ => false,
        };
        broken && task.criticality == Criticality::RealTime
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
            Action::Reply(_) => {}
            Action::Load { id, model } => {
                let weights = self.config.models[model.index()].weights;
                let load = weights.expect("only paged weights are loaded").load;
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
            Action::Unload { .. } | Action::Demote(_) | Action::Reinstate { .. } => {}
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
        let in_window = started <= infer.window.latest;
        let ending = if in_window {
            self.nature.ending()
        } else {
            Ending::NotRun
        };
        let (end, event) = match ending {
            Ending::NotRun => (
                infer.window.latest.min(self.now + measured),
                Event::NotRun { action },
            ),
            Ending::Finished => {
                let answers = infer.members.iter().map(|_| Answer {
                    class: 1,
                    confidence: self.nature.confidence(infer),
                });
                let members = answers.collect();
                let finished = Finished {
                    action,
                    started,
                    measured,
                    members,
                };
                (started + measured, Event::Finished(finished))
            }
        };
        // A device needs some time even to report that it did not run an action.
        let key = self.schedule(end.max(self.now + Nanos::new(1)), event);
        self.ends.insert(action.0, key);
        self.busy.insert(infer.partition.0, key.0);
    }

    /// Drains and runs to the end.
    pub fn drain(&mut self) {
        self.step(&Event::Drain);
        self.run_until(Instant::FAR_FUTURE);
        assert!(
            self.scheduler.drained(),
            "no event is left, but the scheduler is not drained"
        );
    }

    /// Actions of real-time or best-effort work so far: (first task of the model, stage, number of members, time).
    pub fn orders(&self, criticality: Criticality) -> Vec<(u16, u8, usize, Instant)> {
        let infers = self.log.iter().filter_map(|(at, action)| match action {
            Action::Infer(i) if i.criticality == criticality => Some((at, i)),
            _ => None,
        });
        infers
            .map(|(at, i)| {
                let tasks = &self.config.tasks;
                let task = tasks.iter().position(|t| t.model == i.model);
                let task = task.expect("some task has this model") as u16;
                (task, i.stage.0, i.members.len(), *at)
            })
            .collect()
    }

    /// The verdict on a submission, and when it was given.
    pub fn reply(&self, sequence: u64) -> Option<(Instant, Reply)> {
        self.log.iter().find_map(|(at, action)| match action {
            Action::Reply(r) if r.ticket.sequence == sequence => Some((*at, *r)),
            _ => None,
        })
    }
}
