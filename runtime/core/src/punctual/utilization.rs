//! The part of a partition's time that real-time work may use.
//!
//! Linux throttles real-time threads that use a core all the time. It stops them for up to 50 ms a second,
//! and they miss every deadline in that time (decision 6). So the policy leaves the operating system its part
//! voluntarily, in small pieces: it runs no deeper stages, and it rejects requests beyond the reservations.
//! It never delays promised work. The plan ensures that promised work alone stays below the limit.

use serde::{Deserialize, Serialize};

use crate::time::{Instant, Nanos};

use crate::config::SHARE_WHOLE as WHOLE;

/// The size of the bucket. A partition that was idle may be busy for this time divided by the part that the
/// operating system gets: at nine tenths, for 100 ms.
const EXCESS_MAX: Nanos = Nanos::from_millis(10);

/// The work that the policy gives up when little time is left. It gives up deeper stages at half of the
/// bucket, so that the other half serves more frames. It gives up further frames when the bucket is full
/// (decision 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voluntary {
    /// Deeper stages.
    Depth,
    /// Requests beyond the reservations.
    Extras,
}

/// A leaky bucket: the time by which busy time exceeds its limit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct UtilizationCap {
    /// The limit, in thousandths of the time.
    of: u64,
    /// The content of the bucket, in thousandths of a nanosecond.
    excess: u64,
    /// The end of the last busy span.
    since: Instant,
}

impl UtilizationCap {
    /// A limit of `of` thousandths of the time.
    #[must_use]
    pub fn new(of: u16) -> Self {
        Self {
            of: u64::from(of.min(WHOLE)),
            excess: 0,
            since: Instant::ZERO,
        }
    }

    /// Records that real-time work ran.
    pub fn ran(&mut self, from: Instant, to: Instant) {
        self.excess = self.after(from, to);
        self.since = self.since.max(to);
    }

    /// Whether no time is left for `work`. `busy_since`: the start of the real-time work that runs now.
    #[must_use]
    pub fn is_spent(&self, work: Voluntary, now: Instant, busy_since: Option<Instant>) -> bool {
        self.after(busy_since.unwrap_or(now), now) > limit(work)
    }

    /// The time at which time is left again for `work`, if no real-time work runs until then.
    #[must_use]
    pub fn recovers_at(&self, work: Voluntary) -> Instant {
        let over = self.excess.saturating_sub(limit(work));
        // An idle nanosecond takes `of` thousandths out of the bucket, as in `after`.
        self.since + Nanos::new(over.div_ceil(self.of.max(1)))
    }

    /// The excess at `to`, when the partition is idle until `from` and busy from then on.
    fn after(&self, from: Instant, to: Instant) -> u64 {
        // Work on several compute units of the partition at once counts once.
        let from = from.max(self.since);
        let idle = from.since(self.since).as_nanos();
        let busy = to.since(from).as_nanos();
        let rest = u64::from(WHOLE) - self.of;
        // Saturates at 0: a long idle time saves no more than an empty bucket.
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
        let mut cap = UtilizationCap::new(900);
        let spent = |cap: &UtilizationCap, work, ms| cap.is_spent(work, at(ms), Some(at(0)));
        assert!(!spent(&cap, Voluntary::Depth, 50));
        assert!(spent(&cap, Voluntary::Depth, 51));
        assert!(!spent(&cap, Voluntary::Extras, 100));
        assert!(spent(&cap, Voluntary::Extras, 101));
        cap.ran(at(0), at(190));
        // 190 ms leave 19 ms in the bucket, 9 more than it holds; an idle millisecond takes out 0.9.
        assert_eq!(cap.recovers_at(Voluntary::Extras), at(200));
        assert!(cap.is_spent(Voluntary::Extras, at(199), None));
        assert!(!cap.is_spent(Voluntary::Extras, at(200), None));
        assert!(cap.is_spent(Voluntary::Depth, at(200), None));
    }

    #[test]
    fn in_the_long_run_no_more_than_the_share_is_busy() {
        let mut cap = UtilizationCap::new(900);
        let (mut now, mut busy) = (at(0), 0);
        while now < at(10_000) {
            if cap.is_spent(Voluntary::Extras, now, None) {
                now = cap.recovers_at(Voluntary::Extras);
            } else {
                cap.ran(now, now + Nanos::from_millis(2));
                now = now + Nanos::from_millis(2);
                busy += 2;
            }
        }
        assert!((8_990..=9_200).contains(&busy), "{busy} ms of 10 s");
    }

    #[test]
    fn the_whole_is_never_spent() {
        let mut cap = UtilizationCap::new(WHOLE);
        cap.ran(at(0), at(1_000_000));
        assert!(!cap.is_spent(Voluntary::Depth, at(1_000_000), None));
    }
}
