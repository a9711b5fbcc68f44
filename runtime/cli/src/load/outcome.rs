//! What a load came to: by level, by task.

use std::fmt::Write as _;

use punctual_report::{Axis, Column, Lines, Page, Series, Table};
use serde::Serialize;

use super::feeder::Tally;
use crate::report::LatencyUs;

/// What `load --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Where it was sent to.
    pub socket: String,
    pub plan: String,
    pub policy: String,
    /// `steady`, `poisson`, ...
    pub shape: String,
    /// The share of a real-time task's frames that have to be on time.
    pub limit: f64,
    /// By rising factor.
    pub levels: Vec<Level>,
    /// The largest factor up to which all tasks held; none: not even the first.
    pub held: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Level {
    /// By which the rates were multiplied.
    pub factor: f64,
    pub seconds: f64,
    pub tasks: Vec<TaskOutcome>,
    /// Whether each real-time task had its share on time.
    pub holds: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct TaskOutcome {
    pub task: String,
    /// `real-time` or `best-effort`.
    pub criticality: String,
    /// Frames a second, all its clients together; none: the next one after each answer.
    pub hz: Option<f64>,
    pub clients: usize,
    pub submitted: u64,
    /// Not submitted, as the client had no slot free.
    pub skipped: u64,
    pub on_time: u64,
    pub late: u64,
    pub without_deadline: u64,
    pub rejected: u64,
    pub failed: u64,
    /// Without a verdict.
    pub lost: u64,
    /// Verdicts without an answer, in words.
    pub reasons: Vec<Reason>,
    pub exits: Vec<u64>,
    /// From the intended time of capture until the answer was read.
    pub latency_us: LatencyUs,
}

#[derive(Clone, Debug, Serialize)]
pub struct Reason {
    pub verdict: String,
    pub frames: u64,
}

impl TaskOutcome {
    pub fn new(task: &super::Task, hz: Option<f64>, tally: &Tally) -> Self {
        let reasons = tally.rejected.iter().chain(&tally.failed);
        Self {
            task: task.name.clone(),
            criticality: task.criticality.clone(),
            hz,
            clients: task.clients,
            submitted: tally.submitted,
            skipped: tally.skipped,
            on_time: tally.on_time,
            late: tally.late,
            without_deadline: tally.without_deadline,
            rejected: tally.rejected.values().sum(),
            failed: tally.failed.values().sum(),
            lost: tally.lost,
            reasons: reasons
                .map(|(verdict, frames)| Reason {
                    verdict: verdict.clone(),
                    frames: *frames,
                })
                .collect(),
            exits: tally.exits.clone(),
            latency_us: LatencyUs::of(&tally.latency_us),
        }
    }

    fn is_real_time(&self) -> bool {
        self.criticality == "real-time"
    }

    /// Of the frames that were due, also those for which there was no slot; none without frames.
    fn on_time_share(&self) -> Option<f64> {
        let due = self.submitted + self.skipped;
        (due > 0).then(|| self.on_time as f64 / due as f64)
    }

    /// Whether enough of its frames were on time; nothing is asked of best-effort tasks but verdicts.
    pub fn holds(&self, limit: f64) -> bool {
        let share = self.on_time_share().unwrap_or(1.0);
        self.lost == 0 && (!self.is_real_time() || share >= limit)
    }

    /// The mean exit of its answers, 0 being the first.
    fn depth(&self) -> Option<f64> {
        let answers: u64 = self.exits.iter().sum();
        let sum: u64 = (0..)
            .zip(&self.exits)
            .map(|(exit, count)| exit * count)
            .sum();
        (answers > 0).then(|| sum as f64 / answers as f64)
    }

    fn cells(&self) -> [String; 13] {
        let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let LatencyUs {
            p50,
            p99,
            p999,
            max,
        } = self.latency_us;
        [
            self.task.clone(),
            or_dash(self.hz.map(|hz| format!("{hz:.1}"))),
            self.submitted.to_string(),
            self.skipped.to_string(),
            (self.on_time + self.without_deadline).to_string(),
            self.late.to_string(),
            self.rejected.to_string(),
            (self.failed + self.lost).to_string(),
            or_dash(self.depth().map(|depth| format!("{depth:.2}"))),
            ms(p50),
            ms(p99),
            ms(p999),
            ms(max),
        ]
    }
}

/// The tasks of a level.
fn table(level: &Level) -> Table {
    let (number, words) = (Column::number, Column::words);
    let mut table = Table::of([
        words("task"),
        number("rate/s"),
        number("sent"),
        number("no slot"),
        number("on time"),
        number("late"),
        number("rejected"),
        number("failed"),
        number("depth"),
        number("p50").unit("ms"),
        number("p99").unit("ms"),
        number("p99.9").unit("ms"),
        number("max").unit("ms"),
    ]);
    for task in &level.tasks {
        table.row(task.cells());
    }
    table
}

/// A level in words, at most `width` columns wide.
pub fn text(level: &Level, limit: f64, width: usize) -> String {
    let mut text = format!(
        "\n{} times the rates, {} s\n{:width$}",
        level.factor,
        level.seconds,
        table(level)
    );
    for task in &level.tasks {
        for Reason { verdict, frames } in &task.reasons {
            let _ = writeln!(text, "{}: {frames} frames: {verdict}", task.task);
        }
        if !task.holds(limit) {
            let share = 100.0 * task.on_time_share().unwrap_or(0.0);
            let _ = writeln!(
                text,
                "{}: {share:.2}% on time, and {}% were asked for{}",
                task.task,
                100.0 * limit,
                match task.lost {
                    0 => String::new(),
                    lost => format!("; {lost} frames have no verdict"),
                }
            );
        }
    }
    text
}

impl Outcome {
    /// What a reader wants to know at last.
    pub fn verdict(&self) -> String {
        match (self.held, self.levels.last()) {
            (Some(held), Some(last)) if last.factor > held => {
                format!(
                    "held up to {held} times the rates, and not at {} times",
                    last.factor
                )
            }
            (Some(held), _) => format!("held at {held} times the rates"),
            (None, _) => "did not hold".to_owned(),
        }
    }

    pub fn html(&self) -> String {
        let mut page = Page::new("Punctual: load");
        page.paragraph(
            format!(
                "Socket {}, plan {:.12}, policy {}, shape {}. A real-time task holds if {}% of its frames are on time for the \
                 client that reads the answers; latencies are from the intended time of capture.",
                self.socket, self.plan, self.policy, self.shape, 100.0 * self.limit
            )
            .as_str(),
        );
        page.paragraph(self.verdict().as_str());
        if self.levels.len() > 1 {
            page.figures([
                self.lines("On time", Axis::percent("frames on time, %"), |task| {
                    task.on_time_share()
                        .filter(|_| task.is_real_time())
                        .map(|share| 100.0 * share)
                })
                .figure(),
                self.lines("Latency", Axis::log("99% quantile, ms"), |task| {
                    (task.latency_us.p99 > 0).then(|| task.latency_us.p99 as f64 / 1e3)
                })
                .figure(),
                self.lines("Depth", Axis::linear("mean exit"), TaskOutcome::depth)
                    .figure(),
            ]);
        }
        for level in &self.levels {
            page.heading(format!("{} times the rates", level.factor).as_str());
            page.table(&table(level));
        }
        page.html()
    }

    fn lines(&self, title: &str, y: Axis, of: impl Fn(&TaskOutcome) -> Option<f64>) -> Lines {
        let names = self.levels.first().map_or(&[][..], |level| &level.tasks);
        let series = names.iter().enumerate().map(|(at, task)| Series {
            name: task.task.clone(),
            points: self
                .levels
                .iter()
                .filter_map(|level| Some([level.factor, of(level.tasks.get(at)?)?]))
                .collect(),
        });
        Lines {
            title: title.to_owned(),
            x: Axis::linear("times the rates"),
            y,
            series: series.filter(|series| !series.points.is_empty()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(criticality: &str, tally: &Tally) -> TaskOutcome {
        let task = super::super::Task {
            name: "front".into(),
            criticality: criticality.into(),
            hz: Some(30.0),
            clients: 1,
        };
        TaskOutcome::new(&task, Some(30.0), tally)
    }

    #[test]
    fn a_real_time_task_holds_by_its_frames_on_time_and_frames_without_a_slot_count_against_it() {
        let tally = |on_time, skipped| Tally {
            submitted: 99,
            skipped,
            on_time,
            ..Tally::default()
        };
        assert!(outcome("real-time", &tally(99, 1)).holds(0.99));
        assert!(!outcome("real-time", &tally(99, 2)).holds(0.99));
        assert!(!outcome("real-time", &tally(98, 1)).holds(0.99));
        assert!(outcome("best-effort", &tally(0, 9)).holds(0.99));
        let lost = Tally {
            lost: 1,
            ..tally(99, 0)
        };
        assert!(!outcome("best-effort", &lost).holds(0.99));
    }

    #[test]
    fn the_depth_is_the_mean_exit_and_the_page_has_each_level() {
        let tally = Tally {
            submitted: 4,
            on_time: 4,
            exits: vec![1, 2, 1],
            ..Tally::default()
        };
        let task = outcome("real-time", &tally);
        assert_eq!(task.depth(), Some(1.0));
        let level = |factor| Level {
            factor,
            seconds: 1.0,
            tasks: vec![task.clone()],
            holds: factor < 2.0,
        };
        let outcome = Outcome {
            socket: "/tmp/s".into(),
            plan: "0123456789abcdef".into(),
            policy: "punctual".into(),
            shape: "steady".into(),
            limit: 0.99,
            levels: vec![level(1.0), level(2.0)],
            held: Some(1.0),
        };
        assert_eq!(
            outcome.verdict(),
            "held up to 1 times the rates, and not at 2 times"
        );
        let page = outcome.html();
        assert!(page.contains("2 times the rates") && page.contains("front"));
    }
}
