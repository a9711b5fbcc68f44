//! How fast one client may submit: the generic cell rate algorithm (ITU-T I.371), which is a token
//! bucket without tokens to refill. One number and the clock; nothing allocates, nothing waits.

use punctual_core::Nanos;

/// Lets one submission a period through, and bursts of so many at once.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    period_ns: u64,
    /// How far submissions may run ahead of the period: one less than a burst of them.
    ahead_ns: u64,
    /// When the next would be due if all came evenly.
    due_ns: u64,
}

impl Pace {
    /// For bursts of at least one.
    pub fn new(period: Nanos, burst: u16) -> Self {
        let period_ns = period.as_nanos();
        Self {
            period_ns,
            ahead_ns: period_ns.saturating_mul(u64::from(burst.saturating_sub(1))),
            due_ns: 0,
        }
    }

    /// A newcomer owes nothing for the last client.
    pub fn begin_anew(&mut self) {
        self.due_ns = 0;
    }

    /// Whether a submission may come at `now_ns` (monotonic); if so it has come.
    pub fn admits(&mut self, now_ns: u64) -> bool {
        if self.due_ns > now_ns.saturating_add(self.ahead_ns) {
            return false;
        }
        self.due_ns = self.due_ns.max(now_ns).saturating_add(self.period_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pace() -> Pace {
        Pace::new(Nanos::new(10 * MS), 4)
    }

    #[test]
    fn a_burst_comes_through_and_then_one_a_period() {
        let mut pace = pace();
        let now = 77 * MS;
        let admitted = (0..9).filter(|_| pace.admits(now)).count();
        assert_eq!(admitted, 4);
        assert!(!pace.admits(now + 10 * MS - 1));
        assert!(pace.admits(now + 10 * MS));
        assert!(!pace.admits(now + 10 * MS));
    }

    #[test]
    fn in_the_long_run_nobody_gets_more_than_the_rate() {
        let mut pace = pace();
        let admitted = (0..100_000).filter(|tick| pace.admits(tick * MS / 10));
        assert_eq!(admitted.count(), 1_000 + 3);
    }

    #[test]
    fn silence_earns_no_more_than_a_burst_and_a_newcomer_owes_nothing() {
        let mut pace = pace();
        assert!(pace.admits(0));
        let admitted = (0..9).filter(|_| pace.admits(1_000_000 * MS)).count();
        assert_eq!(admitted, 4);
        pace.begin_anew();
        assert!(pace.admits(1_000_000 * MS));
    }
}
