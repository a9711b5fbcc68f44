//! Owners come first: what a home has lost because work of others was on its compute units.
//!
//! A start on a place is tested against promises only. In overload it could still cost an owner depth and
//! further frames. So a home lends only while it has lost little by it, beyond what its own work has used of
//! others. That bounds its loss in the long run to a part of its time.

use serde::{Deserialize, Serialize};

use crate::time::{Instant, Nanos};

/// How much more a home may have lost than it borrowed before it stops lending.
const LOST_MAX: Nanos = Nanos::from_millis(60);

/// A loss is forgotten at this part of the time. In the long run a home loses at most this part of its time.
const FORGOTTEN: u64 = 256;

/// A leaky bucket of lost work, in the time that the work takes on the home.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Lender {
    lost: Nanos,
    /// When `lost` was last brought up to date.
    at: Instant,
    /// Work of the home waits for work of others.
    waits: bool,
    /// The last time at which it did.
    waited: Instant,
}

impl Lender {
    /// Records whether work of the home waits now for work of others on its compute units.
    pub fn waits(&mut self, waits: bool, now: Instant) {
        if waits || self.waits {
            self.waited = now;
        }
        self.waits = waits;
    }

    /// Whether work of the home has waited for work of others since a time.
    pub fn has_waited_since(&self, time: Instant) -> bool {
        self.waits || self.waited > time
    }

    /// Records that work of the home was not done: a deeper stage, or a frame that was rejected.
    pub fn lost(&mut self, work: Nanos, now: Instant) {
        self.lost = self.lost_by(now) + work;
        self.at = now;
    }

    /// Records that work of the home used compute units of others.
    pub fn borrowed(&mut self, time: Nanos, now: Instant) {
        self.lost = self.lost_by(now).saturating_sub(time);
        self.at = now;
    }

    /// Whether the home lends its compute units.
    pub fn lends(&self, now: Instant) -> bool {
        self.lost_by(now) <= LOST_MAX
    }

    fn lost_by(&self, now: Instant) -> Nanos {
        let forgotten = now.since(self.at).as_nanos() / FORGOTTEN;
        self.lost.saturating_sub(Nanos::new(forgotten))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_home_that_loses_and_never_borrows_stops_lending_and_starts_again_when_that_is_forgotten() {
        let mut lender = Lender::default();
        lender.lost(LOST_MAX, at(0));
        assert!(lender.lends(at(0)));
        lender.lost(MS, at(0));
        assert!(!lender.lends(at(0)));
        assert!(!lender.lends(at(FORGOTTEN - 1)));
        assert!(lender.lends(at(FORGOTTEN)));
    }

    #[test]
    fn what_a_home_borrows_makes_up_for_what_it_loses() {
        let mut lender = Lender::default();
        for ms in 0..1_000 {
            lender.lost(MS, at(ms));
            lender.borrowed(MS, at(ms));
        }
        assert!(lender.lends(at(1_000)));
    }

    #[test]
    fn a_wait_counts_for_the_requests_that_were_there() {
        let mut lender = Lender::default();
        lender.waits(true, at(5));
        assert!(lender.has_waited_since(at(9)));
        lender.waits(false, at(8));
        assert!(lender.has_waited_since(at(7)));
        assert!(!lender.has_waited_since(at(8)));
    }
}
