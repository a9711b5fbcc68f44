//! What one partition is doing and what waits for it.

use alloc::boxed::Box;

use crate::ids::{ActionId, BATCH_MAX, RequestId};
use crate::punctual::conduct::Conduct;
use crate::punctual::queues::Queues;
use crate::punctual::share::{Share, Voluntary};
use crate::punctual::slack::Scan;
use crate::punctual::speed::Speed;
use crate::punctual::tables::Row;
use crate::time::{Instant, Nanos};

/// Why an action runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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
pub(crate) struct Running {
    pub(crate) id: ActionId,
    pub(crate) kind: Kind,
    pub(crate) row: Row,
    /// Position of its batch size in the row's sizes.
    pub(crate) size: usize,
    pub(crate) members: heapless::Vec<RequestId, BATCH_MAX>,
    pub(crate) ordered: Instant,
    /// f as promised when it was ordered; for best-effort work, once it was told to stop.
    pub(crate) promised: Instant,
    /// f: upper bound on its end, as now believed. Best-effort: meaningless until told to stop.
    pub(crate) until: Instant,
    /// Best-effort only: `Preempt` was sent.
    pub(crate) told_to_stop: bool,
    pub(crate) overran: bool,
    /// From when on it is taken for lost.
    pub(crate) lost_from: Instant,
    /// It was taken for lost: its members have their verdicts, and it holds the partition.
    pub(crate) lost: bool,
}

/// One partition.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    /// P with the dispatch cost.
    pub(crate) preemption: Nanos,
    pub(crate) running: Option<Running>,
    /// Handed over ahead: starts when the running one has ended.
    pub(crate) queued: Option<Running>,
    pub(crate) queues: Queues,
    /// Something happened that may allow or demand a decision.
    pub(crate) touched: bool,
    pub(crate) scan: Scan,
    pub(crate) speed: Speed,
    pub(crate) conduct: Conduct,
    pub(crate) share: Share,
    /// How much mandatory work is asked for, in steps of the price table.
    pub(crate) load: usize,
    /// Nothing starts before: the layout is being changed.
    pub(crate) opens: Instant,
    /// Its action was in flight when the layout changed: what moved from it may not be ready, so
    /// nothing starts on a partition that changed before it has ended.
    pub(crate) leaving: bool,
    /// Scratch of a change between layouts: its tasks change.
    pub(crate) changes: bool,
    /// Partitions that share compute units with it, in other layouts.
    pub(crate) overlapping: Box<[u16]>,
    /// Promised work waits until then for a larger batch.
    pub(crate) waits: Option<Instant>,
    /// The largest batch of best-effort work that the gaps of late have room for, and how many
    /// have ended since it was set.
    pub(crate) gap_places: u8,
    pub(crate) gaps_used: u8,
    /// When something here is due, if no event comes before.
    pub(crate) timer: Option<Instant>,
}

impl Partition {
    /// A batch of best-effort work was stopped, and all that it did was lost: smaller ones.
    pub(crate) fn gap_was_short(&mut self, batch: u8) {
        self.gap_places = (batch / 2).max(1);
        self.gaps_used = 0;
    }

    /// A batch of best-effort work came to its end: twice, and larger ones are tried again.
    pub(crate) fn gap_was_long_enough(&mut self) {
        self.gaps_used += 1;
        if self.gaps_used == 2 {
            self.gap_places = self.gap_places.saturating_mul(2);
            self.gaps_used = 0;
        }
    }

    /// Whether real-time work has had so much of the time that `work` has to be given up.
    pub(crate) fn share_is_spent(&self, work: Voluntary, now: Instant) -> bool {
        let running = self.running.as_ref();
        let running = running.filter(|r| r.kind != Kind::BestEffort);
        self.share.is_spent(work, now, running.map(|r| r.ordered))
    }

    /// Its tasks change: who waited here waits elsewhere, and nothing starts before `opens`.
    pub(crate) fn close_until(&mut self, opens: Instant) {
        self.opens = opens;
        self.leaving = self.running.is_some();
        self.touched = true;
    }

    /// Upper bound on when what runs here has ended, if nothing more is started.
    pub(crate) fn busy_until(&self, now: Instant) -> Instant {
        if let Some(queued) = &self.queued {
            return queued.until.max(now);
        }
        match &self.running {
            None => now,
            Some(r) if r.lost => Instant::FAR_FUTURE,
            Some(r) if r.kind == Kind::BestEffort && !r.told_to_stop => now + self.preemption,
            Some(r) => r.until.max(now),
        }
    }
}
