//! What a partition runs: one action, and at most one that was handed over ahead.

use crate::ids::{ActionId, BATCH_MAX, RequestId};
use crate::punctual::lifecycle::requests::{Requests, State};
use crate::punctual::tables::{Row, Tables};
use crate::time::{Instant, Nanos};

/// An action that exceeds even the longest time ever measured is believed to need this fraction
/// of its age more; so the number of extensions grows with the logarithm of its age only.
const EXTENSION_FRACTION: u64 = 8;

/// Why an action runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Accepted real-time work, possibly with optional members in free places of the batch.
    Mandatory,
    /// Deeper stages of real-time requests.
    Optional,
    BestEffort,
    /// A stage of a model that lost its promises; it runs to its end like real-time work.
    Demoted,
}

/// The action in flight.
#[derive(Clone, Debug)]
pub struct Running {
    pub id: ActionId,
    pub kind: Kind,
    pub row: Row,
    /// Position of its batch size in the row's sizes.
    pub size: usize,
    pub members: heapless::Vec<RequestId, BATCH_MAX>,
    pub ordered: Instant,
    /// f as promised when it was ordered; for best-effort work, once it was told to stop.
    pub promised: Instant,
    /// f: upper bound on its end, as now believed. Best-effort: meaningless until told to stop.
    pub until: Instant,
    /// Best-effort only: `Preempt` was sent.
    pub preempting: bool,
    pub overran: bool,
    /// From when on it is taken for lost.
    pub lost_from: Instant,
    /// It was taken for lost: its members have their verdicts, and it holds the partition.
    pub lost: bool,
}

impl Running {
    /// Best-effort work that has not been told to stop: nobody waits for its end.
    pub fn is_stoppable(&self) -> bool {
        self.kind == Kind::BestEffort && !self.preempting
    }
}

/// An action that was reported.
#[derive(Clone, Debug)]
pub struct Ended {
    pub action: Running,
    /// It ran; else it was handed over ahead and had not begun.
    pub ran: bool,
    /// A change between layouts waited for it.
    pub left: bool,
}

/// An action that was taken for lost.
#[derive(Clone, Debug)]
pub struct Lost {
    pub members: heapless::Vec<RequestId, BATCH_MAX>,
    /// A change between layouts waited for it.
    pub left: bool,
}

/// The actions in flight on a partition.
///
/// Promises: whatever was handed over ahead follows one that runs, and runs once that has ended; what
/// is believed of an action's end moves later only, but for a stop.
#[derive(Clone, Debug)]
pub struct Slot {
    /// P with the dispatch cost.
    preemption: Nanos,
    running: Option<Running>,
    /// Handed over ahead: starts when the running one has ended.
    queued: Option<Running>,
    /// The running action was in flight when the layout changed: what moved from it may not be ready.
    leaving: bool,
}

impl Slot {
    pub fn new(preemption: Nanos) -> Self {
        Self {
            preemption,
            running: None,
            queued: None,
            leaving: false,
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

    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether a lost action holds it.
    pub fn is_lost(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.lost)
    }

    /// Upper bound on when what runs here has ended, if nothing more is started.
    pub fn busy_until(&self, now: Instant) -> Instant {
        if let Some(queued) = &self.queued {
            return queued.until.max(now);
        }
        match &self.running {
            None => now,
            Some(r) if r.lost => Instant::FAR_FUTURE,
            Some(r) if r.is_stoppable() => now + self.preemption,
            Some(r) => r.until.max(now),
        }
    }

    /// Takes an action in: it runs, or follows the one that does.
    pub fn start(&mut self, action: Running) {
        debug_assert!(self.queued.is_none());
        let place = match self.running {
            None => &mut self.running,
            Some(_) => &mut self.queued,
        };
        *place = Some(action);
    }

    /// The best-effort action that runs is told to stop.
    pub fn preempt(&mut self, now: Instant) -> ActionId {
        let until = now + self.preemption;
        let running = self.running.as_mut().expect("best-effort work runs");
        running.preempting = true;
        running.promised = until;
        running.until = until;
        running.id
    }

    /// An action was reported.
    pub fn end(&mut self, action: ActionId, now: Instant) -> Option<Ended> {
        let left = core::mem::take(&mut self.leaving);
        let ran = self.running.as_ref().is_some_and(|r| r.id == action);
        let action = if ran {
            let ended = self.running.take();
            self.running = self.queued.take();
            if let Some(next) = &mut self.running {
                // Its window is what it was: that the one before ended early does not say that it
                // starts early.
                next.ordered = now;
            }
            ended?
        } else {
            self.queued.take()?
        };
        Some(Ended { action, ran, left })
    }

    /// Moves f of an action that should have ended. `None` if it need not have; else its members if
    /// that is new.
    pub fn extend(&mut self, now: Instant, tables: &Tables) -> Option<&[RequestId]> {
        let running = self.running.as_mut()?;
        if running.lost || running.is_stoppable() || now <= running.until {
            return None;
        }
        let delta = tables.dispatch_cost();
        let age = now.since(running.ordered);
        let tick = delta.max(Nanos::new(age.as_nanos() / EXTENSION_FRACTION + 1));
        let row = tables.row(running.row);
        let longest = running.ordered + row.max_seen[running.size] + delta;
        running.until = if running.kind == Kind::BestEffort {
            now + tick
        } else {
            longest.max(now + tick)
        };
        if let Some(queued) = &mut self.queued {
            let cost = tables.row(queued.row).cost[queued.size];
            queued.until = queued.until.max(running.until + cost);
        }
        let known = core::mem::replace(&mut running.overran, true);
        Some(if known { &[] } else { &running.members })
    }

    /// Takes an action for lost, if it should have been reported long ago.
    pub fn give_up(&mut self, now: Instant) -> Option<Lost> {
        let mut actions = self.running.iter_mut().chain(&mut self.queued);
        let action = actions.find(|r| !r.lost && r.lost_from <= now)?;
        action.lost = true;
        let members = action.members.clone();
        let left = core::mem::take(&mut self.leaving);
        Some(Lost { members, left })
    }

    /// The layout changes: whoever takes over waits for what is in flight.
    pub fn leave(&mut self) {
        self.leaving = self.running.is_some();
    }

    /// Recounts. What is wrong, if anything is.
    pub fn check(&self, requests: &Requests) -> Result<(), &'static str> {
        let in_place = |action: &Running| {
            let state = if action.lost {
                State::Locked
            } else {
                State::Running
            };
            action.members.iter().all(|&id| {
                let request = requests.get(id.buffer);
                request.state == state && request.generation == id.generation
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
