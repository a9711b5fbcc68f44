//! How long an action will take: by what the last ones took.

use crate::time::Nanos;

/// Measurements kept (Clockwork, section 5.3).
const KEPT: usize = 10;

/// The 99th percentile of the last ten measurements, which of ten is the largest.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    last: [Nanos; KEPT],
    oldest: u8,
    largest: Nanos,
}

impl Estimate {
    /// Until ten actions were measured, the profile stands for those that are missing.
    pub const fn seeded(profiled: Nanos) -> Self {
        Self {
            last: [profiled; KEPT],
            oldest: 0,
            largest: profiled,
        }
    }

    /// What to expect of the next one.
    pub const fn value(&self) -> Nanos {
        self.largest
    }

    /// Forgets the oldest measurement for this one.
    pub fn measured(&mut self, took: Nanos) {
        self.last[usize::from(self.oldest)] = took;
        self.oldest = (self.oldest + 1) % KEPT as u8;
        self.largest = self.last.iter().copied().max().unwrap_or(took);
    }
}

#[cfg(test)]
mod tests {
    use super::{Estimate, KEPT, Nanos};

    #[test]
    fn a_slow_measurement_counts_for_ten() {
        let mut estimate = Estimate::seeded(Nanos::new(100));
        estimate.measured(Nanos::new(300));
        for _ in 1..KEPT {
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
