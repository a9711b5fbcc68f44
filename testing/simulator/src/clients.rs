//! The clients' side of the world: what they submit and when, with what goes wrong on their side,
//! and how long their payloads take to prepare.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use punctual_core::{ClientId, Event, Failure, Instant, Nanos, Reply, RequestId, TaskId};
use punctual_types::Random;

use crate::arrivals::{self, Source, Submission};
use crate::faults::Fault;
use crate::pipelines::{HandedOver, Pipelines};
use crate::summary::Queries;

/// What happens next on the clients' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    Gone,
    Prepared,
    /// A submission that its client held back.
    Held,
    /// What the daemon makes of a reply.
    HandedOver,
    Submitted,
}

/// A preparation under way; the order of fields is the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Preparation {
    ends: Instant,
    order: u64,
    buffer: u16,
    generation: u32,
    took: Nanos,
    ok: bool,
}

/// Prepares one input after the other: a client's frames, or the parts that a follower gets of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intake {
    client: ClientId,
    follower: Option<TaskId>,
}

pub struct Clients<S> {
    source: S,
    pipelines: Pipelines,
    faults: Vec<Fault>,
    /// Terminations to come, the next one last.
    leaving: Vec<(Instant, ClientId)>,
    gone: Vec<ClientId>,
    /// Submissions that stalled clients hold back, by the time when they come.
    held: BTreeMap<(Instant, u64), Submission>,
    preparations: BinaryHeap<Reverse<Preparation>>,
    /// Until when each intake is busy.
    busy_until: BTreeMap<Intake, Instant>,
    preparation_least: f64,
    random: Random,
    ordered: u64,
}

impl<S: Source> Clients<S> {
    /// Clients that submit what `source` says and suffer those of `faults` that are theirs. `pipelines` makes parts of their
    /// frames.
    /// Preparations take between `preparation_least` of their profiled time and all of it.
    pub fn new(
        source: S,
        pipelines: Pipelines,
        faults: &[Fault],
        preparation_least: f64,
        seed: u64,
    ) -> Self {
        let mut leaving: Vec<(Instant, ClientId)> = faults
            .iter()
            .filter_map(|fault| match fault {
                Fault::ClientGone { client, at } => Some((*at, *client)),
                _ => None,
            })
            .collect();
        leaving.sort_unstable_by_key(|leaver| Reverse(*leaver));
        Self {
            source,
            pipelines,
            faults: faults
                .iter()
                .filter(|fault| fault.is_a_clients())
                .copied()
                .collect(),
            leaving,
            gone: Vec::new(),
            held: BTreeMap::new(),
            preparations: BinaryHeap::new(),
            busy_until: BTreeMap::new(),
            preparation_least,
            random: Random::new(seed).stream("preparations", 0),
            ordered: 0,
        }
    }

    /// What happens next, and when.
    pub fn next(&self) -> Option<(Instant, Next)> {
        let leaving = self.leaving.last().map(|(at, _)| (*at, Next::Gone));
        let prepared = self.preparations.peek();
        let prepared = prepared.map(|Reverse(p)| (p.ends, Next::Prepared));
        let held = self.held.first_key_value();
        let held = held.map(|((at, _), _)| (*at, Next::Held));
        let submitted = self.source.peek().map(|at| (at, Next::Submitted));
        let handed_over = self.pipelines.peek();
        let handed_over = handed_over.map(|at| (at, Next::HandedOver));
        [leaving, prepared, held, handed_over, submitted]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether no client will submit any more, except in answer to a reply.
    pub fn silent(&self) -> bool {
        self.held.is_empty() && self.pipelines.peek().is_none() && self.source.peek().is_none()
    }

    pub fn leave(&mut self) -> Option<ClientId> {
        let (_, client) = self.leaving.pop()?;
        self.gone.push(client);
        Some(client)
    }

    pub fn prepared(&mut self) -> Option<Event> {
        let Reverse(done) = self.preparations.pop()?;
        Some(Event::Prepared {
            request: RequestId {
                buffer: done.buffer,
                generation: done.generation,
            },
            measured: done.took,
            ready: if done.ok {
                Ok(())
            } else {
                Err(Failure::Payload)
            },
        })
    }

    /// The submission that was held back until now.
    pub fn released(&mut self) -> Option<Submission> {
        let (_, submission) = self.held.pop_first()?;
        if self.gone.contains(&submission.client) {
            return None;
        }
        self.pipelines.arrived(&submission);
        Some(submission)
    }

    /// What a pipeline brings now; none if it is a part of a client that is gone.
    pub fn handed_over(&mut self) -> Option<HandedOver> {
        let handed_over = self.pipelines.take()?;
        if let HandedOver::Part(part) = &handed_over
            && self.gone.contains(&part.client)
        {
            self.pipelines.dropped(part.tag);
            return None;
        }
        Some(handed_over)
    }

    /// The source's submission; none if its client holds it back or is gone.
    pub fn submitted(&mut self, now: Instant) -> Option<Submission> {
        let mut submission = self.source.take()?;
        if self.gone.contains(&submission.client) {
            return None;
        }
        for fault in &self.faults {
            match *fault {
                Fault::ClockStep { client, at, by_ns }
                    if client == submission.client && at <= now =>
                {
                    let claimed = submission.captured.as_nanos().saturating_add_signed(by_ns);
                    submission.captured = Instant::from_nanos(claimed);
                }
                Fault::SlowClient { client, takes } if client == submission.client => {
                    submission.egress = takes;
                }
                Fault::ClientStalled {
                    client,
                    from,
                    until,
                } if client == submission.client && (from..until).contains(&now) => {
                    self.ordered += 1;
                    self.held.insert((until, self.ordered), submission);
                    return None;
                }
                _ => {}
            }
        }
        self.pipelines.arrived(&submission);
        Some(submission)
    }

    /// Where the requests of a client for a task are prepared.
    pub fn intake(&self, client: ClientId, task: TaskId) -> Intake {
        let follower = self.pipelines.has_follower(task).then_some(task);
        Intake { client, follower }
    }

    /// An intake prepares an input that takes `profiled` at most, once it has done those before.
    pub fn prepare(&mut self, now: Instant, intake: Intake, request: RequestId, profiled: Nanos) {
        let took = self.preparation_time(profiled);
        let readable = true;
        self.prepare_as(
            now,
            intake,
            request,
            arrivals::Preparation { took, readable },
        );
    }

    /// The same, for a preparation that is known.
    pub fn prepare_as(
        &mut self,
        now: Instant,
        intake: Intake,
        request: RequestId,
        known: arrivals::Preparation,
    ) {
        let took = known.took;
        let busy_until = self.busy_until.entry(intake).or_insert(Instant::ZERO);
        let ends = now.max(*busy_until) + took;
        *busy_until = ends;
        self.ordered += 1;
        self.preparations.push(Reverse(Preparation {
            ends,
            order: self.ordered,
            buffer: request.buffer,
            generation: request.generation,
            took,
            ok: known.readable && self.readable(intake.client, ends),
        }));
    }

    fn preparation_time(&mut self, profiled: Nanos) -> Nanos {
        let least = self.preparation_least;
        if least >= 1.0 || profiled == Nanos::ZERO {
            return profiled;
        }
        let share = least + (1.0 - least) * self.random.unit();
        Nanos::new((profiled.as_nanos() as f64 * share) as u64)
    }

    fn readable(&self, client: ClientId, at: Instant) -> bool {
        !self.faults.iter().any(|fault| {
            matches!(fault, Fault::PayloadUnreadable { client: whose, from, until }
                if *whose == client && (*from..*until).contains(&at))
        })
    }

    pub fn replied(&mut self, now: Instant, tag: u64, reply: &Reply) {
        self.pipelines.replied(now, tag, reply);
        self.source.replied(now, tag, reply);
    }

    /// What became of the queries of each pipeline.
    pub fn into_queries(self) -> Vec<Queries> {
        self.pipelines.into_tallies()
    }
}
