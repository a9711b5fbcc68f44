//! A report whose counts are of the time after an earlier one.

use punctual_daemon::{
    FailedReport, GpuReport, LatencyReport, PartitionReport, RecorderReport, RejectedReport,
    Report, SlackReport, StageReport, StallsReport, TaskReport,
};

/// `now`, with what was counted after `before`; all that was counted if that is of another daemon, or not earlier. What is of a
/// moment (memory, threads, whether a task is demoted) stays as it is in `now`. So does what is since the daemon's start: the
/// largest times of stages and overruns, times of decisions and loads of weights, and what clients and lenders counted.
pub fn since(before: &Report, now: &Report) -> Report {
    let mut now = now.clone();
    let same_daemon = (before.pid, before.ready_ns) == (now.pid, now.ready_ns);
    if !same_daemon || before.seconds >= now.seconds {
        return now;
    }
    let start_ns = before.ready_ns + (before.seconds * 1e9) as u64;
    now.seconds -= before.seconds;
    take_all([
        (&mut now.channel_faults, before.channel_faults),
        (
            &mut now.allocations_after_ready,
            before.allocations_after_ready,
        ),
        (&mut now.allocations_elsewhere, before.allocations_elsewhere),
        (
            &mut now.page_faults_after_ready,
            before.page_faults_after_ready,
        ),
        (&mut now.paging.hits, before.paging.hits),
        (&mut now.paging.misses, before.paging.misses),
        (&mut now.paging.evictions, before.paging.evictions),
        (&mut now.paging.failed, before.paging.failed),
        (&mut now.log_dropped, before.log_dropped),
        (&mut now.lines_dropped, before.lines_dropped),
    ]);
    for (now, before) in now.tasks.iter_mut().zip(&before.tasks) {
        task(now, before);
    }
    for (now, before) in now.partitions.iter_mut().zip(&before.partitions) {
        partition(now, before);
    }
    for stage in &mut now.stages {
        let known = before.stages.iter().find(|other| is_same(stage, other));
        if let Some(known) = known {
            take_all([
                (&mut stage.count, known.count),
                (&mut stage.sum_us, known.sum_us),
            ]);
        }
    }
    stalls(&mut now.host_stalls, &before.host_stalls, start_ns);
    if let (Some(now), Some(before)) = (&mut now.gpu, &before.gpu) {
        gpu(now, before);
    }
    if let (Some(now), Some(before)) = (&mut now.recorder, &before.recorder) {
        recorder(now, before);
    }
    now
}

fn take(now: &mut u64, before: u64) {
    *now = now.saturating_sub(before);
}

fn take_all<const COUNT: usize>(counts: [(&mut u64, u64); COUNT]) {
    for (now, before) in counts {
        take(now, before);
    }
}

fn is_same(stage: &StageReport, other: &StageReport) -> bool {
    let key = |of: &StageReport| (of.stage, of.batch);
    key(stage) == key(other) && stage.model == other.model && stage.partition == other.partition
}

fn task(now: &mut TaskReport, before: &TaskReport) {
    take_all([
        (&mut now.submitted, before.submitted),
        (&mut now.on_time, before.on_time),
        (&mut now.late, before.late),
        (&mut now.late_in_host_stall, before.late_in_host_stall),
        (&mut now.offloaded, before.offloaded),
        (&mut now.prepared, before.prepared),
        (&mut now.copied_bytes, before.copied_bytes),
        (&mut now.prepared_by_gpu, before.prepared_by_gpu),
        (&mut now.overruns, before.overruns),
        (&mut now.demotions, before.demotions),
        (&mut now.not_finite, before.not_finite),
    ]);
    rejected(&mut now.rejected, &before.rejected);
    failed(&mut now.failed, &before.failed);
    for (now, before) in now.exits.iter_mut().zip(&before.exits) {
        take(now, *before);
    }
    now.latency_buckets = difference(&before.latency_buckets, &now.latency_buckets);
    now.slack_buckets = difference(&before.slack_buckets, &now.slack_buckets);
    let us = |buckets: &[(f64, u64)], share| quantile(buckets, share).unwrap_or(0.0) as u64;
    let count = |buckets: &[(f64, u64)]| buckets.iter().map(|(_, count)| count).sum();
    let (latency, slack) = (&now.latency_buckets, &now.slack_buckets);
    now.latency_us = LatencyReport {
        count: count(latency),
        p50: us(latency, 0.5),
        p99: us(latency, 0.99),
        p999: us(latency, 0.999),
        max: us(latency, 1.0),
    };
    now.slack_us = SlackReport {
        count: count(slack),
        p50: us(slack, 0.5),
        p1: us(slack, 0.01),
        p01: us(slack, 0.001),
    };
}

fn rejected(now: &mut RejectedReport, before: &RejectedReport) {
    take_all([
        (&mut now.late_on_arrival, before.late_on_arrival),
        (&mut now.no_slack, before.no_slack),
        (&mut now.queue_full, before.queue_full),
        (&mut now.draining, before.draining),
        (&mut now.superseded, before.superseded),
        (&mut now.shedding, before.shedding),
        (&mut now.invalid, before.invalid),
        (&mut now.quota, before.quota),
        (&mut now.no_area, before.no_area),
        (&mut now.not_ready, before.not_ready),
        (&mut now.fan_out, before.fan_out),
    ]);
}

fn failed(now: &mut FailedReport, before: &FailedReport) {
    take_all([
        (&mut now.device, before.device),
        (&mut now.payload, before.payload),
        (&mut now.client_gone, before.client_gone),
        (&mut now.shed, before.shed),
        (&mut now.not_finite, before.not_finite),
        (&mut now.vector, before.vector),
        (&mut now.starved, before.starved),
    ]);
}

fn partition(now: &mut PartitionReport, before: &PartitionReport) {
    take_all([
        (&mut now.actions, before.actions),
        (&mut now.members, before.members),
        (&mut now.finished, before.finished),
        (&mut now.preempted, before.preempted),
        (&mut now.not_run, before.not_run),
        (&mut now.failed, before.failed),
        (&mut now.busy_us, before.busy_us),
        (&mut now.best_effort_us, before.best_effort_us),
    ]);
}

fn gpu(now: &mut GpuReport, before: &GpuReport) {
    take_all([
        (&mut now.launches, before.launches),
        (&mut now.evictions, before.evictions),
        (&mut now.resumed, before.resumed),
        (&mut now.begun_again, before.begun_again),
        (&mut now.overdue, before.overdue),
        (&mut now.faults, before.faults),
        (&mut now.restarts, before.restarts),
        (&mut now.restarts_failed, before.restarts_failed),
        (&mut now.filled, before.filled),
        (&mut now.fillers_waited, before.fillers_waited),
        (&mut now.fillers_called_off, before.fillers_called_off),
        (&mut now.frames, before.frames),
        (&mut now.frames_copied, before.frames_copied),
    ]);
}

fn recorder(now: &mut RecorderReport, before: &RecorderReport) {
    take_all([
        (&mut now.written, before.written),
        (&mut now.failed, before.failed),
        (&mut now.steps, before.steps),
        (&mut now.steps_lost, before.steps_lost),
        (&mut now.sent_lost, before.sent_lost),
        (&mut now.seconds_lost, before.seconds_lost),
        (&mut now.differing, before.differing),
        (&mut now.pictures, before.pictures),
        (&mut now.pictures_left_out, before.pictures_left_out),
    ]);
}

/// Those that are not listed have no time: they count in both.
fn stalls(now: &mut StallsReport, before: &StallsReport, start_ns: u64) {
    now.list.retain(|stall| stall.end_ns > start_ns);
    let lengths_us = now
        .list
        .iter()
        .map(|stall| (stall.end_ns - stall.start_ns) / 1_000);
    now.count = now.list.len() as u64;
    now.total_us = lengths_us.clone().sum();
    now.longest_us = lengths_us.max().unwrap_or(0);
    take(&mut now.unlisted, before.unlisted);
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
pub fn quantile(buckets: &[(f64, u64)], share: f64) -> Option<f64> {
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
    use punctual_daemon::StallReport;

    use super::*;

    /// A daemon whose counts are all `count`.
    fn report(seconds: f64, count: u64) -> Report {
        Report {
            pid: 7,
            ready_ns: 9,
            seconds,
            channel_faults: count,
            tasks: vec![TaskReport {
                submitted: 4 * count,
                on_time: count,
                late: count,
                rejected: RejectedReport {
                    no_slack: count,
                    ..RejectedReport::default()
                },
                failed: FailedReport {
                    device: count,
                    ..FailedReport::default()
                },
                latency_buckets: vec![(1_000.0, count), (9_000.0, count)],
                demoted: true,
                ..TaskReport::default()
            }],
            stages: vec![StageReport {
                count,
                max_us: 77,
                ..StageReport::default()
            }],
            ..Report::default()
        }
    }

    #[test]
    fn counts_are_of_the_time_between_and_states_are_of_now() {
        let after = since(&report(10.0, 3), &report(12.0, 5));
        assert_eq!((after.seconds, after.channel_faults), (2.0, 2));
        let task = &after.tasks[0];
        assert_eq!((task.submitted, task.on_time, task.late), (8, 2, 2));
        assert_eq!((task.rejected.total(), task.failed.total()), (2, 2));
        assert_eq!((task.latency_us.count, task.latency_us.p50), (4, 1_000));
        assert_eq!(task.latency_us.max, 9_000);
        assert!(task.demoted);
        assert_eq!((after.stages[0].count, after.stages[0].max_us), (2, 77));
    }

    #[test]
    fn of_another_daemon_or_in_the_wrong_order_everything_counts() {
        let now = report(2.0, 5);
        let other = Report {
            pid: 8,
            ..report(1.0, 3)
        };
        assert_eq!(since(&other, &now), now);
        assert_eq!(since(&report(10.0, 3), &now), now);
    }

    #[test]
    fn stalls_count_that_ended_after_the_earlier_look() {
        let stall = |start_ms: u64, end_ms: u64| StallReport {
            start_ns: start_ms * 1_000_000,
            end_ns: end_ms * 1_000_000,
        };
        let mut now = report(12.0, 5);
        now.host_stalls.list = vec![stall(100, 400), stall(9_999, 10_003), stall(11_000, 11_002)];
        let after = since(&report(10.0, 3), &now).host_stalls;
        assert_eq!(
            (after.count, after.longest_us, after.total_us),
            (2, 4_000, 6_000)
        );
    }
}
