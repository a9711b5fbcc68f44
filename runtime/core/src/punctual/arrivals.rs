//! When the next frame of a task that comes at regular intervals will be ready, to wait for it
//! where a larger batch is worth it.

use crate::time::{Instant, Nanos};

/// Intervals in a row that must agree before the next is believed.
const AGREEING: u8 = 4;
/// They agree if they differ by at most this part of one.
const TOLERANCE: u64 = 16;

/// The next is given this part of an interval more.
const GRACE: u64 = 64;

/// The intervals at which a task's inputs become ready.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalPredictor {
    last: Instant,
    interval: Nanos,
    agreeing: u8,
}

impl ArrivalPredictor {
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
