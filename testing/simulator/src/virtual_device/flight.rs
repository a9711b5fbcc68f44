//! An action that runs, or waits for its window.

use punctual_core::{Infer, Instant, Nanos, Units};

use super::timing::{Course, Ending};

/// Nothing slows an action down that has its compute units for itself.
pub(super) const FULL_PACE: u64 = 1000;

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) infer: Infer,
    pub(super) units: Units,
    pub(super) started: Instant,
    pub(super) ending: Ending,
    /// Told to stop; `ends` is then when it does.
    pub(super) preempted: bool,
    /// When it ends if nothing else starts or ends on its units.
    pub(super) ends: Instant,
    /// Work left at `since`, in time at full pace.
    left: Nanos,
    since: Instant,
    /// Thousandths by which others on its units stretch its time.
    pace: u64,
}

impl Flight {
    pub(super) fn new(infer: Infer, units: Units, started: Instant, course: Course) -> Self {
        Self {
            infer,
            units,
            started,
            ending: course.ending,
            preempted: false,
            ends: started + course.took,
            left: course.took,
            since: started,
            pace: FULL_PACE,
        }
    }

    /// Whether it has begun to compute at `now`.
    pub(super) fn begun(&self, now: Instant) -> bool {
        self.started <= now
    }

    /// From `now` on its time is stretched to `pace` thousandths.
    pub(super) fn set_pace(&mut self, now: Instant, pace: u64) {
        if pace == self.pace || self.preempted {
            return;
        }
        let done = now.since(self.since).as_nanos().saturating_mul(FULL_PACE) / self.pace;
        self.left = self.left.saturating_sub(Nanos::new(done));
        self.since = now.max(self.since);
        self.pace = pace;
        let stretched = (u128::from(self.left.as_nanos()) * u128::from(pace)).div_ceil(1000);
        self.ends = self.since + Nanos::new(u64::try_from(stretched).unwrap_or(u64::MAX));
    }

    /// It stops at `at`, unless it ends before.
    pub(super) fn stop(&mut self, at: Instant) {
        if !self.preempted && at < self.ends {
            self.preempted = true;
            self.ends = at;
        }
    }
}
