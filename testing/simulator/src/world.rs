//! The world of a run: virtual clock, clients and device around the production loop.

use std::collections::VecDeque;

use punctual_core::{
    Action, ActionId, Arrival, Event, Finished, Infer, Instant, ModelConfig, Nanos, PartitionId,
    Scheduler, TaskConfig,
};
use punctual_executor::{Events, Step, World};

use crate::arrivals::{Source, Submission};
use crate::clients::{Clients, Next};
use crate::device::TimedDevice;
use crate::faults::Fault;
use crate::ledger::Ledger;
use crate::observer::{Observer, Span};
use crate::outcome::{Effort, Ending};
use crate::pipelines::HandedOver;

/// With nothing but timers for so long, whatever is open will never be answered.
const QUIET: Nanos = Nanos::from_millis(600_000);

/// This number of wake-ups in a row at one instant is an endless loop.
const WAKE_UPS_MAX: u32 = 10_000;

pub struct VirtualWorld<'a, S, O, D> {
    pub now: Instant,
    pub clients: Clients<S>,
    pub device: D,
    pub ledger: Ledger,
    pub effort: Effort,
    pub ending: Option<Ending>,
    tasks: &'a [TaskConfig],
    models: &'a [ModelConfig],
    observer: &'a mut O,
    orders: Vec<Order>,
    /// Actions that the device refused, to be reported as failed.
    refused: VecDeque<ActionId>,
    /// When each partition's last action ended.
    free_since: Vec<Instant>,
    /// Transfers of weights that ended, and those of them, by number, that are not reported.
    transfers: u64,
    lost_transfers: Vec<u64>,
    /// What others than clients and the device's actions tell the scheduler, by time.
    told: VecDeque<(Instant, Event)>,
    drain_sent: bool,
    /// When something other than a timer happened last.
    last_event: Instant,
    wake_ups: u32,
}

/// An action handed to the device.
#[derive(Clone, Copy, Debug)]
struct Order {
    action: ActionId,
    partition: PartitionId,
    earliest: Instant,
    budget: Nanos,
    members: u8,
}

impl<'a, S: Source, O: Observer, D: TimedDevice> VirtualWorld<'a, S, O, D> {
    pub fn new(
        tasks: &'a [TaskConfig],
        models: &'a [ModelConfig],
        partitions: usize,
        clients: Clients<S>,
        device: D,
        ledger: Ledger,
        observer: &'a mut O,
    ) -> Self {
        Self {
            now: Instant::ZERO,
            clients,
            device,
            ledger,
            effort: Effort::default(),
            ending: None,
            tasks,
            models,
            observer,
            orders: Vec::new(),
            refused: VecDeque::new(),
            free_since: vec![Instant::ZERO; partitions],
            transfers: 0,
            lost_transfers: Vec::new(),
            told: VecDeque::new(),
            drain_sent: false,
            last_event: Instant::ZERO,
            wake_ups: 0,
        }
    }

    /// The same, with those of these faults that are neither a client's nor a stage's: transfers that
    /// the device does not report, holds on best-effort work, models that are loaded in turn.
    pub fn with_faults(mut self, faults: &[Fault]) -> Self {
        let mut told: Vec<(Instant, Event)> = Vec::new();
        for fault in faults {
            match *fault {
                Fault::BestEffortShed { from, until } => told.extend([
                    (from, Event::Shed { hold: true }),
                    (until, Event::Shed { hold: false }),
                ]),
                Fault::Loading { at, said } => told.push((at, Event::Readiness(said))),
                _ => {}
            }
        }
        told.sort_by_key(|(at, _)| *at);
        self.told = told.into();
        let lost = faults.iter().filter_map(|fault| match fault {
            Fault::TransferLost { nth } => Some(*nth),
            _ => None,
        });
        self.lost_transfers = lost.collect();
        self
    }

    /// What the device reports, but for what gets lost.
    fn of_device(&mut self) -> Option<Event> {
        let event = self.device.poll()?;
        if !matches!(event, Event::Loaded { .. }) {
            return Some(event);
        }
        let nth = self.transfers;
        self.transfers += 1;
        (!self.lost_transfers.contains(&nth)).then_some(event)
    }

    /// The next event not after `until`; time moves there. At equal times clients come before the device.
    fn next_event(&mut self, until: Instant) -> Option<Event> {
        loop {
            if let Some(action) = self.refused.pop_front() {
                return Some(Event::Failed { action });
            }
            let client = self.clients.next();
            let device = self.device.next_event();
            if let Some(event) = self.told_before(client.map(|(at, _)| at), device, until) {
                return Some(event);
            }
            let (at, whose) = match (client, device) {
                (Some((at, next)), device) if device.is_none_or(|d| at <= d) => (at, Some(next)),
                (_, Some(at)) => (at, None),
                (_, None) => return None,
            };
            if at > until {
                return None;
            }
            self.pass(at);
            let event = match whose {
                Some(next) => self.of_client(next),
                None => self.of_device(),
            };
            if let Some(event) = event {
                return Some(event);
            }
        }
    }

    /// What others tell the scheduler, if it comes before all else.
    fn told_before(
        &mut self,
        client: Option<Instant>,
        device: Option<Instant>,
        until: Instant,
    ) -> Option<Event> {
        let at = self.told.front()?.0;
        let others = client.into_iter().chain(device).min();
        if at > until || others.is_some_and(|other| other < at) {
            return None;
        }
        self.pass(at);
        self.told.pop_front().map(|(_, event)| event)
    }

    fn pass(&mut self, until: Instant) {
        if until > self.now {
            self.now = until;
            self.wake_ups = 0;
        }
        self.device.advance_to(self.now);
    }

    fn of_client(&mut self, next: Next) -> Option<Event> {
        match next {
            Next::Gone => {
                let client = self.clients.leave()?;
                Some(Event::ClientGone { client })
            }
            Next::Prepared => self.clients.prepared(),
            Next::Held => {
                let submission = self.clients.released()?;
                Some(self.arrival(&submission))
            }
            Next::Submitted => {
                let submission = self.clients.submitted(self.now)?;
                Some(self.arrival(&submission))
            }
            Next::HandedOver => Some(match self.clients.handed_over()? {
                HandedOver::Announcement {
                    task,
                    captured,
                    parts,
                } => Event::Burst {
                    task,
                    captured,
                    requests: parts,
                },
                HandedOver::Part(part) => self.arrival(&part),
            }),
        }
    }

    fn arrival(&mut self, submission: &Submission) -> Event {
        Event::Arrived(Arrival {
            task: submission.task,
            ticket: self.ledger.enter(submission, self.now),
            // What a port does with a claim of the future.
            captured: submission.captured.min(self.now),
            deadline: submission.deadline,
            egress: submission.egress,
        })
    }

    /// Nothing is going to happen before `until` (none: ever) but the scheduler's own timer.
    fn idle(&mut self, until: Option<Instant>) -> Option<Event> {
        if !self.drain_sent && self.clients.silent() && self.ledger.settled() {
            self.drain_sent = true;
            return Some(Event::Drain);
        }
        let nothing_ahead = self.clients.next().is_none() && self.device.next_event().is_none();
        match until {
            Some(until) if !nothing_ahead || until.since(self.last_event) < QUIET => {
                self.pass(until);
                self.wake_ups += 1;
                if self.wake_ups > WAKE_UPS_MAX {
                    self.ending = Some(Ending::Spinning);
                }
            }
            _ => self.ending = Some(Ending::Silent),
        }
        None
    }

    /// Records the end of an action.
    fn record_end(&mut self, event: &Event) {
        let (action, finished) = match event {
            Event::Finished(finished) => (finished.action, Some(finished)),
            Event::NotRun { action } | Event::Preempted { action } | Event::Failed { action } => {
                (*action, None)
            }
            Event::Loaded { .. } => {
                self.effort.loads += 1;
                return;
            }
            _ => return,
        };
        let Some(index) = self.orders.iter().position(|order| order.action == action) else {
            return;
        };
        let order = self.orders.swap_remove(index);
        if matches!(event, Event::NotRun { .. }) {
            self.effort.not_run += 1;
            return;
        }
        let free_since = &mut self.free_since[order.partition.index()];
        let from = finished.map_or_else(|| order.earliest.max(*free_since), |f| f.started);
        *free_since = self.now;
        match finished {
            Some(finished) => self.effort.finished(order, finished),
            None if matches!(event, Event::Preempted { .. }) => self.effort.preempted += 1,
            None => {}
        }
        if from < self.now {
            self.observer.ran(&Span {
                action,
                partition: order.partition,
                from,
                to: self.now,
                finished: finished.is_some(),
            });
        }
    }

    /// Whatever is open now is lost.
    pub fn end(&mut self) {
        self.ledger.lose_the_rest(self.now);
        self.observer.end(self.now);
    }

    fn submit(&mut self, infer: &Infer) {
        if self.device.submit(infer).is_err() {
            // What the daemon makes of a refusal.
            self.refused.push_back(infer.id);
            return;
        }
        let stage = &self.models[infer.model.index()].stages[infer.stage.index()];
        let time = stage.times.iter().find(|time| time.batch == infer.batch);
        let time = time.expect("the device took it").on[infer.partition.index()];
        self.orders.push(Order {
            action: infer.id,
            partition: infer.partition,
            earliest: self.now.max(infer.window.earliest),
            budget: time.budget,
            members: infer.members.len() as u8,
        });
    }
}

impl Effort {
    fn finished(&mut self, order: Order, finished: &Finished) {
        let ratio = finished.measured.as_nanos() as f64 / order.budget.as_nanos().max(1) as f64;
        self.actions += 1;
        self.members += u64::from(order.members);
        self.over_budget += u64::from(finished.measured > order.budget);
        self.prediction_error += (ratio - 1.0).abs();
        self.worst_prediction = self.worst_prediction.max(ratio);
    }
}

impl<S: Source, O: Observer, D: TimedDevice> World for VirtualWorld<'_, S, O, D> {
    fn now(&self) -> Instant {
        self.now
    }

    /// All events of one instant, so that the clock shows their time when the scheduler learns of
    /// them, and a policy can see together what comes together.
    fn wait(&mut self, until: Option<Instant>, events: &mut Events) {
        let mut limit = until.unwrap_or(Instant::FAR_FUTURE);
        while events.room() > 0
            && let Some(event) = self.next_event(limit)
        {
            limit = self.now;
            self.last_event = self.now;
            self.record_end(&event);
            events.push(event);
        }
        if events.is_empty()
            && let Some(event) = self.idle(until)
        {
            events.push(event);
        }
    }

    fn carry_out(&mut self, action: &Action) {
        self.observer.action(self.now, action);
        match action {
            Action::Prepare {
                request,
                task,
                ticket,
            } => {
                let shown = self.ledger.shown(*ticket);
                if let Some(shown) = shown {
                    self.device.put(request.buffer, shown.sample);
                    self.effort.offloaded += u64::from(shown.origin != *task);
                }
                let now = self.now;
                let origin = shown.map_or(*task, |shown| shown.origin);
                let intake = self.clients.intake(ticket.client, origin);
                match shown.and_then(|shown| shown.preparation) {
                    Some(known) => self.clients.prepare_as(now, intake, *request, known),
                    None => {
                        let profiled = self.tasks[task.index()].prepare;
                        self.clients.prepare(now, intake, *request, profiled);
                    }
                }
            }
            Action::Infer(infer) => self.submit(infer),
            Action::Preempt { partition, action } => self.device.preempt(*partition, *action),
            Action::Load { id, model } => {
                if self.device.load(*id, *model).is_err() {
                    // What the daemon makes of a refusal.
                    self.refused.push_back(*id);
                }
            }
            Action::Unload { model } => {
                let unloaded = self.device.unload(*model);
                assert!(
                    unloaded.is_ok(),
                    "the core unloads models that are not in use: {unloaded:?}"
                );
            }
            Action::Demote(_) => self.effort.demotions += 1,
            // What clients do next, they do after the verdict.
            Action::Reinstate { .. } | Action::Deliver(_) => {}
            Action::Reply(reply) => {
                if let Some(tag) = self.ledger.close(self.now, reply) {
                    self.clients.replied(self.now, tag, reply);
                }
            }
        }
    }

    fn deciding(&mut self, event: &Event) {
        self.observer.event(self.now, event);
    }

    fn stepped(&mut self, scheduler: &Scheduler, _: &Step<'_>) {
        self.effort.steps += 1;
        self.observer.stepped(self.now, scheduler);
    }

    fn ended(&self) -> bool {
        self.ending.is_some()
    }
}
