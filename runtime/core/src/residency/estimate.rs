//! Estimates how long an action will take from the last measurements.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// The number of measurements that count (Clockwork, section 5.3).
const WINDOW: usize = 10;

/// The 99th percentile of the last ten measurements. Of ten, that is the largest.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Estimate {
    last: [Nanos; WINDOW],
    oldest: u8,
    largest: Nanos,
}

impl Estimate {
    /// Until ten actions were measured, the profiled time replaces the missing measurements.
    pub const fn seeded(profiled: Nanos) -> Self {
        Self {
            last: [profiled; WINDOW],
            oldest: 0,
            largest: profiled,
        }
    }

    /// The expected time of the next action.
    pub const fn value(&self) -> Nanos {
        self.largest
    }

    /// Replaces the oldest measurement.
    pub fn measured(&mut self, took: Nanos) {
        self.last[usize::from(self.oldest)] = took;
        self.oldest = (self.oldest + 1) % WINDOW as u8;
        self.largest = self.last.iter().copied().max().unwrap_or(took);
    }
}

#[cfg(test)]
mod tests {
    use super::{Estimate, Nanos, WINDOW};

    #[test]
    fn a_slow_measurement_counts_for_ten() {
        let mut estimate = Estimate::seeded(Nanos::new(100));
        estimate.measured(Nanos::new(300));
        for _ in 1..WINDOW {
            assert_eq!(estimate.value(), Nanos::new(300));
            estimate.measured(Nanos::new(90));
        }
        assert_eq!(estimate.value(), Nanos::new(300));
        estimate.measured(Nanos::new(90));
        assert_eq!(
            estimate.value(),
            Nanos::new(90),
            "the profile is forgotten too"
        );
    }
}
