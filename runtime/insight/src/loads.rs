//! How much of the time a partition runs stages.

use punctual_core::{Instant, Nanos};

/// Over how long a load is counted.
pub(crate) const WINDOW: Nanos = Nanos::from_millis(100);

/// A load from a time on, in percent of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) from: Instant,
    pub(crate) percent: u8,
}

/// The load of one partition, window by window, from its first run on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    /// Which window is being counted, and how long it was busy.
    window: u64,
    busy_ns: u64,
    /// Where the last run ended: what overlaps counts once.
    end_ns: u64,
}

impl Busy {
    pub(crate) fn since(first: Instant) -> Self {
        Self {
            window: window_of(first.as_nanos()),
            busy_ns: 0,
            end_ns: 0,
        }
    }

    /// Counts a run; the loads that are known then go to `sink`. Runs come in the order of their ends.
    pub(crate) fn ran(&mut self, from: Instant, to: Instant, mut sink: impl FnMut(Load)) {
        let from = from.as_nanos().max(self.end_ns);
        let to = to.as_nanos();
        if to <= from {
            return;
        }
        self.end_ns = to;
        self.pass(window_of(from), 0, &mut sink);
        let last = window_of(to);
        if last > self.window {
            let within = start_of(self.window + 1) - from;
            self.busy_ns += within;
            self.pass(last, WINDOW.as_nanos(), &mut sink);
            self.busy_ns = to - start_of(last);
        } else {
            self.busy_ns += to - from;
        }
    }

    /// The load of the last window, and none behind it.
    pub(crate) fn finish(mut self, mut sink: impl FnMut(Load)) {
        self.pass(self.window.saturating_add(1), 0, &mut sink);
        sink(load(self.window, 0));
    }

    /// Goes on to a later window; each between was busy for `between_ns`. One load stands for all of these.
    fn pass(&mut self, window: u64, between_ns: u64, sink: &mut impl FnMut(Load)) {
        if window <= self.window {
            return;
        }
        sink(load(self.window, self.busy_ns));
        if window > self.window + 1 {
            sink(load(self.window + 1, between_ns));
        }
        self.window = window;
        self.busy_ns = 0;
    }
}

fn window_of(ns: u64) -> u64 {
    ns / WINDOW.as_nanos()
}

fn start_of(window: u64) -> u64 {
    window.saturating_mul(WINDOW.as_nanos())
}

fn load(window: u64, busy_ns: u64) -> Load {
    Load {
        from: Instant::from_nanos(start_of(window)),
        percent: (busy_ns.min(WINDOW.as_nanos()) * 100 / WINDOW.as_nanos()) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(runs: &[(u64, u64)]) -> Vec<(u64, u8)> {
        let at = |ms: u64| Instant::ZERO + Nanos::from_millis(ms);
        let mut found = Vec::new();
        let mut busy = Busy::since(at(runs[0].0));
        let mut sink = |load: Load| found.push((load.from.as_nanos() / 1_000_000, load.percent));
        for (from, to) in runs {
            busy.ran(at(*from), at(*to), &mut sink);
        }
        busy.finish(&mut sink);
        found
    }

    #[test]
    fn a_run_counts_in_each_window_that_it_is_in() {
        assert_eq!(
            loads(&[(10, 30), (90, 120), (450, 460)]),
            [(0, 30), (100, 20), (200, 0), (400, 10), (500, 0)]
        );
    }

    #[test]
    fn there_is_no_load_before_the_first_run() {
        assert_eq!(
            loads(&[(9_950, 10_000)]),
            [(9_900, 50), (10_000, 0), (10_100, 0)]
        );
    }

    #[test]
    fn a_run_of_many_windows_is_all_of_those_between() {
        assert_eq!(
            loads(&[(50, 1_025)]),
            [(0, 50), (100, 100), (1_000, 25), (1_100, 0)]
        );
    }

    #[test]
    fn what_overlaps_counts_once_and_times_at_the_end_of_all_time_are_no_trouble() {
        assert_eq!(loads(&[(0, 50), (20, 60)]), [(0, 60), (100, 0)]);
        let mut busy = Busy::since(Instant::ZERO);
        let end = Instant::from_nanos(u64::MAX);
        busy.ran(Instant::ZERO, end, |_| {});
        busy.ran(end, end, |_| {});
        busy.finish(|_| {});
    }
}
