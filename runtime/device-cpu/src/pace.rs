//! How fast a start goes on while stages run: what it copies and derives takes memory bandwidth from them.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_device::LoadRate;

/// What a start writes while stages run one after the other without a gap, where the manifest does not say. Chosen by
/// measuring: `docs/results/cold-start.md`.
pub(crate) const BESIDE_STAGES: LoadRate = LoadRate::of_mb_per_s(NonZeroU32::new(200).unwrap());

/// How often a start that waits looks whether stages still run.
const LOOK_NS: u64 = 100_000;

/// How many stages run on a device right now. Leaders count; a start looks.
#[derive(Debug, Default)]
pub(crate) struct Activity(AtomicU32);

/// A stage that runs, until it is dropped.
pub(crate) struct Running<'a>(&'a Activity);

impl Activity {
    // Relaxed throughout: a hint when to write, nothing hangs on its order.
    pub(crate) fn begin(&self) -> Running<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Running(self)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// When the next piece of a start may be written.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: LoadRate,
    /// Also if stages run.
    due_ns: u64,
}

impl Pace {
    pub(crate) const fn new(rate: LoadRate) -> Self {
        Self { rate, due_ns: 0 }
    }

    /// At which time to ask again; none if a piece may be written now.
    pub(crate) fn waits(&self, now_ns: u64, activity: &Activity) -> Option<u64> {
        let waits = now_ns < self.due_ns && !activity.is_idle();
        waits.then(|| self.due_ns.min(now_ns + LOOK_NS))
    }

    /// A piece of `bytes` was begun.
    pub(crate) fn wrote(&mut self, begun_ns: u64, bytes: usize) {
        self.due_ns = self.rate.due_ns(begun_ns, bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is due within a millisecond.
    const PIECE: usize = 200_000;

    #[test]
    fn pieces_follow_each_other_at_once_while_no_stage_runs() {
        let (mut pace, activity) = (Pace::new(BESIDE_STAGES), Activity::default());
        for now_ns in 0..100 {
            assert_eq!(pace.waits(now_ns, &activity), None);
            pace.wrote(now_ns, PIECE);
        }
    }

    #[test]
    fn beside_stages_a_piece_waits_for_a_gap_or_until_its_bytes_are_due() {
        let (mut pace, activity) = (Pace::new(BESIDE_STAGES), Activity::default());
        pace.wrote(0, PIECE);
        let (one, other) = (activity.begin(), activity.begin());
        assert_eq!(pace.waits(0, &activity), Some(LOOK_NS));
        assert_eq!(pace.waits(999_999, &activity), Some(1_000_000));
        assert_eq!(pace.waits(1_000_000, &activity), None, "its bytes are due");
        drop(one);
        assert_eq!(pace.waits(1, &activity), Some(1 + LOOK_NS));
        drop(other);
        assert_eq!(pace.waits(1, &activity), None, "a gap");
    }

    #[test]
    fn a_rate_that_is_asked_for_counts_instead() {
        let twice = NonZeroU32::new(400).expect("not 0");
        let (mut pace, activity) = (Pace::new(LoadRate::of_mb_per_s(twice)), Activity::default());
        let _running = activity.begin();
        pace.wrote(0, PIECE);
        assert!(pace.waits(499_999, &activity).is_some());
        assert_eq!(pace.waits(500_000, &activity), None);
    }
}
