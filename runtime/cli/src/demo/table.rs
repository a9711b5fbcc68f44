//! The demo's table, live on a terminal and once more at the end.

use std::fmt::Write as _;

use crate::report::CameraReport;

use super::summary::Summary;

/// One camera's counts, now and at the last drawing.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Now.
    pub now: CameraReport,
    /// Then.
    pub before: CameraReport,
}

impl Row {
    /// Takes the latest of a camera's JSON lines; what is none of them is passed over.
    pub fn hear(&mut self, lines: Vec<String>) {
        let reports = lines
            .iter()
            .rev()
            .filter_map(|line| serde_json::from_str(line).ok());
        if let Some(report) = { reports }.next() {
            self.now = report;
        }
    }
}

/// The table's lines, for `interval_s` seconds between now and before.
#[must_use]
pub fn draw(rows: &[Row], interval_s: f64) -> Vec<String> {
    let mut lines = vec![header()];
    for row in rows {
        let rate = row.now.submitted.saturating_sub(row.before.submitted) as f64 / interval_s;
        lines.push(line(&row.now, rate));
    }
    lines
}

fn header() -> String {
    format!(
        "{:<10} {:>7} {:>6} {:>7} {:>5} {:>8} {:>6}  {:<9} {:>6} {:>7} {:>7} {:>7}",
        "task",
        "rate/s",
        "sent",
        "on time",
        "late",
        "rejected",
        "failed",
        "exits %",
        "right",
        "p50 ms",
        "p99 ms",
        "max ms",
    )
}

fn line(camera: &CameraReport, rate: f64) -> String {
    let accuracy = camera
        .accuracy()
        .map_or("-".to_owned(), |a| format!("{:.1}%", a * 100.0));
    format!(
        "{:<10} {:>7.1} {:>6} {:>7} {:>5} {:>8} {:>6}  {:<9} {:>6} {:>7.1} {:>7.1} {:>7.1}",
        camera.task,
        rate,
        camera.submitted,
        camera.on_time,
        camera.late,
        camera.rejected,
        camera.failed,
        exits(&camera.exits),
        accuracy,
        ms(camera.latency_us.p50),
        ms(camera.latency_us.p99),
        ms(camera.latency_us.max),
    )
}

/// Shares of the answers by exit, in percent.
fn exits(counts: &[u64]) -> String {
    let all: u64 = counts.iter().sum();
    if all == 0 {
        return "-".to_owned();
    }
    let shares: Vec<String> = counts
        .iter()
        .map(|n| format!("{:.0}", *n as f64 * 100.0 / all as f64))
        .collect();
    shares.join("/")
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

/// The closing text for a person.
#[must_use]
pub fn closing(summary: &Summary, rows: &[Row], overload: f64) -> String {
    let mut text = String::new();
    let mut say = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    say(format!(
        "\n{} s on board `{}`, device {}{}",
        summary.seconds,
        summary.board,
        summary.device,
        if overload == 1.0 {
            String::new()
        } else {
            format!(", cameras at {overload} x their rate")
        },
    ));
    for line in draw(rows, summary.seconds.max(f64::EPSILON)) {
        say(line);
    }
    say(String::new());
    for task in &summary.tasks {
        let mut line = format!(
            "{}: {} of {} on time",
            task.name, task.on_time, task.submitted
        );
        let mut also = |count: u64, what: &str| {
            if count > 0 {
                let _ = write!(line, ", {count} {what}");
            }
        };
        also(task.late, "late");
        also(
            task.late_in_host_stall,
            "of those during a stall of the machine",
        );
        also(task.rejected, "rejected early");
        also(task.failed, "failed");
        also(task.lost, "LOST");
        also(
            task.skipped,
            "never sent (all the camera's slots were in flight)",
        );
        say(line);
    }
    say(format!(
        "daemon: decisions p50 {:.1} us, p99 {:.1} us, max {:.1} us\n\
         since ready: allocations on real-time threads {}, elsewhere {}; page faults {}; \
         stalls of the machine over 1 ms {} (longest {:.1} ms)",
        summary.decision_us.p50,
        summary.decision_us.p99,
        summary.decision_us.max,
        summary.allocations_after_ready,
        summary.allocations_elsewhere,
        summary.page_faults_after_ready,
        summary.host_stalls,
        ms(summary.host_stall_us_max),
    ));
    say(if summary.succeeded() {
        "nothing was lost, every process ended cleanly".to_owned()
    } else if summary.clean {
        "FAILED: submissions were lost (see above)".to_owned()
    } else {
        "FAILED: a process did not end cleanly (see above)".to_owned()
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::LatencyUs;

    #[test]
    fn rate_is_of_the_interval_and_exits_are_shares() {
        let now = CameraReport {
            task: "signs".to_owned(),
            submitted: 45,
            on_time: 44,
            exits: vec![22, 11, 11],
            correct: 33,
            latency_us: LatencyUs {
                p50: 2_500,
                p99: 4_000,
                p999: 5_000,
                max: 6_000,
            },
            ..CameraReport::default()
        };
        let before = CameraReport {
            submitted: 30,
            ..CameraReport::default()
        };
        let lines = draw(&[Row { now, before }], 0.5);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("  30.0 "), "{}", lines[1]);
        assert!(lines[1].contains("50/25/25 "), "{}", lines[1]);
        assert!(lines[1].contains("75.0%"), "{}", lines[1]);
        assert!(lines[1].contains(" 2.5 "), "{}", lines[1]);
    }

    #[test]
    fn a_task_without_answers_has_no_accuracy_and_no_exits() {
        let lines = draw(&[Row::default()], 1.0);
        assert!(lines[1].contains(" - "), "{}", lines[1]);
    }
}
