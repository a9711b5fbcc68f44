//! The leader of one or several partitions: takes actions, honours their windows, runs them, reports.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use heapless::Vec;
use punctual_core::{BATCH_MAX, Criticality, Event, Finished, Infer, Instant};
use punctual_platform::Doorbell;
use punctual_platform::clock::Clock;
use punctual_platform::doorbell::LOOK_NS;

use super::partition::{HELD_MAX, LeaderLink, Post};
use super::{BufferGuard, Engine, Outcome, Wait};
use crate::regions::ClaimedRegions;

/// Everything the leader's thread owns.
pub(super) struct Worker<E> {
    pub(super) leader: Arc<LeaderLink>,
    /// The partitions that it serves. Those that overlap run one action at a time, the others each their own.
    pub(super) served: Box<[Served<E>]>,
    /// The scheduler's bell: rung after each event.
    pub(super) report: Arc<Doorbell>,
    /// How it waits while a stage runs that it need not compute itself.
    pub(super) wait: Wait,
    pub(super) clock: Clock,
}

/// A partition, as its leader has it.
pub(super) struct Served<E> {
    post: Post,
    engine: E,
    /// Its TPCs; none of one on cores, whose leader serves no other.
    tpcs: Range<u16>,
    /// The slot of the next action.
    slot: usize,
}

/// An action whose stage has begun, and is not over.
pub(super) struct Running<'r> {
    pub(super) infer: Infer,
    slot: usize,
    started: Instant,
    claims: Vec<BufferGuard<'r>, BATCH_MAX>,
}

/// By partition, what runs.
pub(super) type Runs<'r> = [Option<Running<'r>>];

/// What is left for a leader to do after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// There may be more.
    More,
    /// Stages run.
    Runs,
    /// Nothing, until the bell is rung or a window opens then.
    Idle(Option<Instant>),
    /// The device is being dropped.
    Over,
}

/// What must be done with the next action of a partition.
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
    pub(super) fn new(post: Post, engine: E, tpcs: Range<u16>) -> Self {
        Self {
            post,
            engine,
            tpcs,
            slot: 0,
        }
    }

    /// The next action, and what must be done with it.
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

    fn overlaps(&self, other: &Self) -> bool {
        self.tpcs.start < other.tpcs.end && other.tpcs.start < self.tpcs.end
    }
}

impl<E: Engine> Worker<E> {
    /// Runs actions until the device is dropped.
    pub(super) fn serve(mut self, requests: &ClaimedRegions) {
        let mut runs = self.no_runs();
        loop {
            // Read before looking: a ring in between ends the wait.
            let seen = self.leader.bell.count();
            match self.round(requests, &mut runs) {
                Rest::More => {}
                Rest::Runs => self.pause(seen),
                Rest::Over => return,
                Rest::Idle(until) => {
                    self.leader.heart.waiting();
                    let until = until.map(Instant::as_nanos);
                    if !(self.leader.take_announcement() && self.look(seen, until)) {
                        self.leader.bell.wait(seen, until);
                    }
                }
            }
        }
    }

    pub(super) fn no_runs<'r>(&self) -> Box<Runs<'r>> {
        self.served.iter().map(|_| None).collect()
    }

    /// Takes the next action, and carries on what runs, as far as that needs no waiting.
    pub(super) fn round<'r>(&mut self, requests: &'r ClaimedRegions, runs: &mut Runs<'r>) -> Rest {
        // Relaxed: published by the ring that follows it.
        let ended = self.leader.ended.load(Ordering::Relaxed);
        let turn = self.turn(runs, ended);
        if let Turn::Takes(index, due) = turn {
            self.leader.heart.working();
            self.take(index, due, requests, runs);
        }
        let before = running(runs);
        self.advance_all(runs);
        match turn {
            Turn::Takes(..) => Rest::More,
            // Where one ended, the next may begin.
            Turn::Waits(_) if running(runs) < before => Rest::More,
            Turn::Waits(_) if before > 0 => Rest::Runs,
            Turn::Waits(_) if ended => Rest::Over,
            Turn::Waits(until) => Rest::Idle(until),
        }
    }

    /// Looks for what is about to come, which takes less than to be woken for it once more. Whether something came.
    fn look(&self, seen: u32, until_ns: Option<u64>) -> bool {
        let limit_ns = self.clock.now_ns() + LOOK_NS;
        let limit_ns = until_ns.map_or(limit_ns, |until| until.min(limit_ns));
        self.leader.bell.look(seen, || {
            std::hint::spin_loop();
            self.clock.now_ns() >= limit_ns
        })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.now_ns())
    }

    /// Lets a little time pass while stages run; with [`Wait::Sleep`] less, if the bell was rung since `seen`. A window
    /// that opens meanwhile is seen that much later.
    fn pause(&self, seen: u32) {
        match self.wait {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Sleep { ns } => {
                self.leader.bell.wait(seen, Some(self.clock.now_ns() + ns));
            }
        }
    }

    /// Real-time actions first, then in the order in which they were submitted. An action that waits for its window
    /// delays only those behind it on its partition, as does one that runs.
    fn turn(&self, runs: &Runs<'_>, ended: bool) -> Turn {
        let now = self.now();
        let mut first: Option<((bool, u64), usize, Due)> = None;
        let mut opens: Option<Instant> = None;
        for (index, served) in self.served.iter().enumerate() {
            if runs[index].is_some() {
                continue;
            }
            let Some((infer, due)) = served.next(now, ended) else {
                continue;
            };
            if let Due::Waits(earliest) = due {
                opens = Some(opens.map_or(earliest, |opens| opens.min(earliest)));
                continue;
            }
            if due == Due::Runs && !self.is_free(served, runs) {
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

    /// Whether nothing runs on any of its units.
    fn is_free(&self, served: &Served<E>, runs: &Runs<'_>) -> bool {
        let mut others = self.served.iter().zip(runs);
        !others.any(|(other, run)| run.is_some() && other.overlaps(served))
    }

    /// Deals with the next action of a partition: begins it, or reports that it does not run.
    fn take<'r>(
        &mut self,
        index: usize,
        due: Due,
        requests: &'r ClaimedRegions,
        runs: &mut Runs<'r>,
    ) {
        let served = &mut self.served[index];
        let (infer, slot) = (served.post.orders.pop(), served.slot);
        let infer = infer.expect("it was looked at, and only the leader takes it");
        served.slot = (slot + 1) % HELD_MAX;
        let action = infer.id;
        let event = match due {
            Due::Runs => self.begin(index, infer, slot, requests, runs),
            Due::Preempted => Some(Event::Preempted { action }),
            Due::NotRun | Due::Waits(_) => Some(Event::NotRun { action }),
        };
        if let Some(event) = event {
            self.report(index, event);
        }
    }

    fn report(&mut self, index: usize, event: Event) {
        let pushed = self.served[index].post.events.push(event);
        assert!(pushed.is_ok(), "the ring holds what the partition holds");
        self.report.ring_attended();
    }

    /// Begins a stage; its event, if it is over already.
    fn begin<'r>(
        &mut self,
        index: usize,
        infer: Infer,
        slot: usize,
        requests: &'r ClaimedRegions,
        runs: &mut Runs<'r>,
    ) -> Option<Event> {
        let action = infer.id;
        let started = self.now();
        let mut claims: Vec<_, BATCH_MAX> = Vec::new();
        for request in &infer.members {
            // A member that is still written to, or named twice: the protocol is broken.
            let Some(claim) = requests.claim(usize::from(request.buffer)) else {
                return Some(Event::Failed { action });
            };
            assert!(claims.push(claim).is_ok(), "members fit a batch");
        }
        runs[index] = Some(Running {
            infer,
            slot,
            started,
            claims,
        });
        self.set_priority(runs);
        let interrupt = &self.served[index].post.link.interrupts[slot];
        if interrupt.is_set() {
            return self.end(index, Event::Preempted { action }, runs);
        }
        self.carry_on(index, runs, |engine, run, interrupt| {
            let (model, stage) = (run.infer.model, run.infer.stage);
            engine.begin(model, stage, &mut run.claims, interrupt)
        })
    }

    /// Carries every stage that runs on, as far as that needs no waiting, and reports those that are over.
    fn advance_all(&mut self, runs: &mut Runs<'_>) {
        for index in 0..runs.len() {
            if runs[index].is_none() {
                continue;
            }
            let event = self.carry_on(index, runs, |engine, run, interrupt| {
                engine.advance(&mut run.claims, interrupt)
            });
            if let Some(event) = event {
                self.leader.heart.working();
                self.report(index, event);
            }
        }
    }

    /// Lets the engine do `step` of what runs on a partition; its event, if it is over then.
    fn carry_on<'r>(
        &mut self,
        index: usize,
        runs: &mut Runs<'r>,
        step: impl FnOnce(&mut E, &mut Running<'r>, &super::CancelFlag) -> Poll<Outcome>,
    ) -> Option<Event> {
        let served = &mut self.served[index];
        let clock = &self.clock;
        let run = runs[index].as_mut()?;
        let action = run.infer.id;
        // Kernels' panics are caught closer to them; this one keeps the partition alive whatever
        // else is wrong, so that the scheduler always hears of each action.
        let event = catch_unwind(AssertUnwindSafe(|| {
            let interrupt = &served.post.link.interrupts[run.slot];
            match step(&mut served.engine, run, interrupt) {
                Poll::Pending => None,
                Poll::Ready(Outcome::Interrupted) => Some(Event::Preempted { action }),
                Poll::Ready(Outcome::Fault) => Some(Event::Failed { action }),
                Poll::Ready(Outcome::Done) => Some(served.finish(run, clock)),
            }
        }));
        let event = event.unwrap_or(Some(Event::Failed { action }))?;
        self.end(index, event, runs)
    }

    /// The stage is over: its request buffers are free.
    fn end(&mut self, index: usize, event: Event, runs: &mut Runs<'_>) -> Option<Event> {
        runs[index] = None;
        self.set_priority(runs);
        Some(event)
    }

    /// The team's priority for what runs: ordinary, if that is best-effort work alone, and no real-time action waits
    /// for the leader, and none of it is to stop.
    fn set_priority(&self, runs: &Runs<'_>) {
        let priorities = &self.leader.priorities;
        let best_effort = |run: &Running<'_>| run.infer.criticality == Criticality::BestEffort;
        let mut running = runs.iter().flatten();
        let some = running.clone().next().is_some();
        if !some || !running.all(best_effort) {
            return priorities.restore();
        }
        priorities.lower();
        let realtime = |next: &Infer| next.criticality == Criticality::RealTime;
        let urgent = |(served, run): (&Served<E>, &Option<Running<'_>>)| {
            let interrupts = &served.post.link.interrupts;
            let stops = |run: &Running<'_>| interrupts[run.slot].is_set();
            run.as_ref().is_some_and(stops) || served.post.orders.peek().is_ok_and(realtime)
        };
        if self.served.iter().zip(runs).any(urgent) {
            priorities.raise();
        }
    }
}

impl<E: Engine> Served<E> {
    /// The event of a stage that is done.
    fn finish(&mut self, run: &mut Running<'_>, clock: &Clock) -> Event {
        let (model, stage) = (run.infer.model, run.infer.stage);
        let mut members = Vec::new();
        for (member, claim) in run.claims.iter_mut().enumerate() {
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
        let now = Instant::from_nanos(clock.now_ns());
        Event::Finished(Finished {
            action: run.infer.id,
            started: run.started,
            measured: now.since(run.started),
            members,
        })
    }
}

/// How many stages run.
fn running(runs: &Runs<'_>) -> usize {
    runs.iter().flatten().count()
}
