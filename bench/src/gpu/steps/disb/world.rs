//! Requests on the real clock, some of them caused by answers.

use std::collections::VecDeque;
use std::sync::Arc;

use punctual_core::{
    Action, Arrival, ClientId, Event, Infer, Instant, Nanos, Reply, Ticket, Verdict,
};
use punctual_device::Device;
use punctual_executor::Events;
use punctual_platform::{Doorbell, clock};
use punctual_simulator::arrivals::{Arrivals, Source as _};

use super::super::super::rig::Rig;
use super::super::super::step::StepError;

/// The outcomes of a task's requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub submitted: u64,
    pub on_time: u64,
    /// Of answered ones, from when they were due.
    pub latencies_ns: Vec<u64>,
}

/// A request without a verdict.
#[derive(Clone, Copy)]
struct Open {
    tag: u64,
    intended: Instant,
}

pub struct World<'r, D> {
    rig: &'r mut Rig<D>,
    bell: Arc<Doorbell>,
    arrivals: Arrivals,
    started: Instant,
    /// By sequence number.
    requests: Vec<Open>,
    without_verdict: u64,
    /// Actions that the device owes an event for.
    owed: u64,
    ready: VecDeque<Event>,
    drain_sent: bool,
    tallies: Vec<Tally>,
}

impl<'r, D: Device> World<'r, D> {
    pub fn new(rig: &'r mut Rig<D>, arrivals: Arrivals, tasks: usize) -> Self {
        Self {
            bell: rig.bell(),
            rig,
            arrivals,
            started: Instant::from_nanos(clock::now_ns()),
            requests: Vec::new(),
            without_verdict: 0,
            owed: 0,
            ready: VecDeque::new(),
            drain_sent: false,
            tallies: vec![Tally::default(); tasks],
        }
    }

    /// The outcomes of all requests, once the device has reported every action.
    pub fn end(mut self) -> Result<Vec<Tally>, StepError> {
        while self.owed > 0 {
            self.rig.event()?;
            self.owed -= 1;
        }
        Ok(self.tallies)
    }

    /// A time of the arrivals' on the clock.
    fn at(&self, time: Instant) -> Instant {
        self.started + Nanos::new(time.as_nanos())
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.arrivals.peek().map(|time| self.at(time))
    }

    fn now_ns() -> Instant {
        Instant::from_nanos(clock::now_ns())
    }

    fn collect(&mut self, events: &mut Events) {
        while events.room() > 0
            && let Some(event) = self.ready.pop_front()
        {
            events.push(event);
        }
        while events.room() > 0
            && let Some(event) = self.rig.device.poll()
        {
            self.owed -= 1;
            events.push(event);
        }
        while events.room() > 0 && self.next_arrival().is_some_and(|at| at <= Self::now_ns()) {
            self.arrive(events);
        }
        let over = self.arrivals.peek().is_none() && self.without_verdict == 0;
        if events.is_empty() && over && !self.drain_sent {
            self.drain_sent = true;
            events.push(Event::Drain);
        }
    }

    fn arrive(&mut self, events: &mut Events) {
        let Some(submission) = self.arrivals.take() else {
            return;
        };
        let ticket = Ticket {
            client: ClientId(0),
            slot: 0,
            part: 0,
            sequence: self.requests.len() as u64,
        };
        let intended = self.at(submission.intended);
        self.requests.push(Open {
            tag: submission.tag,
            intended,
        });
        self.without_verdict += 1;
        self.tallies[submission.task.index()].submitted += 1;
        events.push(Event::Arrived(Arrival {
            task: submission.task,
            ticket,
            captured: intended,
            deadline: None,
            egress: Nanos::ZERO,
        }));
    }

    fn infer(&mut self, infer: &Infer) {
        if self.rig.device.submit(infer).is_ok() {
            self.owed += 1;
        } else {
            self.ready.push_back(Event::Failed { action: infer.id });
        }
    }

    fn reply(&mut self, reply: &Reply) {
        let now = Self::now_ns();
        let request = self.requests[reply.ticket.sequence as usize];
        let tally = &mut self.tallies[reply.task.index()];
        tally.on_time += u64::from(reply.verdict == Verdict::OnTime);
        if reply.answer.is_some() {
            let took = now.since(request.intended);
            tally.latencies_ns.push(took.as_nanos());
        }
        self.without_verdict -= 1;
        let since = Instant::from_nanos(now.since(self.started).as_nanos());
        self.arrivals.replied(since, request.tag, reply);
    }
}

impl<D: Device> punctual_executor::World for World<'_, D> {
    fn now(&self) -> Instant {
        Self::now_ns()
    }

    fn wait(&mut self, until: Option<Instant>, events: &mut Events) {
        let seen = self.bell.count();
        self.collect(events);
        if !events.is_empty() {
            return;
        }
        let next = until.into_iter().chain(self.next_arrival()).min();
        self.bell.wait(seen, next.map(Instant::as_nanos));
        self.collect(events);
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            // Inputs are there already: only stages are measured.
            Action::Prepare { request, .. } => self.ready.push_back(Event::Prepared {
                request: *request,
                measured: Nanos::ZERO,
                ready: Ok(()),
            }),
            Action::Infer(infer) => self.infer(infer),
            Action::Preempt { partition, action } => {
                self.rig.device.preempt(*partition, *action);
            }
            // Nothing is paged.
            Action::Load { id, .. } => self.ready.push_back(Event::Failed { action: *id }),
            Action::Unload { .. }
            | Action::Demote(_)
            | Action::Reinstate { .. }
            | Action::Deliver(_) => {}
            Action::Reply(reply) => self.reply(reply),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::fixtures::cpu;
    use super::super::plan::published;
    use super::*;
    use punctual_conformance::networks;
    use punctual_core::{Actions, Scheduler};
    use punctual_executor::drive;
    use punctual_plan::PolicyChoice;
    use punctual_types::Random;

    #[test]
    fn every_request_of_a_closed_loop_gets_its_verdict_and_brings_the_next_one() {
        let network = networks::residual(1);
        let mut rig = cpu(&network, 1);
        let mut scenario = published("disb-a");
        scenario.length = Nanos::from_millis(200);
        scenario.board.request_buffers = 64;
        for model in &mut scenario.models {
            // As many stages as the network here.
            model.stages.truncate(2);
            for sample in &mut model.calibration.samples {
                sample.exits.truncate(2);
            }
        }
        for task in &mut scenario.tasks {
            task.config.mandatory_exit.0 = 1;
            task.config.model.0 = 0;
        }
        let policy = PolicyChoice::default();
        let config = scenario.config(&policy);
        let arrivals = scenario.arrivals(0.2, &Random::new(1)).expect("playable");
        let mut actions = Actions::for_config(&config);
        let mut scheduler = Scheduler::new(&config, &policy).expect("a plan");
        let mut world = World::new(&mut rig, arrivals, scenario.tasks.len());
        let mut events = Events::with_capacity(64);
        drive(&mut scheduler, &mut world, &mut events, &mut actions);
        assert_eq!(world.without_verdict, 0);
        let tallies = world.end().expect("the device owes nothing");
        for tally in &tallies {
            assert!(tally.submitted > 1, "{tallies:?}");
            assert!(!tally.latencies_ns.is_empty(), "{tallies:?}");
        }
    }
}
