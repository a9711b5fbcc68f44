//! The demo's table, live on a terminal and once more at the end.

use std::fmt::Write as _;

use punctual_platform::output;
use punctual_report::{Column, Table};

use crate::report::{CameraReport, LatencyUs};

use super::summary::Summary;

/// One camera's counts, now and at the last drawing.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub now: CameraReport,
    pub before: CameraReport,
}

impl Row {
    /// All of a camera's time.
    pub fn whole(now: CameraReport) -> Self {
        Self {
            now,
            before: CameraReport::default(),
        }
    }

    /// Frames a second between then and now, by the camera's own time; none if it has not got on.
    fn rate(&self) -> Option<f64> {
        let seconds = self.now.seconds - self.before.seconds;
        let frames = self.now.submitted.saturating_sub(self.before.submitted);
        (seconds > 0.0).then(|| frames as f64 / seconds)
    }

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

/// As lines of text, at most `width` columns wide.
#[must_use]
pub fn draw(rows: &[Row], width: usize) -> String {
    format!("{:width$}", table(rows))
}

#[must_use]
pub fn table(rows: &[Row]) -> Table {
    let (number, words) = (Column::number, Column::words);
    let mut table = Table::of([
        words("task"),
        number("rate/s"),
        number("sent"),
        number("answered"),
        number("on time"),
        number("late"),
        number("rejected"),
        number("failed"),
        words("exits %"),
        number("right"),
        number("p50").unit("ms"),
        number("p99").unit("ms"),
        number("max").unit("ms"),
    ]);
    for row in rows {
        table.row(cells(&row.now, row.rate()));
    }
    table
}

fn cells(camera: &CameraReport, rate: Option<f64>) -> [String; 13] {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    // What has no deadline is not on time, nor late.
    let kept = |count: u64| or_none(camera.has_deadlines().then(|| count.to_string()));
    let ms = |us: u64| format!("{:.1}", ms(us));
    [
        camera.task.clone(),
        or_none(rate.map(|rate| format!("{rate:.1}"))),
        camera.submitted.to_string(),
        camera.answered().to_string(),
        kept(camera.on_time),
        kept(camera.late),
        camera.rejected.to_string(),
        camera.failed.to_string(),
        exits(&camera.exits),
        or_none(right(camera)),
        ms(camera.latency_us.p50),
        ms(camera.latency_us.p99),
        ms(camera.latency_us.max),
    ]
}

/// How good answers were: the share of right classes, or the mean average precision of boxes.
pub fn right(camera: &CameraReport) -> Option<String> {
    if let Some(precision) = camera.map50 {
        return Some(format!("mAP {precision:.2}"));
    }
    camera
        .accuracy()
        .map(|share| format!("{:.1}%", share * 100.0))
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

/// When answers came, for a camera that has some before their verdicts; else nothing.
#[must_use]
pub fn first_answers(camera: &CameraReport) -> String {
    let spread = |latency: &LatencyUs| {
        let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(ms);
        format!("p50 {p50:.1} ms, p99 {p99:.1} ms, max {max:.1} ms")
    };
    camera.first_us.map_or_else(String::new, |first| {
        let (first, deepest) = (spread(&first), spread(&camera.latency_us));
        format!("first answers: {first}\ndeepest answers: {deepest}\n")
    })
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
        "\n{}{} s on board `{}`, device {}{}",
        if summary.interrupted {
            "interrupted after "
        } else {
            ""
        },
        (summary.seconds * 10.0).round() / 10.0,
        summary.board,
        summary.device,
        if overload == 1.0 {
            String::new()
        } else {
            format!(
                ", cameras at {} x their rate",
                (overload * 100.0).round() / 100.0
            )
        },
    ));
    say(draw(rows, output::width()));
    for task in &summary.tasks {
        let mut line = match task.without_deadline {
            0 => format!(
                "{}: {} of {} on time",
                task.name, task.on_time, task.submitted
            ),
            answered => format!(
                "{}: {answered} of {} answered, without a deadline",
                task.name, task.submitted
            ),
        };
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

    fn lines(row: Row) -> Vec<String> {
        let text = draw(&[row], 120);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn rate_is_of_the_interval_and_exits_are_shares() {
        let now = CameraReport {
            task: "signs".to_owned(),
            seconds: 3.5,
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
            seconds: 3.0,
            submitted: 30,
            ..CameraReport::default()
        };
        let lines = lines(Row { now, before });
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("  30.0 "), "{}", lines[1]);
        assert!(lines[1].contains("50/25/25 "), "{}", lines[1]);
        assert!(lines[1].contains("75.0%"), "{}", lines[1]);
        assert!(lines[1].contains(" 2.5 "), "{}", lines[1]);
    }

    #[test]
    fn first_answers_have_a_line_of_their_own_where_they_come_before_verdicts() {
        let max = |max| LatencyUs {
            p50: 1_500,
            p99: 2_000,
            p999: 2_000,
            max,
        };
        let mut camera = CameraReport {
            latency_us: max(9_000),
            ..CameraReport::default()
        };
        assert_eq!(first_answers(&camera), "");
        camera.first_us = Some(max(3_000));
        assert_eq!(
            first_answers(&camera),
            "first answers: p50 1.5 ms, p99 2.0 ms, max 3.0 ms\n\
             deepest answers: p50 1.5 ms, p99 2.0 ms, max 9.0 ms\n"
        );
    }

    #[test]
    fn a_task_without_answers_has_no_accuracy_and_no_exits() {
        let lines = lines(Row::default());
        assert!(lines[1].contains(" - "), "{}", lines[1]);
    }

    #[test]
    fn a_camera_that_has_not_captured_has_no_rate() {
        let lines = lines(Row::default());
        assert!(!lines[1].contains("NaN") && !lines[1].contains("inf"));
        assert_eq!(
            lines[1].split_whitespace().next(),
            Some("-"),
            "{}",
            lines[1]
        );
    }

    #[test]
    fn answers_to_frames_without_a_deadline_are_answers_and_not_on_time() {
        let camera = CameraReport {
            task: "watch".to_owned(),
            submitted: 9,
            without_deadline: 7,
            ..CameraReport::default()
        };
        let lines = lines(Row::whole(camera));
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(
            words[..6],
            ["watch", "-", "9", "7", "-", "-"],
            "{}",
            lines[1]
        );
    }
}
