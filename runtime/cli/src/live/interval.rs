//! What happened between two reports of a daemon.

use punctual_daemon::{PartitionReport, Report, TaskReport};

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
        let same = |before: &&Report| {
            (before.pid, before.ready_ns) == (now.pid, now.ready_ns) && before.seconds < now.seconds
        };
        let before = before.filter(same);
        let seconds = now.seconds - before.map_or(0.0, |before| before.seconds);
        let seconds = seconds.max(1e-3);
        let task = |(at, task): (usize, &TaskReport)| {
            let none = TaskReport::default();
            let before = before.and_then(|before| before.tasks.get(at));
            TaskInterval::between(before.unwrap_or(&none), task, seconds)
        };
        let partition = |(at, partition): (usize, &PartitionReport)| {
            let none = PartitionReport::default();
            let before = before.and_then(|before| before.partitions.get(at));
            PartitionInterval::between(before.unwrap_or(&none), partition, seconds)
        };
        Self {
            seconds,
            tasks: now.tasks.iter().enumerate().map(task).collect(),
            partitions: now.partitions.iter().enumerate().map(partition).collect(),
        }
    }
}

impl TaskInterval {
    fn between(before: &TaskReport, now: &TaskReport, seconds: f64) -> Self {
        let more = |now: u64, before: u64| now.saturating_sub(before);
        let exits = (0..).zip(&now.exits).map(|(exit, count)| {
            let before = before.exits.get(exit as usize).copied().unwrap_or(0);
            (exit, more(*count, before))
        });
        let exits: Vec<(u64, u64)> = exits.collect();
        let answers: u64 = exits.iter().map(|(_, count)| count).sum();
        let depth: u64 = exits.iter().map(|(exit, count)| exit * count).sum();
        let latency = difference(&before.latency_buckets, &now.latency_buckets);
        let slack = difference(&before.slack_buckets, &now.slack_buckets);
        let ms = |us: f64| us / 1e3;
        Self {
            hz: more(now.submitted, before.submitted) as f64 / seconds,
            on_time: more(now.on_time, before.on_time),
            late: more(now.late, before.late),
            rejected: more(now.rejected.total(), before.rejected.total()),
            failed: more(now.failed.total(), before.failed.total()),
            depth: (answers > 0).then(|| depth as f64 / answers as f64),
            p50_ms: quantile(&latency, 0.5).map(ms),
            p99_ms: quantile(&latency, 0.99).map(ms),
            slack_p1_ms: quantile(&slack, 0.01).map(ms),
        }
    }
}

impl PartitionInterval {
    fn between(before: &PartitionReport, now: &PartitionReport, seconds: f64) -> Self {
        let share = |now_us: u64, before_us: u64| {
            (now_us.saturating_sub(before_us) as f64 / 1e6 / seconds).clamp(0.0, 1.0)
        };
        let busy = share(now.busy_us, before.busy_us);
        let best_effort = share(now.best_effort_us, before.best_effort_us).min(busy);
        Self {
            real_time: busy - best_effort,
            best_effort,
        }
    }
}

/// Buckets of what was recorded in between: each has its largest value, and both lists rise.
fn difference(before: &[(f64, u64)], now: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let mut before = before.iter().peekable();
    let more = |&(edge, count): &(f64, u64)| {
        while before.next_if(|(other, _)| *other < edge).is_some() {}
        let known = before.next_if(|(other, _)| *other == edge);
        (
            edge,
            count.saturating_sub(known.map_or(0, |(_, count)| *count)),
        )
    };
    now.iter()
        .map(more)
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// The largest value of the bucket in which this share is reached.
fn quantile(buckets: &[(f64, u64)], share: f64) -> Option<f64> {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let rank = ((all as f64 * share).ceil() as u64).max(1);
    let mut below = 0;
    let reached = buckets.iter().find(|(_, count)| {
        below += count;
        below >= rank
    });
    reached.map(|(edge, _)| *edge)
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
