//! The actions in flight on a partition: one that runs, and at most one that was handed over ahead.

use serde::{Deserialize, Serialize};

use crate::ids::{ActionId, BATCH_MAX, RequestId};
use crate::punctual::lifecycle::requests::{Requests, State};
use crate::punctual::readiness::UNMEASURED;
use crate::punctual::tables::{Row, Tables};
use crate::time::{Instant, Nanos};

/// An action that exceeds even the longest time ever measured is assumed to need this fraction of its
/// age more. So the number of extensions, each of which costs a step, grows only with the logarithm of
/// its age.
const EXTENSION_FRACTION: u64 = 8;

/// Why an action runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Mandatory jobs, possibly with optional members in free places of the batch.
    Mandatory,
    /// Optional jobs: deeper stages of requests that hold an answer.
    Optional,
    BestEffort,
    /// A stage of a demoted model. It runs to its end like real-time work.
    Demoted,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    pub id: ActionId,
    pub kind: Kind,
    /// The partition whose queues its members come from. Another one if it runs on a place.
    pub home: usize,
    /// It runs on a place, and a member has mandatory work left after it. So nothing starts untested on its home
    /// before it has ended.
    pub pins_home: bool,
    pub row: Row,
    /// Position of its batch size in the row's sizes.
    pub size: usize,
    pub members: heapless::Vec<RequestId, BATCH_MAX>,
    /// Whether it runs as it was measured, as far as was known when it was ordered.
    pub as_measured: bool,
    pub ordered: Instant,
    /// The bound on its end. An end after this is an overrun. Best-effort: meaningless until it is preempted.
    pub until: Instant,
    /// Best-effort only: `Preempt` was sent.
    pub preempting: bool,
    /// Its bound has passed, and its overrun was counted.
    pub overran: bool,
    /// From this time on, it counts as lost ([`crate::lost`]).
    pub lost_from: Instant,
    /// It is lost: its members have their verdicts, and it locks the partition until it is reported.
    pub lost: bool,
}

impl Running {
    /// Whether it is best-effort work that has not been preempted, so that f is now + P.
    pub fn is_preemptable(&self) -> bool {
        self.kind == Kind::BestEffort && !self.preempting
    }

    /// Whether it should have ended by now.
    pub fn is_overdue(&self, now: Instant) -> bool {
        !self.lost && !self.is_preemptable() && now > self.until
    }

    /// When it ends: at the latest at its bound. Once that has passed, an estimate: first the longest time ever measured,
    /// then a fraction of its age more.
    pub fn end(&self, now: Instant, tables: &Tables) -> Instant {
        if !self.is_overdue(now) {
            return self.until.max(now);
        }
        let delta = tables.dispatch_cost();
        let age = now.since(self.ordered);
        // At least a dispatch cost and a nanosecond: a step at the estimate must make a later one.
        let soon = now + delta.max(Nanos::new(age.as_nanos() / EXTENSION_FRACTION + 1));
        if self.kind == Kind::BestEffort {
            // It was preempted and stops late. The time of its whole stage says nothing about that.
            return soon;
        }
        let longest = tables.row(self.row).max_seen[self.size];
        soon.max(self.ordered + longest + delta)
    }
}

/// An action that the device reported.
#[derive(Clone, Debug)]
pub struct Ended {
    pub action: Running,
    /// It was the running action; false if it was handed over ahead and had not begun.
    pub ran: bool,
}

/// An action that was declared lost.
#[derive(Clone, Debug)]
pub struct Lost {
    pub home: usize,
    pub members: heapless::Vec<RequestId, BATCH_MAX>,
}

/// The actions in flight on a partition.
///
/// Promises: an action that was handed over ahead follows one that runs, and runs once that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// P with the dispatch cost.
    preemption: Nanos,
    running: Option<Running>,
    /// Handed over ahead: starts when the running one has ended.
    queued: Option<Running>,
}

impl Slot {
    pub fn new(preemption: Nanos) -> Self {
        Self {
            preemption,
            running: None,
            queued: None,
        }
    }

    pub fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    pub fn queued(&self) -> Option<&Running> {
        self.queued.as_ref()
    }

    pub fn in_flight(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().chain(&self.queued)
    }

    /// Whether a lost action locks the partition.
    pub fn is_lost(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.lost)
    }

    /// Whether the running action pins a home ([`Running::pins_home`]). One that overran does not: the guarantee is
    /// void then, and the home must not wait for an end that is unknown.
    pub fn pins(&self, home: usize) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|r| r.pins_home && r.home == home && !r.overran && !r.lost)
    }

    /// Upper bound on when all actions here have ended, if nothing more is started.
    pub fn busy_until(&self, now: Instant, tables: &Tables) -> Instant {
        match (&self.running, &self.queued) {
            (None, _) => now,
            // It starts when the running one ends, so its end moves, too.
            (Some(running), Some(queued)) if running.is_overdue(now) => {
                let cost = tables.row(queued.row).cost[queued.size];
                queued.until.max(running.end(now, tables) + cost)
            }
            (_, Some(queued)) => queued.until.max(now),
            (Some(running), None) if running.lost => Instant::FAR_FUTURE,
            (Some(running), None) if running.is_preemptable() => now + self.stops_within(running),
            (Some(running), None) => running.end(now, tables),
        }
    }

    /// How long best-effort work may still run after it was told to stop.
    const fn stops_within(&self, running: &Running) -> Nanos {
        if running.as_measured {
            return self.preemption;
        }
        self.preemption.saturating_mul(UNMEASURED)
    }

    /// Adds an action: it runs, or follows the running one.
    pub fn start(&mut self, action: Running) {
        debug_assert!(
            self.queued.is_none(),
            "{:?} starts on a partition that runs one action and has another queued",
            action.id
        );
        debug_assert!(!action.members.is_empty(), "{:?} has no members", action.id);
        let place = match self.running {
            None => &mut self.running,
            Some(_) => &mut self.queued,
        };
        *place = Some(action);
    }

    /// Preempts the best-effort action that runs: from now on, f is its bound on stopping.
    pub fn preempt(&mut self, now: Instant) -> ActionId {
        let running = self.running.as_ref().expect("best-effort work runs");
        let until = now + self.stops_within(running);
        let running = self.running.as_mut().expect("best-effort work runs");
        debug_assert!(
            running.is_preemptable(),
            "{:?} is preempted, but is real-time work or was preempted before",
            running.id
        );
        running.preempting = true;
        running.until = until;
        running.id
    }

    /// Removes an action that the device reported. `None` if it is not in flight here.
    pub fn end(&mut self, action: ActionId, now: Instant, tables: &Tables) -> Option<Ended> {
        let ran = self.running.as_ref().is_some_and(|r| r.id == action);
        let action = if ran {
            let ended = self.running.take();
            self.running = self.queued.take();
            let ended = ended?;
            if let Some(next) = &mut self.running {
                // Its busy time counts from now. Its bound moves only to later times: its window counts from the
                // bound of the action before. An early end of that one does not say that it starts early.
                next.ordered = now;
                if ended.is_overdue(now) {
                    next.until = next.until.max(now + tables.row(next.row).cost[next.size]);
                }
            }
            ended
        } else {
            self.queued.take()?
        };
        Some(Ended { action, ran })
    }

    /// The running action, if it should have ended by now and this was not counted yet. It counts from now on.
    pub fn count_overrun(&mut self, now: Instant) -> Option<&Running> {
        let running = self.running.as_mut()?;
        let uncounted = running.is_overdue(now) && !running.overran;
        uncounted.then(|| {
            running.overran = true;
            &*running
        })
    }

    /// Declares an action lost if the device should have reported it long ago.
    pub fn give_up(&mut self, now: Instant) -> Option<Lost> {
        let mut actions = self.running.iter_mut().chain(&mut self.queued);
        let action = actions.find(|r| !r.lost && r.lost_from <= now)?;
        action.lost = true;
        Some(Lost {
            home: action.home,
            members: action.members.clone(),
        })
    }

    /// Checks the actions in flight against the requests.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self, requests: &Requests) -> Result<(), &'static str> {
        let in_place = |action: &Running| {
            action.members.iter().all(|&id| {
                // Of a damaged state, a buffer need not be one.
                let state = requests.find(id).map(|request| request.state);
                state == Some(State::Locked) || state == Some(State::Running) && !action.lost
            })
        };
        let follows = match (&self.running, &self.queued) {
            (_, None) => true,
            (running, Some(next)) => running
                .as_ref()
                .is_some_and(|running| running.id.0 < next.id.0),
        };
        match () {
            () if !follows => Err("an action was handed over ahead of none"),
            () if !self.in_flight().all(in_place) => {
                Err("a member of an action is in another state")
            }
            () => Ok(()),
        }
    }
}

/// What [`Slot::check`] must find, and how to plant it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Slot>] = &[
    ("an action was handed over ahead of none", |it| {
        it.queued = it.running.take()
    }),
    ("a member of an action is in another state", |it| {
        let running = it.running.as_mut().expect("it runs");
        running.members[0].generation += 1;
    }),
    ("a request runs in no action, or in two", |it| {
        it.running = None
    }),
];
