//! What happened between two reports of a daemon.

use punctual_daemon::{PartitionReport, Report, TaskReport};

use crate::live::since::{quantile, since};

/// The difference of two reports of one daemon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    pub seconds: f64,
    /// In the order of the reports.
    pub tasks: Vec<TaskInterval>,
    pub partitions: Vec<PartitionInterval>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskInterval {
    /// Frames submitted in a second.
    pub hz: f64,
    pub on_time: u64,
    pub late: u64,
    pub rejected: u64,
    pub failed: u64,
    /// The mean exit of answers, 0 being the first; none without answers.
    pub depth: Option<f64>,
    /// In ms; none without answers.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// One answer in a hundred left less time to its deadline.
    pub slack_p1_ms: Option<f64>,
}

/// Shares of the time, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartitionInterval {
    pub real_time: f64,
    pub best_effort: f64,
}

impl Interval {
    /// What `now` has in addition to `before`; all that it has if that is of another daemon, or none.
    pub fn between(before: Option<&Report>, now: &Report) -> Self {
        let counted = before.map_or_else(|| now.clone(), |before| since(before, now));
        let seconds = counted.seconds.max(1e-3);
        let task = |task| TaskInterval::of(task, seconds);
        let partition = |partition| PartitionInterval::of(partition, seconds);
        Self {
            seconds,
            tasks: counted.tasks.iter().map(task).collect(),
            partitions: counted.partitions.iter().map(partition).collect(),
        }
    }
}

impl TaskInterval {
    fn of(task: &TaskReport, seconds: f64) -> Self {
        let answers: u64 = task.exits.iter().sum();
        let depth: u64 = (0..)
            .zip(&task.exits)
            .map(|(exit, count): (u64, _)| exit * count)
            .sum();
        let ms = |us: f64| us / 1e3;
        Self {
            hz: task.submitted as f64 / seconds,
            on_time: task.on_time,
            late: task.late,
            rejected: task.rejected.total(),
            failed: task.failed.total(),
            depth: (answers > 0).then(|| depth as f64 / answers as f64),
            p50_ms: quantile(&task.latency_buckets, 0.5).map(ms),
            p99_ms: quantile(&task.latency_buckets, 0.99).map(ms),
            slack_p1_ms: quantile(&task.slack_buckets, 0.01).map(ms),
        }
    }
}

impl PartitionInterval {
    fn of(partition: &PartitionReport, seconds: f64) -> Self {
        let share = |us: u64| (us as f64 / 1e6 / seconds).clamp(0.0, 1.0);
        let busy = share(partition.busy_us);
        let best_effort = share(partition.best_effort_us).min(busy);
        Self {
            real_time: busy - best_effort,
            best_effort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seconds: f64, on_time: u64, buckets: Vec<(f64, u64)>) -> Report {
        Report {
            pid: 7,
            ready_ns: 9,
            seconds,
            tasks: vec![TaskReport {
                submitted: on_time,
                on_time,
                exits: vec![on_time / 2, on_time / 2],
                latency_buckets: buckets,
                ..TaskReport::default()
            }],
            partitions: vec![PartitionReport {
                busy_us: on_time * 1_000,
                best_effort_us: on_time * 250,
                ..PartitionReport::default()
            }],
            ..Report::default()
        }
    }

    #[test]
    fn rates_shares_and_quantiles_are_those_of_the_time_between() {
        let before = report(10.0, 1_000, vec![(50_000.0, 1_000)]);
        let now = report(
            12.0,
            1_100,
            vec![(1_000.0, 98), (9_000.0, 2), (50_000.0, 1_000)],
        );
        let interval = Interval::between(Some(&before), &now);
        let task = &interval.tasks[0];
        assert_eq!((task.hz, task.on_time, task.depth), (50.0, 100, Some(0.5)));
        assert_eq!((task.p50_ms, task.p99_ms), (Some(1.0), Some(9.0)));
        let partition = interval.partitions[0];
        assert!(
            (partition.real_time - 0.0375).abs() < 1e-9
                && (partition.best_effort - 0.0125).abs() < 1e-9
        );
    }

    #[test]
    fn of_another_daemon_everything_counts() {
        let before = report(10.0, 1_000, vec![(50_000.0, 1_000)]);
        let now = Report {
            pid: 8,
            ..report(2.0, 100, vec![(1_000.0, 100)])
        };
        for before in [None, Some(&before)] {
            let task = &Interval::between(before, &now).tasks[0];
            assert_eq!((task.hz, task.p99_ms), (50.0, Some(1.0)));
        }
    }
}
