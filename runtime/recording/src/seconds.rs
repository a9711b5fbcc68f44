//! Tallies of tasks by the second.

use std::collections::VecDeque;

use punctual_core::{Event, Instant, Nanos, TaskId, Verdict};

use crate::entry::Step;
use crate::frames::{Follower, Frame};

const SECOND: u64 = 1_000_000_000;

/// The seconds that are not over yet: frames come behind their verdicts.
#[derive(Debug)]
pub struct Seconds {
    now: Instant,
    tasks: usize,
    /// By time.
    open: VecDeque<Second>,
}

/// A second of the scheduler's clock.
#[derive(Debug)]
pub struct Second {
    number: u64,
    /// By task.
    tallies: Vec<Tally>,
}

/// A task in a second.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    pub rejected: u64,
    pub failed: u64,
    /// Of its answers, added up.
    exits: u64,
    latencies: Vec<Nanos>,
    pub margin_min_ns: Option<i64>,
}

/// The latencies of a task's answers in a second.
pub struct Latencies(Vec<Nanos>);

impl Seconds {
    pub fn of(tasks: usize) -> Self {
        Self {
            now: Instant::ZERO,
            tasks,
            open: VecDeque::new(),
        }
    }

    pub fn step(&mut self, step: &Step) {
        self.now = step.now;
        let second = self.at(step.now);
        if let Event::Arrived(arrival) = &step.event
            && let Some(tally) = second.tallies.get_mut(arrival.task.index())
        {
            tally.submitted += 1;
        }
    }

    pub fn frame(&mut self, frame: &Frame) {
        let task = frame.submission.id.task;
        let second = self.at(frame.decided);
        if let Some(tally) = second.tallies.get_mut(task.index()) {
            tally.count(frame);
        }
    }

    /// The seconds whose frames have all come.
    pub fn over(&mut self) -> Vec<Second> {
        let now = self.now;
        let is_over = |second: &Second| now.since(second.until()) > Follower::PATIENCE;
        let over = self
            .open
            .iter()
            .take_while(|second| is_over(second))
            .count();
        self.open.drain(..over).collect()
    }

    pub fn finish(self) -> VecDeque<Second> {
        self.open
    }

    fn at(&mut self, time: Instant) -> &mut Second {
        let number = time.as_nanos() / SECOND;
        let at = self.open.partition_point(|second| second.number < number);
        if self
            .open
            .get(at)
            .is_none_or(|second| second.number != number)
        {
            let tallies = vec![Tally::default(); self.tasks];
            self.open.insert(at, Second { number, tallies });
        }
        &mut self.open[at]
    }
}

impl Second {
    pub fn from(&self) -> Instant {
        Instant::from_nanos(self.number * SECOND)
    }

    pub fn until(&self) -> Instant {
        self.from() + Nanos::new(SECOND)
    }

    pub fn tallies(&self) -> impl Iterator<Item = (TaskId, &Tally)> {
        (0..).map(TaskId).zip(&self.tallies)
    }
}

impl Tally {
    fn count(&mut self, frame: &Frame) {
        match frame.reply.verdict {
            Verdict::OnTime => self.on_time += 1,
            Verdict::Late => self.late += 1,
            Verdict::Rejected(_) => self.rejected += 1,
            Verdict::Failed(_) => self.failed += 1,
        }
        if let Some((exit, _)) = frame.reply.answer {
            self.exits += u64::from(exit.0);
        }
        self.latencies.extend(frame.latency());
        if let Some(margin) = frame.margin_ns() {
            let least = self.margin_min_ns.unwrap_or(margin);
            self.margin_min_ns = Some(least.min(margin));
        }
    }

    pub fn depth_mean(&self) -> Option<f64> {
        let answers = self.on_time + self.late;
        (answers > 0).then(|| self.exits as f64 / answers as f64)
    }

    pub fn latencies(&self) -> Latencies {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        Latencies(latencies)
    }
}

impl Latencies {
    /// The least of them that is not exceeded by this share of all, in hundredths.
    pub fn quantile(&self, hundredths: usize) -> Option<Nanos> {
        let rank = (self.0.len() * hundredths).div_ceil(100);
        self.0.get(rank.max(1) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let of = |count: u64| Latencies((1..=count).map(Nanos::new).collect());
        assert_eq!(of(0).quantile(50), None);
        assert_eq!(of(1).quantile(99), Some(Nanos::new(1)));
        assert_eq!(of(100).quantile(50), Some(Nanos::new(50)));
        assert_eq!(of(100).quantile(99), Some(Nanos::new(99)));
        assert_eq!(of(3).quantile(50), Some(Nanos::new(2)));
    }

    #[test]
    fn a_second_is_over_when_its_frames_can_have_come() {
        let mut seconds = Seconds::of(1);
        let at = |ms| Step {
            now: Instant::ZERO + Nanos::from_millis(ms),
            took: Nanos::ZERO,
            event: Event::Tick,
            actions: Vec::new(),
        };
        for (ms, over) in [
            (10, 0),
            (1_200, 0),
            (1_999, 0),
            (2_000, 0),
            (2_001, 1),
            (9_000, 2),
        ] {
            seconds.step(&at(ms));
            assert_eq!(seconds.over().len(), over, "{ms}");
        }
        assert_eq!(seconds.finish().len(), 1);
    }
}
