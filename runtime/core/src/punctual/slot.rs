//! The actions in flight on a partition: one that runs, and at most one that was handed over ahead.

use crate::ids::{ActionId, BATCH_MAX, RequestId};
use crate::punctual::lifecycle::requests::{Requests, State};
use crate::punctual::tables::{Row, Tables};
use crate::time::{Instant, Nanos};

/// An action that exceeds even the longest time ever measured is assumed to need this fraction of its
/// age more. So the number of extensions, each of which costs a step, grows only with the logarithm of
/// its age.
const EXTENSION_FRACTION: u64 = 8;

/// Why an action runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Mandatory jobs, possibly with optional members in free places of the batch.
    Mandatory,
    /// Optional jobs: deeper stages of requests that hold an answer.
    Optional,
    BestEffort,
    /// A stage of a demoted model. It runs to its end like real-time work.
    Demoted,
}

/// The action in flight.
#[derive(Clone, Debug)]
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
    pub ordered: Instant,
    /// f when the action started; for best-effort work, when it was preempted. An end after this is an
    /// overrun.
    pub promised: Instant,
    /// f: the present upper bound on its end. Best-effort: meaningless until it is preempted.
    pub until: Instant,
    /// Best-effort only: `Preempt` was sent.
    pub preempting: bool,
    /// Its end is later than promised.
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
/// The bound on an action's end only moves to later times, except at a preemption.
#[derive(Clone, Debug)]
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
    pub fn busy_until(&self, now: Instant) -> Instant {
        if let Some(queued) = &self.queued {
            return queued.until.max(now);
        }
        // `until` may lie in the past until the next step extends it; f is never before now.
        match &self.running {
            None => now,
            Some(r) if r.lost => Instant::FAR_FUTURE,
            Some(r) if r.is_preemptable() => now + self.preemption,
            Some(r) => r.until.max(now),
        }
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
        let until = now + self.preemption;
        let running = self.running.as_mut().expect("best-effort work runs");
        debug_assert!(
            running.is_preemptable(),
            "{:?} is preempted, but is real-time work or was preempted before",
            running.id
        );
        running.preempting = true;
        running.promised = until;
        running.until = until;
        running.id
    }

    /// Removes an action that the device reported. `None` if it is not in flight here.
    pub fn end(&mut self, action: ActionId, now: Instant) -> Option<Ended> {
        let ran = self.running.as_ref().is_some_and(|r| r.id == action);
        let action = if ran {
            let ended = self.running.take();
            self.running = self.queued.take();
            if let Some(next) = &mut self.running {
                // Its busy time counts from now. Its `until` stays: its window counts from the promised end
                // of the action before. An early end of that one does not say that it starts early.
                next.ordered = now;
            }
            ended?
        } else {
            self.queued.take()?
        };
        Some(Ended { action, ran })
    }

    /// Moves f of an action that should have ended by now. `None` if its bound has not passed;
    /// otherwise its members, or none if its overrun was counted before.
    pub fn extend(&mut self, now: Instant, tables: &Tables) -> Option<&[RequestId]> {
        let running = self.running.as_mut()?;
        if running.lost || running.is_preemptable() || now <= running.until {
            return None;
        }
        let delta = tables.dispatch_cost();
        let age = now.since(running.ordered);
        // At least a dispatch cost and a nanosecond: each extension must end after this step.
        let tick = delta.max(Nanos::new(age.as_nanos() / EXTENSION_FRACTION + 1));
        let row = tables.row(running.row);
        // First the longest time ever measured is the estimate, then a fraction of its age.
        let longest = running.ordered + row.max_seen[running.size] + delta;
        running.until = if running.kind == Kind::BestEffort {
            // It was preempted and stops late. The time of its whole stage says nothing about that.
            now + tick
        } else {
            longest.max(now + tick)
        };
        // The queued action starts when this one ends, so its end moves, too.
        if let Some(queued) = &mut self.queued {
            let cost = tables.row(queued.row).cost[queued.size];
            queued.until = queued.until.max(running.until + cost);
        }
        let counted = core::mem::replace(&mut running.overran, true);
        Some(if counted { &[] } else { &running.members })
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
