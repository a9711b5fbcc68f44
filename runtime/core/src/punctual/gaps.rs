//! The largest batch of best-effort work that fits the gaps between real-time work.
//!
//! A preempted batch loses its work and starts again from its beginning. One that is longer than each gap
//! would therefore never end (decision 7).

use serde::{Deserialize, Serialize};

/// Best-effort work whose last batches, as many as this, were all preempted makes no use of the gaps.
const PREEMPTED_MAX: u8 = 12;

/// The batch size that the recent gaps of a partition had room for.
///
/// Promises: after a preempted batch, smaller ones follow, down to one request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Gaps {
    places: u8,
    /// Batches that ended since `places` was set.
    used: u8,
    /// Batches preempted since the last that ended.
    preempted: u8,
}

impl Gaps {
    pub const fn new() -> Self {
        Self {
            places: u8::MAX,
            used: 0,
            preempted: 0,
        }
    }

    /// The largest batch to try.
    pub const fn places(&self) -> u8 {
        self.places
    }

    /// Whether best-effort work fits the gaps: one of the last few batches ended.
    pub fn fit(&self) -> bool {
        self.preempted < PREEMPTED_MAX
    }

    /// Records that a batch was preempted: the next ones have at most half of its size.
    pub fn preempted(&mut self, batch: u8) {
        self.places = (batch / 2).max(1);
        self.preempted = self.preempted.saturating_add(1);
        self.used = 0;
    }

    /// Records that a batch ended. After two that ended, batches of twice the size are tried again.
    pub fn completed(&mut self) {
        self.preempted = 0;
        self.used += 1;
        if self.used == 2 {
            // Saturates at no limit, where it starts.
            self.places = self.places.saturating_mul(2);
            self.used = 0;
        }
    }
}
