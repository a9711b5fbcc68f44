//! What is printed: who is right and on time at which load, and the figures behind it.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use punctual::demo::cameras::CAMERAS;
use punctual_report::{Column, Page, Table, percent};
use serde::Serialize;

use super::contestants::Contestant;
use super::turn::Outcome;
use crate::camera::Tally;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub machine: String,
    /// What the loops run on; none: there was none.
    pub library: Option<String>,
    pub command: String,
    pub seconds: f64,
    pub turns: u32,
    /// The machine's load average of the last minute, when it began and when it ended.
    pub load_average: [f64; 2],
    /// Facilities that were asked for and not granted, such as real-time priority.
    pub missing: Vec<String>,
    pub rows: Vec<Row>,
}

/// A contestant at a load: all turns together. Without best-effort cameras, except where they are named.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub load: f64,
    pub contestant: &'static str,
    #[serde(skip)]
    title: &'static str,
    frames: u64,
    on_time: u64,
    late: u64,
    /// Those of `late` that were not on their way while the machine stood still.
    late_outside_stalls: u64,
    /// Rejected, dropped, failed, or never submitted, as no slot was free.
    not_answered: u64,
    score: Spread,
    exits: Vec<u64>,
    /// Of all frames with a class, those that were right and on time.
    right: Option<f64>,
    /// Of all frames with boxes; where there was no answer on time nothing was found.
    map50: Option<f64>,
    latency_us: Latency,
    /// Of frames' first answers.
    first_us: Latency,
    cores_used: Spread,
    best_effort_per_s: Spread,
    /// Times over 1 ms in which a core stood still.
    stalls: u64,
    /// Times that a task of the daemon lost its promises, as its model broke its profile.
    demotions: u64,
}

/// Of turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    mean: f64,
    least: f64,
    most: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Latency {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

impl Spread {
    fn of(turns: impl IntoIterator<Item = f64>) -> Self {
        let turns: Vec<f64> = turns.into_iter().collect();
        Self {
            mean: turns.iter().sum::<f64>() / turns.len().max(1) as f64,
            least: turns.iter().copied().fold(f64::INFINITY, f64::min),
            most: turns.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// The mean, and the least and the most where they differ.
    fn text(&self, figure: impl Fn(f64) -> String) -> String {
        let [mean, least, most] = [self.mean, self.least, self.most].map(figure);
        if least == most {
            mean
        } else {
            format!("{mean} ({least} to {most})")
        }
    }
}

impl Latency {
    fn of(all: &Histogram<u64>) -> Self {
        let at = |quantile| all.value_at_quantile(quantile);
        Self {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: all.max(),
        }
    }
}

/// A turn's tallies of the cameras with deadlines.
fn real_time(turn: &Outcome) -> impl Iterator<Item = &Tally> {
    let tallies = turn.tallies.iter().zip(CAMERAS);
    tallies.filter_map(|(tally, role)| role.fps.map(|_| tally))
}

fn best_effort(turn: &Outcome) -> impl Iterator<Item = &Tally> {
    let tallies = turn.tallies.iter().zip(CAMERAS);
    tallies.filter_map(|(tally, role)| role.fps.is_none().then_some(tally))
}

/// Right and on time, of all frames: a frame of signs counts 1 if its class is right and was read before its deadline,
/// otherwise 0; each frame of streets counts the mAP50 of all of them, where nothing was found in a frame without an answer on
/// time.
fn score<'t>(tallies: impl Iterator<Item = &'t Tally>) -> f64 {
    let (mut earned, mut frames) = (0.0, 0);
    for tally in tallies {
        frames += tally.frames();
        earned += tally.map50().map_or(tally.right as f64, |precision| {
            precision * tally.frames() as f64
        });
    }
    earned / frames.max(1) as f64
}

impl Row {
    pub fn of(load: f64, contestant: &Contestant, turns: &[Outcome], seconds: f64) -> Self {
        // By camera, so that a mean average precision is of all turns together.
        let mut by_camera = vec![Tally::new(); CAMERAS.len()];
        for turn in turns {
            by_camera
                .iter_mut()
                .zip(&turn.tallies)
                .for_each(|(all, of)| all.add(of));
        }
        let cameras = by_camera.iter().zip(CAMERAS);
        let cameras: Vec<&Tally> = cameras
            .filter_map(|(tally, role)| role.fps.map(|_| tally))
            .collect();
        let mut all = Tally::new();
        cameras.iter().for_each(|tally| all.add(tally));
        let outside = |turn: &Outcome| -> u64 {
            let late = real_time(turn).map(|tally| tally.late_outside(&turn.stalls));
            late.sum()
        };
        let signs = cameras.iter().filter(|tally| tally.map50().is_none());
        let frames_of_signs: u64 = signs.map(|tally| tally.frames()).sum();
        let answered = |turn: &Outcome| {
            best_effort(turn)
                .map(|of| of.on_time + of.late)
                .sum::<u64>() as f64
        };
        Self {
            load,
            contestant: contestant.name,
            title: contestant.title,
            frames: all.frames(),
            on_time: all.on_time,
            late: all.late,
            late_outside_stalls: turns.iter().map(outside).sum(),
            not_answered: all.rejected + all.failed + all.skipped,
            score: Spread {
                mean: score(cameras.into_iter()),
                ..Spread::of(turns.iter().map(|turn| score(real_time(turn))))
            },
            exits: all.exits.clone(),
            right: (frames_of_signs > 0).then(|| all.right as f64 / frames_of_signs as f64),
            map50: all.map50(),
            latency_us: Latency::of(&all.latency_us),
            first_us: Latency::of(&all.first_us),
            cores_used: Spread::of(turns.iter().map(|turn| turn.cores_used)),
            best_effort_per_s: Spread::of(turns.iter().map(|turn| answered(turn) / seconds)),
            stalls: turns.iter().map(|turn| turn.stalls.len() as u64).sum(),
            demotions: turns.iter().map(|turn| turn.demotions).sum(),
        }
    }

    fn on_time_share(&self) -> f64 {
        self.on_time as f64 / self.frames.max(1) as f64
    }

    fn cells(&self) -> Vec<String> {
        let answers = self.exits.iter().sum::<u64>().max(1) as f64;
        let shares = self
            .exits
            .iter()
            .map(|&count| count as f64 * 100.0 / answers);
        let shares: Vec<String> = shares.map(|share| format!("{share:.0}")).collect();
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let Latency {
            p50,
            p99,
            p999,
            max,
        } = self.latency_us;
        let mut cells = vec![
            format!("{}", self.load),
            self.title.to_owned(),
            self.frames.to_string(),
            percent(self.on_time_share()),
            self.score.text(|score| format!("{:.1}%", score * 100.0)),
            self.late.to_string(),
            self.late_outside_stalls.to_string(),
            self.not_answered.to_string(),
            shares.join("/"),
            text(self.right.map(percent)),
            text(self.map50.map(|precision| format!("{precision:.3}"))),
        ];
        let first = self.first_us.p50;
        cells.extend([first, p50, p99, p999, max].map(|us| format!("{:.1}", us as f64 / 1e3)));
        cells.extend([
            self.cores_used.text(|cores| format!("{cores:.2}")),
            self.best_effort_per_s.text(|rate| format!("{rate:.0}")),
            self.stalls.to_string(),
        ]);
        cells
    }
}

impl Report {
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data serialises") + "\n"
    }

    /// For people, and for the page in `docs/results`.
    pub fn markdown(&self) -> String {
        format!(
            "- {}\n\n{}\n{}",
            self.head().join("\n- "),
            self.overview().markdown(),
            self.table().markdown()
        )
    }

    pub fn page(&self) -> String {
        let mut page = Page::new("Beside loops around ONNX Runtime");
        self.head()
            .into_iter()
            .for_each(|line| page.paragraph(line));
        page.heading("On time / score");
        page.table(&self.overview());
        page.heading("All figures");
        page.table(&self.table());
        page.html()
    }

    fn head(&self) -> Vec<String> {
        let [begun, ended] = self.load_average;
        let library = self.library.as_deref().unwrap_or("no ONNX Runtime");
        let mut lines = vec![
            format!("{}, {library}", self.machine),
            format!("command: {}", self.command),
            format!("load average: {begun} at the beginning, {ended} at the end"),
        ];
        let demotions: u64 = self.rows.iter().map(|row| row.demotions).sum();
        if demotions > 0 {
            lines.push(format!(
                "tasks of the daemon that lost their promises, as stages took longer than in their profile: {demotions}"
            ));
        }
        if !self.missing.is_empty() {
            lines.push(format!("not granted: {}", self.missing.join(", ")));
        }
        lines
    }

    /// On time and score in percent: a row for each contestant, a column for each load.
    fn overview(&self) -> Table {
        let mut loads: Vec<f64> = self.rows.iter().map(|row| row.load).collect();
        loads.dedup();
        let columns = loads.iter().map(|load| Column::number(&format!("{load}x")));
        let mut table = Table::of(
            [Column::words("on time / score, %")]
                .into_iter()
                .chain(columns),
        );
        let mut by_title = BTreeMap::<usize, Vec<String>>::new();
        let first = self.rows.iter().filter(|row| row.load == loads[0]);
        let titles: Vec<&str> = first.map(|row| row.title).collect();
        for row in &self.rows {
            let position = titles.iter().position(|title| *title == row.title);
            let [on_time, score] = [row.on_time_share(), row.score.mean].map(|of| of * 100.0);
            let cell = format!("{on_time:.1} / {score:.1}");
            by_title
                .entry(position.unwrap_or(0))
                .or_default()
                .push(cell);
        }
        for (position, cells) in by_title {
            let title = titles[position].to_owned();
            table.row([title].into_iter().chain(cells));
        }
        table
    }

    fn table(&self) -> Table {
        let (number, words) = (Column::number, Column::words);
        let mut table = Table::of([
            number("load"),
            words("contestant"),
            number("frames"),
            number("on time"),
            number("score"),
            number("late"),
            number("outside stalls"),
            number("not answered"),
            words("exits %"),
            number("right"),
            number("mAP50"),
            number("first p50").unit("ms"),
            number("p50").unit("ms"),
            number("p99").unit("ms"),
            number("p99.9").unit("ms"),
            number("max").unit("ms"),
            number("cores used"),
            number("best effort/s"),
            number("stalls over 1 ms"),
        ])
        .keys(2);
        self.rows.iter().for_each(|row| table.row(row.cells()));
        table
    }
}

#[cfg(test)]
mod tests {
    use punctual_signs::Truth;

    use super::super::contestants::CONTESTANTS;
    use super::*;
    use crate::camera::{Answer, Outcome as OfFrame};

    /// A turn in which each camera of signs had a right answer and a rejection, and the one of streets a rejection.
    fn turn() -> Outcome {
        let tallies = CAMERAS.iter().map(|role| {
            let mut tally = Tally::new();
            let truth = if role.network() == "signs" {
                Truth::Sign(0)
            } else {
                let object = punctual_signs::Object {
                    left: 0.0,
                    top: 0.0,
                    right: 9.0,
                    bottom: 9.0,
                    category: 0,
                };
                Truth::Objects(vec![object])
            };
            let answer = Answer {
                exit: Some(0),
                class: Some(0),
                boxes: None,
                captured_ns: 0,
                deadline_ns: 9_000_000,
                given_in_time: true,
                received_ns: 2_000_000,
                first_ns: 2_000_000,
            };
            if let Truth::Sign(_) = truth {
                tally.count(&OfFrame::Answered(answer), &truth);
                tally.submitted += 1;
            }
            tally.count(&OfFrame::Rejected, &truth);
            tally.submitted += 1;
            tally
        });
        Outcome {
            tallies: tallies.collect(),
            stalls: Vec::new(),
            cores_used: 0.5,
            demotions: 0,
            missing: Vec::new(),
        }
    }

    #[test]
    fn the_score_is_of_all_frames_with_deadlines() {
        let row = Row::of(1.0, &CONTESTANTS[0], &[turn(), turn()], 2.0);
        // Two cameras of signs with two frames each, one of streets with one; twice.
        assert_eq!((row.frames, row.on_time, row.not_answered), (10, 4, 6));
        assert_eq!(row.score, Spread::of([0.4, 0.4]));
        assert_eq!((row.right, row.map50), (Some(0.5), Some(0.0)));
        assert_eq!(row.best_effort_per_s.mean, 0.5);
        assert_eq!(row.latency_us.p50 / 10, 200);
    }

    #[test]
    fn a_spread_names_the_least_and_the_most_where_they_differ() {
        let figure = |value: f64| format!("{value:.1}");
        assert_eq!(Spread::of([1.0, 1.0]).text(figure), "1.0");
        assert_eq!(Spread::of([1.0, 3.0]).text(figure), "2.0 (1.0 to 3.0)");
    }

    #[test]
    fn the_overview_has_a_row_for_each_contestant_and_a_column_for_each_load() {
        let row = |load, contestant| Row::of(load, contestant, &[turn()], 1.0);
        let [a, b, ..] = CONTESTANTS else {
            panic!("two of them");
        };
        let report = Report {
            machine: String::new(),
            library: None,
            command: String::new(),
            seconds: 1.0,
            turns: 1,
            load_average: [0.0; 2],
            missing: Vec::new(),
            rows: vec![row(1.0, a), row(1.0, b), row(2.0, a), row(2.0, b)],
        };
        let text = report.overview().markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].contains("1x") && lines[0].contains("2x"), "{text}");
        assert_eq!(lines[2].matches("40.0 / 40.0").count(), 2, "{text}");
    }
}
