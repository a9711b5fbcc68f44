//! When the next frame of a task that comes at regular intervals will be ready, to wait for it
//! where a larger batch is worth it.

use crate::punctual::dispatch::{Choice, ns, signed};
use crate::punctual::slack::Scan;
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

/// Intervals in a row that must agree before the next is believed.
const AGREEING: u8 = 4;
/// They agree if they differ by at most this part of one.
const TOLERANCE: u64 = 16;

/// The next is given this part of an interval more.
const GRACE: u64 = 64;

/// The intervals at which a task's inputs become ready.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rhythm {
    last: Instant,
    interval: Nanos,
    agreeing: u8,
}

impl Rhythm {
    /// An input is ready.
    pub fn ready(&mut self, now: Instant) {
        let interval = now.since(self.last);
        let difference = interval.as_nanos().abs_diff(self.interval.as_nanos());
        let agrees = difference <= self.interval.as_nanos() / TOLERANCE;
        self.agreeing = if agrees {
            self.agreeing.saturating_add(1)
        } else {
            0
        };
        (self.last, self.interval) = (now, interval);
    }

    /// By when the next one is ready, if that can be told.
    pub fn next(&self) -> Option<Instant> {
        let grace = Nanos::new(self.interval.as_nanos() / GRACE);
        (self.agreeing >= AGREEING).then(|| self.last + self.interval + grace)
    }
}

impl View<'_> {
    /// Until when a batch of promised work should wait for one more member, after a scan for now:
    /// a frame for the same stage is expected within the least slack, nothing else is ready, and
    /// one batch then ends sooner than this one now and that frame alone.
    pub fn waits_until(&self, scan: &Scan, choice: &Choice) -> Option<Instant> {
        let ready = self.queues.promised().iter().filter(|p| !p.running).count();
        let alone = self.queues.parked().is_empty() && self.queues.waiting().is_empty();
        let all = ready == choice.members.len();
        if !(self.parameters.waiting && alone && all) {
            return None;
        }
        let row = self.tables.row(choice.row);
        let larger = row.size_holding(choice.members.len() + 1)?;
        let members = self.queues.promised().iter().filter(|p| !p.running);
        if members.map(|p| p.batch_max).min()? < row.sizes[larger] {
            return None;
        }
        let tasks = self.tables.tasks().iter().zip(self.rhythms);
        let joining = tasks.filter(|(table, _)| {
            self.tables.row_of(table, crate::StageId(0)) == choice.row
                && table.batch_max >= row.sizes[larger]
        });
        let next = joining.filter_map(|(_, rhythm)| rhythm.next());
        let next = next.filter(|next| *next > self.now).min()?;
        let wait = signed(next, self.now);
        let apart = ns(row.cost[choice.size]) + ns(row.cost_alone());
        let pays = wait + ns(row.cost[larger]) < apart;
        (wait <= scan.least() && pays).then_some(next)
    }
}
