//! When a frame was captured: by the driver's time stamp, as far as it can be true, or by its receipt.

use clap::ValueEnum;
use punctual_platform::v4l2::{CapturedFrame, StampClock, TimeStamp};

/// The greatest age of a frame at its receipt, in ns. The 32 buffers that a driver may have are full in 8 s at 4 frames a
/// second, and none of them is older.
const AGE_NS_MAX: u64 = 10_000_000_000;

/// What a frame's capture time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stamp {
    /// The driver's time stamp.
    Capture,
    /// The moment at which the driver handed the frame over.
    Receipt,
}

/// Why a time stamp cannot be when its frame was captured.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum StampFault {
    #[error("is zero")]
    Zero,
    #[error("is of a clock that the driver does not name")]
    UnknownClock,
    #[error("is a copy of another device's, of any clock")]
    Copied,
    #[error("lies {seconds:.3} s ahead of CLOCK_MONOTONIC: it may be of another clock")]
    Ahead { seconds: f64 },
    #[error("lies {seconds:.3} s before the frame's receipt: it may be of another clock")]
    Old { seconds: f64 },
    #[error("does not lie after that of the frame before")]
    Repeated,
}

impl StampFault {
    /// In the tally.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zero => "stamp_zero",
            Self::UnknownClock => "stamp_unknown_clock",
            Self::Copied => "stamp_copied",
            Self::Ahead { .. } => "stamp_ahead",
            Self::Old { .. } => "stamp_old",
            Self::Repeated => "stamp_repeated",
        }
    }
}

/// Checks each stamp, and against the one before.
#[derive(Debug)]
pub struct Stamps {
    by: Stamp,
    /// The last one that could be true.
    last_ns: u64,
}

impl Stamps {
    pub const fn new(by: Stamp) -> Self {
        Self { by, last_ns: 0 }
    }

    /// When the frame was captured. A stamp that cannot be true is not replaced: the frame would seem younger than it is,
    /// and its answer to be on time.
    pub fn capture_ns(&mut self, frame: &CapturedFrame<'_>) -> Result<u64, StampFault> {
        match self.by {
            Stamp::Receipt => Ok(frame.received_ns),
            Stamp::Capture => self.credible(frame.stamp, frame.received_ns),
        }
    }

    fn credible(&mut self, stamp: TimeStamp, received_ns: u64) -> Result<u64, StampFault> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        if stamp.ns == 0 {
            return Err(StampFault::Zero);
        }
        match stamp.clock {
            StampClock::Monotonic => {}
            StampClock::Copied => return Err(StampFault::Copied),
            StampClock::Unknown => return Err(StampFault::UnknownClock),
        }
        if stamp.ns > received_ns {
            let seconds = seconds(stamp.ns - received_ns);
            return Err(StampFault::Ahead { seconds });
        }
        if received_ns - stamp.ns > AGE_NS_MAX {
            let seconds = seconds(received_ns - stamp.ns);
            return Err(StampFault::Old { seconds });
        }
        if stamp.ns <= self.last_ns {
            return Err(StampFault::Repeated);
        }
        self.last_ns = stamp.ns;
        Ok(stamp.ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: u64 = 5_000_000_000_000;

    fn checked(stamps: &mut Stamps, ns: u64) -> Result<u64, StampFault> {
        let clock = StampClock::Monotonic;
        stamps.credible(TimeStamp { clock, ns }, NOW_NS)
    }

    #[test]
    fn a_stamp_from_just_now_to_ten_seconds_ago_is_taken_and_one_beyond_is_not() {
        let fresh = || Stamps::new(Stamp::Capture);
        for ns in [NOW_NS, NOW_NS - 1, NOW_NS - AGE_NS_MAX] {
            assert_eq!(checked(&mut fresh(), ns), Ok(ns));
        }
        let ahead = checked(&mut fresh(), NOW_NS + 1_500_000_000);
        assert_eq!(ahead, Err(StampFault::Ahead { seconds: 1.5 }));
        let old = checked(&mut fresh(), NOW_NS - 12_000_000_000);
        assert_eq!(old, Err(StampFault::Old { seconds: 12.0 }));
        assert_eq!(checked(&mut fresh(), 0), Err(StampFault::Zero));
    }

    #[test]
    fn a_stamp_of_another_clock_is_not_taken_whatever_it_is() {
        for (clock, fault) in [
            (StampClock::Unknown, StampFault::UnknownClock),
            (StampClock::Copied, StampFault::Copied),
        ] {
            let stamp = TimeStamp { clock, ns: NOW_NS };
            let judged = Stamps::new(Stamp::Capture).credible(stamp, NOW_NS);
            assert_eq!(judged, Err(fault));
        }
    }

    #[test]
    fn a_stamp_must_lie_after_the_last_one_that_could_be_true() {
        let mut stamps = Stamps::new(Stamp::Capture);
        assert_eq!(checked(&mut stamps, NOW_NS - 20), Ok(NOW_NS - 20));
        for ns in [NOW_NS - 20, NOW_NS - 21] {
            assert_eq!(checked(&mut stamps, ns), Err(StampFault::Repeated));
        }
        assert!(checked(&mut stamps, u64::MAX).is_err());
        assert_eq!(checked(&mut stamps, NOW_NS - 19), Ok(NOW_NS - 19));
    }
}
