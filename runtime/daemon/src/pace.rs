//! How fast one client may submit: the generic cell rate algorithm (ITU-T I.371), which is a token
//! bucket without tokens to refill. One number and the clock; nothing allocates, nothing waits.

use punctual_core::Nanos;

/// Ports read one submission of any client in this time, 40,000 a second: whatever becomes of it, each costs its port and the
/// scheduler some microseconds of a core, and no less urgent thread runs there meanwhile. A task that promises more gets more.
const READ_NS: u64 = 25_000;

/// The longest that a port waits beyond the time that it wants to wait until.
const WAIT_NS: u64 = 2_000_000;

/// Lets one submission a period through, and bursts of limited size at once.
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

    /// How fast a port reads what its client submits, for a task that promises this period and, in all, this number of
    /// clients.
    pub fn of_reads(promised: Option<Nanos>, clients: usize, slots: u16) -> Self {
        let share_ns = READ_NS * clients as u64;
        let twice_ns = promised.map_or(share_ns, |period| period.as_nanos() / 2);
        let period_ns = share_ns.min(twice_ns).max(1);
        Self {
            period_ns,
            // All slots twice; and what comes while a port waits, which it does in milliseconds.
            ahead_ns: (2 * u64::from(slots) * period_ns).max(WAIT_NS),
            due_ns: 0,
        }
    }

    /// A newcomer owes nothing for the last client.
    pub fn begin_anew(&mut self) {
        self.due_ns = 0;
    }

    /// When a submission may come: in the past if one may.
    pub fn next_ns(&self) -> u64 {
        self.due_ns.saturating_sub(self.ahead_ns)
    }

    /// One has come.
    pub fn came(&mut self, now_ns: u64) {
        self.due_ns = self.due_ns.max(now_ns).saturating_add(self.period_ns);
    }

    /// Whether a submission may come at `now_ns` (monotonic); if so it has come.
    pub fn admits(&mut self, now_ns: u64) -> bool {
        let admits = self.next_ns() <= now_ns;
        if admits {
            self.came(now_ns);
        }
        admits
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
    fn all_clients_together_are_read_at_a_bounded_rate_unless_more_was_promised() {
        let reads = |pace: &Pace| 1_000_000_000 / pace.period_ns;
        let slow = Pace::of_reads(Some(Nanos::from_millis(33)), 16, 8);
        assert_eq!(reads(&slow), 40_000 / 16);
        assert_eq!(slow.ahead_ns, 16 * slow.period_ns, "all slots twice");
        let fast = Pace::of_reads(Some(Nanos::from_micros(100)), 16, 8);
        assert_eq!(reads(&fast), 20_000, "twice what was promised");
        assert_eq!(fast.ahead_ns, WAIT_NS);
        assert_eq!(reads(&Pace::of_reads(None, 1, 8)), 40_000);
    }

    #[test]
    fn it_says_when_the_next_may_come() {
        let mut pace = pace();
        let now = 77 * MS;
        assert!(pace.next_ns() <= now);
        (0..4).for_each(|_| pace.came(now));
        assert_eq!(pace.next_ns(), now + 10 * MS);
        assert!(!pace.admits(pace.next_ns() - 1));
        assert!(pace.admits(pace.next_ns()));
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
