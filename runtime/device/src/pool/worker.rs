//! The leader of a partition: takes actions, honours their windows, runs them, reports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use heapless::Vec;
use punctual_core::{
    ActionId, Answer, BATCH_MAX, Criticality, Event, Finished, Infer, Instant, Nanos,
};
use punctual_platform::{Doorbell, clock};

use super::partition::{HELD_MAX, Post};
use super::{Engine, Outcome};
use crate::regions::ClaimedRegions;

/// Everything the leader's thread owns.
pub(super) struct Worker<E> {
    pub(super) post: Post,
    pub(super) engine: E,
    pub(super) requests: Arc<ClaimedRegions>,
    /// The scheduler's bell: rung after each event.
    pub(super) report: Arc<Doorbell>,
}

impl<E: Engine> Worker<E> {
    /// Runs actions until the device is dropped.
    pub(super) fn serve(mut self) {
        let mut slot = 0;
        loop {
            // Read before looking: a ring in between ends the wait.
            let seen = self.post.link.bell.count();
            match self.post.orders.pop() {
                Ok(infer) => {
                    self.post.link.heart.working();
                    let event = self.carry_out(&infer, slot);
                    slot = (slot + 1) % HELD_MAX;
                    let pushed = self.post.events.push(event);
                    assert!(pushed.is_ok(), "the ring holds what the partition holds");
                    self.report.ring();
                }
                // Relaxed: published by the ring that follows it.
                Err(_) if self.post.link.ended.load(Ordering::Relaxed) => return,
                Err(_) => {
                    self.post.link.heart.waiting();
                    self.post.link.bell.wait(seen, None);
                }
            }
        }
    }

    fn carry_out(&mut self, infer: &Infer, slot: usize) -> Event {
        let action = infer.id;
        if let Some(event) = self.wait_for_window(infer, slot) {
            return event;
        }
        let best_effort = infer.criticality == Criticality::BestEffort;
        if best_effort && self.become_ordinary(slot) {
            return Event::Preempted { action };
        }
        // Kernels' panics are caught closer to them; this one keeps the partition alive whatever
        // else is wrong, so that the scheduler always hears of each action.
        let event = catch_unwind(AssertUnwindSafe(|| self.run(infer, slot)))
            .unwrap_or(Event::Failed { action });
        if best_effort {
            self.post.link.priorities.raise();
        }
        event
    }

    /// Lowers the team's priority, unless a real-time action already waits behind; true if the
    /// action has been preempted meanwhile.
    fn become_ordinary(&self, slot: usize) -> bool {
        let link = &self.post.link;
        link.priorities.lower();
        let preempted = link.interrupts[slot].is_set();
        let realtime = |next: &Infer| next.criticality == Criticality::RealTime;
        if preempted || self.post.orders.peek().is_ok_and(realtime) {
            link.priorities.raise();
        }
        preempted
    }

    /// Waits for `earliest`; an event if the action cannot start.
    fn wait_for_window(&self, infer: &Infer, slot: usize) -> Option<Event> {
        let action = infer.id;
        let link = &self.post.link;
        loop {
            let seen = link.bell.count();
            if link.interrupts[slot].is_set() {
                return Some(Event::Preempted { action });
            }
            let now = now();
            // Relaxed: as in `serve`.
            if now > infer.window.latest || link.ended.load(Ordering::Relaxed) {
                return Some(Event::NotRun { action });
            }
            if now >= infer.window.earliest {
                link.heart.working();
                return None;
            }
            link.heart.waiting();
            link.bell.wait(seen, Some(infer.window.earliest.as_nanos()));
        }
    }

    fn run(&mut self, infer: &Infer, slot: usize) -> Event {
        let action = infer.id;
        let started = now();
        let mut claims: Vec<_, BATCH_MAX> = Vec::new();
        for request in &infer.members {
            // A member that is still written to, or named twice: the protocol is broken.
            let Some(claim) = self.requests.claim(usize::from(request.buffer)) else {
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
