//! When the stall probes look closely: once a device has held actions for a period of theirs, until no frame is open. To wake
//! them takes as long as many a frame, and sooner than that they would see nothing.

use std::sync::Arc;

use punctual_platform::stall::{Attention, PERIOD_NS};

/// The scheduler's end of the probes.
#[derive(Default)]
pub(super) struct Probes {
    attention: Arc<Attention>,
    look: Look,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Look {
    #[default]
    Seldom,
    /// Closely from then on, in ns.
    Due(u64),
    Closely,
}

/// What a stall could delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    None,
    /// Frames are open, and no device holds an action.
    Waits,
    /// A device holds an action.
    Runs,
}

impl Probes {
    pub(super) fn paying(attention: Arc<Attention>) -> Self {
        Self {
            attention,
            look: Look::Seldom,
        }
    }

    /// Before the scheduler's thread sleeps: when it must wake for them; none if it need not.
    pub(super) fn watch(&mut self, work: Work, now_ns: u64) -> Option<u64> {
        if work == Work::None {
            self.rest();
            return None;
        }
        // Not before, as setting a timer is a way out of a virtual machine.
        if self.look == Look::Seldom && work == Work::Runs {
            self.look = Look::Due(now_ns + PERIOD_NS);
        }
        let Look::Due(due_ns) = self.look else {
            return None;
        };
        if now_ns < due_ns {
            return Some(due_ns);
        }
        // It was busy when this was due, so its core did not stand still.
        self.demand(now_ns);
        None
    }

    /// After it has slept.
    pub(super) fn woke(&mut self, now_ns: u64) {
        if let Look::Due(due_ns) = self.look
            && now_ns >= due_ns
        {
            self.demand(due_ns);
        }
    }

    fn demand(&mut self, due_ns: u64) {
        self.attention.demand(due_ns);
        self.look = Look::Closely;
    }

    fn rest(&mut self) {
        if self.look == Look::Closely {
            self.attention.release();
        }
        self.look = Look::Seldom;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_left_alone_by_frames_that_are_answered_within_a_period() {
        let mut probes = Probes::default();
        for at_ns in [0, 1_000_000, 2_000_000] {
            let due_ns = at_ns + PERIOD_NS;
            assert_eq!(probes.watch(Work::Waits, at_ns), None);
            assert_eq!(probes.watch(Work::Runs, at_ns), Some(due_ns));
            probes.woke(due_ns - 1);
            assert_eq!(probes.watch(Work::Waits, due_ns - 1), Some(due_ns));
            assert_eq!(probes.watch(Work::None, due_ns), None);
            assert_eq!(probes.look, Look::Seldom);
        }
    }

    #[test]
    fn work_that_runs_for_a_period_is_watched_until_no_frame_is_open() {
        let mut probes = Probes::default();
        probes.watch(Work::Runs, 0);
        probes.woke(PERIOD_NS);
        assert_eq!(probes.look, Look::Closely);
        assert_eq!(probes.watch(Work::Waits, PERIOD_NS + 1), None);
        assert_eq!(probes.look, Look::Closely);
        probes.watch(Work::None, 3 * PERIOD_NS);
        assert_eq!(probes.look, Look::Seldom);
    }

    #[test]
    fn a_scheduler_that_was_busy_at_the_time_demands_it_before_it_sleeps_again() {
        let mut probes = Probes::default();
        probes.watch(Work::Runs, 0);
        assert_eq!(probes.watch(Work::Runs, 9 * PERIOD_NS), None);
        assert_eq!(probes.look, Look::Closely);
    }
}
