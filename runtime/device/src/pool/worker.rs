//! The leader of one or several partitions: takes actions, honours their windows, runs them, reports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use heapless::Vec;
use punctual_core::{
    ActionId, Answer, BATCH_MAX, Criticality, Event, Finished, Infer, Instant, Nanos,
};
use punctual_platform::{Doorbell, clock};

use super::partition::{HELD_MAX, LeaderLink, Post};
use super::{Engine, Outcome};
use crate::regions::ClaimedRegions;

/// Everything the leader's thread owns.
pub(super) struct Worker<E> {
    pub(super) leader: Arc<LeaderLink>,
    /// The partitions that it serves, one action at a time.
    pub(super) served: Box<[Served<E>]>,
    pub(super) requests: Arc<ClaimedRegions>,
    /// The scheduler's bell: rung after each event.
    pub(super) report: Arc<Doorbell>,
}

/// A partition, as its leader has it.
pub(super) struct Served<E> {
    post: Post,
    engine: E,
    /// The slot of the next action.
    slot: usize,
}

/// What is to be done with the next action of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Runs,
    /// It was preempted before it began.
    Preempted,
    /// Its window is over, or the device is being dropped.
    NotRun,
    /// Its window opens then.
    Waits(Instant),
}

/// What the leader does next.
enum Turn {
    /// Deals with the next action of the partition at this position.
    Takes(usize, Due),
    /// Waits, at most until then if a window opens.
    Waits(Option<Instant>),
}

impl<E> Served<E> {
    pub(super) fn new(post: Post, engine: E) -> Self {
        Self {
            post,
            engine,
            slot: 0,
        }
    }

    /// The next action, and what is to be done with it.
    fn next(&self, now: Instant, ended: bool) -> Option<(&Infer, Due)> {
        let infer = self.post.orders.peek().ok()?;
        let window = infer.window;
        let due = if self.post.link.interrupts[self.slot].is_set() {
            Due::Preempted
        } else if now > window.latest || ended {
            Due::NotRun
        } else if now >= window.earliest {
            Due::Runs
        } else {
            Due::Waits(window.earliest)
        };
        Some((infer, due))
    }
}

impl<E: Engine> Worker<E> {
    /// Runs actions until the device is dropped.
    pub(super) fn serve(mut self) {
        loop {
            // Read before looking: a ring in between ends the wait.
            let seen = self.leader.bell.count();
            // Relaxed: published by the ring that follows it.
            let ended = self.leader.ended.load(Ordering::Relaxed);
            match self.turn(ended) {
                Turn::Takes(index, due) => {
                    self.leader.heart.working();
                    self.take(index, due);
                }
                Turn::Waits(_) if ended => return,
                Turn::Waits(until) => {
                    self.leader.heart.waiting();
                    let until = until.map(Instant::as_nanos);
                    self.leader.bell.wait(seen, until);
                }
            }
        }
    }

    /// Real-time actions first, then in the order in which they were submitted. An action that waits for its window
    /// delays only those behind it on its partition.
    fn turn(&self, ended: bool) -> Turn {
        let now = now();
        let mut first: Option<((bool, u64), usize, Due)> = None;
        let mut opens: Option<Instant> = None;
        for (index, served) in self.served.iter().enumerate() {
            let Some((infer, due)) = served.next(now, ended) else {
                continue;
            };
            if let Due::Waits(earliest) = due {
                opens = Some(opens.map_or(earliest, |opens| opens.min(earliest)));
                continue;
            }
            let key = (infer.criticality == Criticality::BestEffort, infer.id.0);
            if first.is_none_or(|(other, ..)| key < other) {
                first = Some((key, index, due));
            }
        }
        match first {
            Some((_, index, due)) => Turn::Takes(index, due),
            None => Turn::Waits(opens),
        }
    }

    /// Takes the next action of a partition to its end, and reports it.
    fn take(&mut self, index: usize, due: Due) {
        let served = &mut self.served[index];
        let (infer, slot) = (served.post.orders.pop(), served.slot);
        let infer = infer.expect("it was looked at, and only the leader takes it");
        served.slot = (slot + 1) % HELD_MAX;
        let action = infer.id;
        let event = match due {
            Due::Runs => self.carry_out(index, &infer, slot),
            Due::Preempted => Event::Preempted { action },
            Due::NotRun | Due::Waits(_) => Event::NotRun { action },
        };
        let pushed = self.served[index].post.events.push(event);
        assert!(pushed.is_ok(), "the ring holds what the partition holds");
        self.report.ring();
    }

    fn carry_out(&mut self, index: usize, infer: &Infer, slot: usize) -> Event {
        let action = infer.id;
        let best_effort = infer.criticality == Criticality::BestEffort;
        if best_effort && self.become_ordinary(index, slot) {
            return Event::Preempted { action };
        }
        // Kernels' panics are caught closer to them; this one keeps the partition alive whatever
        // else is wrong, so that the scheduler always hears of each action.
        let (served, requests) = (&mut self.served[index], &self.requests);
        let event = catch_unwind(AssertUnwindSafe(|| served.run(requests, infer, slot)))
            .unwrap_or(Event::Failed { action });
        if best_effort {
            self.leader.priorities.raise();
        }
        event
    }

    /// Lowers the team's priority, unless a real-time action already waits for the leader; true if the
    /// action has been preempted meanwhile.
    fn become_ordinary(&self, index: usize, slot: usize) -> bool {
        self.leader.priorities.lower();
        let preempted = self.served[index].post.link.interrupts[slot].is_set();
        let realtime = |next: &Infer| next.criticality == Criticality::RealTime;
        let waits = |served: &Served<E>| served.post.orders.peek().is_ok_and(realtime);
        if preempted || self.served.iter().any(waits) {
            self.leader.priorities.raise();
        }
        preempted
    }
}

impl<E: Engine> Served<E> {
    fn run(&mut self, requests: &ClaimedRegions, infer: &Infer, slot: usize) -> Event {
        let action = infer.id;
        let started = now();
        let mut claims: Vec<_, BATCH_MAX> = Vec::new();
        for request in &infer.members {
            // A member that is still written to, or named twice: the protocol is broken.
            let Some(claim) = requests.claim(usize::from(request.buffer)) else {
                return Event::Failed { action };
            };
            assert!(claims.push(claim).is_ok(), "members fit a batch");
        }
        let interrupt = &self.post.link.interrupts[slot];
        let outcome = self
            .engine
            .run(infer.model, infer.stage, &mut claims, interrupt);
        match outcome {
            Outcome::Interrupted => Event::Preempted { action },
            Outcome::Fault => Event::Failed { action },
            Outcome::Done => {
                let mut members = Vec::new();
                for (member, claim) in claims.iter_mut().enumerate() {
                    let (model, stage) = (infer.model, infer.stage);
                    let answer = self.engine.answer(model, stage, member, claim);
                    if let Some(mut area) = claim.replace_area(None) {
                        let bytes = area.as_mut_slice();
                        self.engine.deliver(model, stage, member, claim, bytes);
                        claim.note_not_finite(bytes);
                        claim.replace_area(Some(area));
                    }
                    let pushed = members.push(answer);
                    assert!(pushed.is_ok(), "answers fit a batch");
                }
                finished(action, started, members)
            }
        }
    }
}

fn finished(action: ActionId, started: Instant, members: Vec<Answer, BATCH_MAX>) -> Event {
    let measured: Nanos = now().since(started);
    Event::Finished(Finished {
        action,
        started,
        measured,
        members,
    })
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}
