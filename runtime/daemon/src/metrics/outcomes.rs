//! How submissions ended, by task and by client.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual_core::{Failure, Rejection, Verdict};

use crate::messages::Refused;
use crate::report::{FailedReport, RejectedReport};

/// How a submission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    OnTime,
    Late,
    LateOnArrival,
    NoSlack,
    QueueFull,
    Draining,
    Superseded,
    Shedding,
    CaptureInFuture,
    Quota,
    NoArea,
    NotReady,
    FanOut,
    Device,
    Payload,
    ClientGone,
    Shed,
    NotFinite,
    Vector,
    Starved,
}

const COUNT: usize = Outcome::Starved as usize + 1;

impl Outcome {
    pub const ALL: [Self; COUNT] = [
        Self::OnTime,
        Self::Late,
        Self::LateOnArrival,
        Self::NoSlack,
        Self::QueueFull,
        Self::Draining,
        Self::Superseded,
        Self::Shedding,
        Self::CaptureInFuture,
        Self::Quota,
        Self::NoArea,
        Self::NotReady,
        Self::FanOut,
        Self::Device,
        Self::Payload,
        Self::ClientGone,
        Self::Shed,
        Self::NotFinite,
        Self::Vector,
        Self::Starved,
    ];

    /// Why a frame has no answer, in words; none if it has one, or if its client or the daemon is about to end.
    pub const fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::OnTime | Self::Late | Self::Draining | Self::ClientGone => return None,
            Self::LateOnArrival => "it came too late for its deadline",
            Self::NoSlack => "it would have made promised frames late",
            Self::QueueFull => "its task's queue was full",
            Self::Superseded => "a newer frame took its place",
            Self::Shedding => "best-effort work was given up",
            Self::CaptureInFuture => "its capture time was in the future",
            Self::Quota => "its client sends faster than rate_max_hz",
            Self::NoArea => "its client holds all areas of outputs",
            Self::NotReady => "its network was not loaded yet",
            Self::FanOut => "its frame had more boxes than `crops.at_most`",
            Self::Device => "the device failed",
            Self::Payload => "its payload could not be read",
            Self::Shed => "it was dropped after an overrun",
            Self::NotFinite => "a value of its tensor is not finite",
            Self::Vector => "a number of its vectors is out of range",
            Self::Starved => "the threads that ran it got no processor",
        })
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::OnTime => Self::OnTime,
            Verdict::Late => Self::Late,
            Verdict::Rejected(Rejection::LateOnArrival) => Self::LateOnArrival,
            Verdict::Rejected(Rejection::NoSlack) => Self::NoSlack,
            Verdict::Rejected(Rejection::QueueFull) => Self::QueueFull,
            Verdict::Rejected(Rejection::Draining) => Self::Draining,
            Verdict::Rejected(Rejection::Superseded) => Self::Superseded,
            Verdict::Rejected(Rejection::Shedding) => Self::Shedding,
            Verdict::Rejected(Rejection::NotReady) => Self::NotReady,
            Verdict::Failed(Failure::Device) => Self::Device,
            Verdict::Failed(Failure::Payload) => Self::Payload,
            Verdict::Failed(Failure::ClientGone) => Self::ClientGone,
            Verdict::Failed(Failure::Shed) => Self::Shed,
            Verdict::Failed(Failure::NotFinite) => Self::NotFinite,
            Verdict::Failed(Failure::Vector) => Self::Vector,
            Verdict::Failed(Failure::Starved) => Self::Starved,
        }
    }
}

impl From<Refused> for Outcome {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::CaptureInFuture => Self::CaptureInFuture,
            Refused::Draining => Self::Draining,
            Refused::Quota => Self::Quota,
            Refused::NoArea => Self::NoArea,
        }
    }
}

/// Counts of submissions, and of how they ended. A submission is counted before the outcome that ends it.
#[derive(Debug, Default)]
pub struct Outcomes {
    // Relaxed everywhere: counts that order nothing else.
    submitted: AtomicU64,
    ended: [AtomicU64; COUNT],
}

impl Outcomes {
    pub fn submitted(&self) {
        self.submitted.fetch_add(1, Relaxed);
    }

    /// Counts the end of a submission; true if it is the first that ended so.
    pub fn ended(&self, outcome: Outcome) -> bool {
        self.ended[outcome as usize].fetch_add(1, Relaxed) == 0
    }

    /// For the next client in a slot. While none has it, nothing counts.
    pub fn begin_anew(&self) {
        self.submitted.store(0, Relaxed);
        for count in &self.ended {
            count.store(0, Relaxed);
        }
    }

    /// Outcomes before submissions: a submission between the two reads counts as open, never as negative.
    pub fn now(&self) -> Counted {
        let ended = std::array::from_fn(|outcome| self.ended[outcome].load(Relaxed));
        Counted {
            submitted: self.submitted.load(Relaxed),
            ended,
        }
    }
}

/// [`Outcomes`] at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub submitted: u64,
    ended: [u64; COUNT],
}

impl Counted {
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.ended[outcome as usize]
    }

    /// Submissions without an outcome.
    pub fn open(&self) -> u64 {
        self.submitted.saturating_sub(self.ended.iter().sum())
    }

    pub fn rejected(&self) -> RejectedReport {
        RejectedReport {
            late_on_arrival: self.of(Outcome::LateOnArrival),
            no_slack: self.of(Outcome::NoSlack),
            queue_full: self.of(Outcome::QueueFull),
            draining: self.of(Outcome::Draining),
            superseded: self.of(Outcome::Superseded),
            shedding: self.of(Outcome::Shedding),
            invalid: self.of(Outcome::CaptureInFuture),
            quota: self.of(Outcome::Quota),
            no_area: self.of(Outcome::NoArea),
            not_ready: self.of(Outcome::NotReady),
            fan_out: self.of(Outcome::FanOut),
        }
    }

    pub fn failed(&self) -> FailedReport {
        FailedReport {
            device: self.of(Outcome::Device),
            payload: self.of(Outcome::Payload),
            client_gone: self.of(Outcome::ClientGone),
            shed: self.of(Outcome::Shed),
            not_finite: self.of(Outcome::NotFinite),
            vector: self.of(Outcome::Vector),
            starved: self.of(Outcome::Starved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_counted_once_and_the_first_of_each_is_known() {
        let outcomes = Outcomes::default();
        for (at, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, at);
            outcomes.submitted();
            outcomes.submitted();
            assert!(outcomes.ended(outcome));
            assert!(!outcomes.ended(outcome));
        }
        outcomes.submitted();
        let counted = outcomes.now();
        let all = COUNT as u64;
        assert_eq!((counted.submitted, counted.open()), (2 * all + 1, 1));
        let answered = counted.of(Outcome::OnTime) + counted.of(Outcome::Late);
        let others = counted.rejected().total() + counted.failed().total();
        assert_eq!(answered + others, 2 * all);
        outcomes.begin_anew();
        assert_eq!(outcomes.now(), Counted::default());
    }
}
