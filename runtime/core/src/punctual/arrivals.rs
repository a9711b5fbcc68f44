//! Predicts when the next input of a task will be ready, if its frames come at regular intervals. The
//! policy then waits for it where one larger batch ends sooner than two (docs/proof.md, row "waiting").

use serde::{Deserialize, Serialize};

use crate::time::{Instant, Nanos};

/// The number of successive intervals that must agree before the next is predicted. Random arrivals agree
/// seldom, so the policy does not wait for them.
const AGREEING: u8 = 4;
/// Two intervals agree if they differ by at most this part of one.
const TOLERANCE: u64 = 16;

/// The prediction allows this part of an interval for a frame that comes a little late.
const GRACE: u64 = 64;

/// The intervals at which a task's inputs become ready.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ArrivalPredictor {
    last: Instant,
    interval: Nanos,
    agreeing: u8,
}

impl ArrivalPredictor {
    /// Records that an input is ready.
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

    /// The time by which the next input should be ready; `None` while the intervals do not agree.
    pub fn next(&self) -> Option<Instant> {
        let grace = Nanos::new(self.interval.as_nanos() / GRACE);
        (self.agreeing >= AGREEING).then(|| self.last + self.interval + grace)
    }
}
