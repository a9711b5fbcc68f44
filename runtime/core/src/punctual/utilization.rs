//! The share of the time that real-time work may take of a partition.
//!
//! An operating system does not let real-time threads have a core for good: what they leave too
//! little of, it takes by force, tens of milliseconds at a time, and then every deadline in them is
//! missed. So the little is left voluntarily and in small pieces: by not going deeper, and by
//! refusing what is beyond the reservations. What was promised is never held back; the plan sees to
//! it that promises alone stay below the share.

use crate::time::{Instant, Nanos};

use crate::config::SHARE_WHOLE as WHOLE;

/// How long a partition that was idle may be busy without a pause, times what is to be left of it.
const EXCESS_MAX: Nanos = Nanos::from_millis(10);

/// What is given up when the share gets short: depth at half of the bucket, so that there is time
/// for more frames; further frames when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voluntary {
    /// Deeper stages.
    Depth,
    /// Requests beyond the reservations.
    Extras,
}

/// A leaky bucket: what busy time exceeds its share by.
#[derive(Clone, Copy, Debug)]
pub struct UtilizationCap {
    /// In thousandths.
    of: u64,
    /// In thousandths of a nanosecond.
    excess: u64,
    /// The end of the last busy span.
    since: Instant,
}

impl UtilizationCap {
    /// At most `of` thousandths of the time.
    pub fn new(of: u16) -> Self {
        Self {
            of: u64::from(of.min(WHOLE)),
            excess: 0,
            since: Instant::ZERO,
        }
    }

    /// Takes over what another partition's excess is above its own.
    pub fn at_least(&mut self, other: &Self) {
        self.excess = self.excess.max(other.excess);
        self.since = self.since.max(other.since);
    }

    /// Real-time work ran.
    pub fn ran(&mut self, from: Instant, to: Instant) {
        self.excess = self.after(from, to);
        self.since = to;
    }

    /// Whether there is nothing left for `work`. `busy_since`: the start of the real-time work that runs now.
    pub fn is_spent(&self, work: Voluntary, now: Instant, busy_since: Option<Instant>) -> bool {
        self.after(busy_since.unwrap_or(now), now) > limit(work)
    }

    /// When there is something left again for `work`, if nothing runs until then.
    pub fn recovers_at(&self, work: Voluntary) -> Instant {
        let over = self.excess.saturating_sub(limit(work));
        self.since + Nanos::new(over.div_ceil(self.of.max(1)))
    }

    /// The excess at `to` when the partition is idle until `from` and busy from there on.
    fn after(&self, from: Instant, to: Instant) -> u64 {
        let idle = from.since(self.since).as_nanos();
        let busy = to.since(from).as_nanos();
        let rest = u64::from(WHOLE) - self.of;
        self.excess
            .saturating_sub(idle.saturating_mul(self.of))
            .saturating_add(busy.saturating_mul(rest))
    }
}

const fn limit(work: Voluntary) -> u64 {
    let full = EXCESS_MAX.as_nanos() * WHOLE as u64;
    match work {
        Voluntary::Depth => full / 2,
        Voluntary::Extras => full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_partition_that_is_always_busy_gives_up_depth_first_then_extras_and_recovers() {
        let mut share = UtilizationCap::new(900);
        let spent = |share: &UtilizationCap, work, ms| share.is_spent(work, at(ms), Some(at(0)));
        assert!(!spent(&share, Voluntary::Depth, 50));
        assert!(spent(&share, Voluntary::Depth, 51));
        assert!(!spent(&share, Voluntary::Extras, 100));
        assert!(spent(&share, Voluntary::Extras, 101));
        share.ran(at(0), at(190));
        // 9 ms too much of the rest, at 0.9 an idle millisecond.
        assert_eq!(share.recovers_at(Voluntary::Extras), at(200));
        assert!(share.is_spent(Voluntary::Extras, at(199), None));
        assert!(!share.is_spent(Voluntary::Extras, at(200), None));
        assert!(share.is_spent(Voluntary::Depth, at(200), None));
    }

    #[test]
    fn in_the_long_run_no_more_than_the_share_is_busy() {
        let mut share = UtilizationCap::new(900);
        let (mut now, mut busy) = (at(0), 0);
        while now < at(10_000) {
            if share.is_spent(Voluntary::Extras, now, None) {
                now = share.recovers_at(Voluntary::Extras);
            } else {
                share.ran(now, now + Nanos::from_millis(2));
                now = now + Nanos::from_millis(2);
                busy += 2;
            }
        }
        assert!((8_990..=9_200).contains(&busy), "{busy} ms of 10 s");
    }

    #[test]
    fn the_whole_is_never_spent() {
        let mut share = UtilizationCap::new(WHOLE);
        share.ran(at(0), at(1_000_000));
        assert!(!share.is_spent(Voluntary::Depth, at(1_000_000), None));
    }
}
