//! What is printed: the places, and both sides at each load.

use punctual_report::{Column, Table};
use serde::Serialize;

use super::Side;
use super::plan::PlaceUse;
use super::roles::{ROLES, Scenes};
use super::turn::{Outcome, Stages, Stalls, Turn};
use crate::camera::Tally;

/// The turns of a load and side together.
struct Sum {
    load: f64,
    side: Side,
    /// In the order of [`ROLES`].
    tallies: Vec<Tally>,
    stages: Stages,
    stalls: Stalls,
}

#[derive(Default)]
pub struct Results {
    /// In the order in which they were first measured.
    sums: Vec<Sum>,
    missing: Vec<String>,
}

impl Results {
    pub fn add(&mut self, turn: Turn, outcome: Outcome) {
        let Turn { load, side, .. } = turn;
        let known = self
            .sums
            .iter()
            .position(|sum| (sum.load, sum.side) == (load, side));
        let known = known.unwrap_or_else(|| {
            self.sums.push(Sum {
                load,
                side,
                tallies: ROLES.map(|_| Tally::new()).to_vec(),
                stages: Stages::default(),
                stalls: Stalls::default(),
            });
            self.sums.len() - 1
        });
        let sum = &mut self.sums[known];
        for (tally, of_turn) in sum.tallies.iter_mut().zip(&outcome.tallies) {
            tally.add(of_turn);
        }
        sum.stages.all += outcome.stages.all;
        sum.stages.on_places += outcome.stages.on_places;
        sum.stages.overruns += outcome.stages.overruns;
        sum.stages.demotions += outcome.stages.demotions;
        sum.stalls.count += outcome.stalls.count;
        sum.stalls.longest_us = sum.stalls.longest_us.max(outcome.stalls.longest_us);
        for missing in outcome.missing {
            if !self.missing.contains(&missing) {
                self.missing.push(missing);
            }
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    machine: String,
    /// Facilities that the daemons asked for and did not get, such as real-time priority.
    missing: Vec<String>,
    places: Vec<PlaceUse>,
    /// None if no place pays.
    rows: Vec<Row>,
}

/// A load and side: all cameras, or one.
#[derive(Clone, Debug, Serialize)]
struct Row {
    load: f64,
    side: Side,
    /// None: all.
    task: Option<&'static str>,
    frames: u64,
    on_time: u64,
    late: u64,
    /// Those of `late` that the daemon gave on time.
    read_late: u64,
    rejected: u64,
    failed: u64,
    skipped: u64,
    exits: Vec<u64>,
    mean_exit: Option<f64>,
    /// Right classes in time as a share of all frames with a class.
    right: Option<f64>,
    map50_of_all: Option<f64>,
    latency_us: Latency,
    /// Of all cameras together only.
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<Stages>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalls: Option<Stalls>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Latency {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

impl Row {
    fn of(sum: &Sum, task: Option<&'static str>, tally: &Tally, classes: u64) -> Self {
        let answers: u64 = tally.exits.iter().sum();
        let depth = tally.exits.iter().zip(0u64..);
        let depth: u64 = depth.map(|(count, exit)| count * exit).sum();
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let at = |quantile| tally.latency_us.value_at_quantile(quantile);
        Self {
            load: sum.load,
            side: sum.side,
            task,
            frames: tally.frames(),
            on_time: tally.on_time,
            late: tally.late,
            read_late: tally.read_late,
            rejected: tally.rejected,
            failed: tally.failed,
            skipped: tally.skipped,
            exits: tally.exits.clone(),
            mean_exit: ratio(depth, answers),
            right: ratio(tally.right, classes),
            map50_of_all: tally.map50(),
            latency_us: Latency {
                p50: at(0.5),
                p99: at(0.99),
                p999: at(0.999),
                max: tally.latency_us.max(),
            },
            stages: task.is_none().then_some(sum.stages),
            stalls: task.is_none().then_some(sum.stalls),
        }
    }

    /// That of all cameras, then that of each.
    fn all_of(sum: &Sum) -> Vec<Self> {
        let mut all = Tally::new();
        sum.tallies.iter().for_each(|tally| all.add(tally));
        let tasks = || ROLES.iter().zip(&sum.tallies);
        let classes = |scenes, tally: &Tally| match scenes {
            Scenes::Signs => tally.frames(),
            Scenes::Streets => 0,
        };
        let of_all = tasks().map(|(role, tally)| classes(role.scenes, tally));
        let whole = Self::of(sum, None, &all, of_all.sum());
        let tasks = tasks().map(|(role, tally)| {
            let classes = classes(role.scenes, tally);
            Self::of(sum, Some(role.task), tally, classes)
        });
        [whole].into_iter().chain(tasks).collect()
    }

    fn cells(&self) -> Vec<String> {
        let answers = self.exits.iter().sum::<u64>().max(1);
        let share = |count: &u64| format!("{:.0}", *count as f64 * 100.0 / answers as f64);
        let shares: Vec<String> = self.exits.iter().map(share).collect();
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
        let missed = [
            self.late,
            self.read_late,
            self.rejected,
            self.failed,
            self.skipped,
        ];
        let mut cells = vec![
            format!("{}", self.load),
            self.side.name().to_owned(),
            self.task.unwrap_or("all").to_owned(),
            self.frames.to_string(),
            punctual_report::percent(self.on_time as f64 / self.frames.max(1) as f64),
        ];
        cells.extend(missed.map(|count| count.to_string()));
        cells.extend([
            shares.join("/"),
            text(self.mean_exit.map(|exit| format!("{exit:.2}"))),
            text(self.right.map(punctual_report::percent)),
            text(self.map50_of_all.map(|map| format!("{map:.3}"))),
        ]);
        let Latency {
            p50,
            p99,
            p999,
            max,
        } = self.latency_us;
        cells.extend([p50, p99, p999, max].map(ms));
        cells
    }
}

impl Report {
    pub fn new(places: Vec<PlaceUse>, results: Results) -> Self {
        let mut sums = results.sums;
        // Stable: the sides stay in their order.
        sums.sort_by(|a, b| a.load.total_cmp(&b.load));
        Self {
            machine: punctual_device_cpu::machine(),
            missing: results.missing,
            places,
            rows: sums.iter().flat_map(Row::all_of).collect(),
        }
    }

    pub fn text(&self) -> String {
        let width = punctual_platform::output::width();
        let mut text = format!("{}\n", self.machine);
        for missing in &self.missing {
            text += &format!("the daemon did without {missing}\n");
        }
        let verdict = if self.places.iter().any(|place| place.pays) {
            "Places, and whether they pay by the plan"
        } else {
            "No place pays by the plan: each task runs on its own home, and nothing was measured"
        };
        text += &format!("{verdict}\n{:width$}", self.place_table());
        if !self.rows.is_empty() {
            let (all, tasks) = (self.table(false), self.table(true));
            text += &format!(
                "\nAll cameras\n{all:width$}\nStages, and stalls of the machine\n{:width$}\nEach camera\n{tasks:width$}",
                self.stage_table()
            );
        }
        text
    }

    fn place_table(&self) -> Table {
        let mut table = Table::of([
            Column::words("place"),
            Column::words("cores"),
            Column::words("model"),
            Column::number("co-run"),
            Column::number("break-even"),
            Column::words("pays"),
        ]);
        let ratio =
            |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        for place in &self.places {
            let cores: Vec<String> = place.cores.iter().map(u16::to_string).collect();
            table.row([
                place.place.clone(),
                cores.join(", "),
                place.model.clone(),
                ratio(place.co_run),
                ratio(place.break_even),
                if place.pays { "yes" } else { "no" }.to_owned(),
            ]);
        }
        table
    }

    /// Of all cameras together, or of each.
    fn table(&self, of_tasks: bool) -> Table {
        let (number, words) = (Column::number, Column::words);
        let mut table = Table::of([
            number("load"),
            words("side"),
            words("task"),
            number("frames"),
            number("on time"),
            number("late"),
            number("read late"),
            number("rejected"),
            number("failed"),
            number("skipped"),
            words("exits %"),
            number("mean exit"),
            number("right"),
            number("mAP50"),
            number("p50").unit("ms"),
            number("p99").unit("ms"),
            number("p99.9").unit("ms"),
            number("max").unit("ms"),
        ]);
        for row in self
            .rows
            .iter()
            .filter(|row| row.task.is_some() == of_tasks)
        {
            table.row(row.cells());
        }
        table
    }

    fn stage_table(&self) -> Table {
        let mut table = Table::of([
            Column::number("load"),
            Column::words("side"),
            Column::number("stages"),
            Column::number("on places"),
            Column::number("longer than their budgets"),
            Column::number("tasks demoted"),
            Column::number("stalls over 1 ms"),
            Column::number("longest").unit("ms"),
        ]);
        for row in &self.rows {
            let (Some(stages), Some(stalls)) = (row.stages, row.stalls) else {
                continue;
            };
            table.row([
                format!("{}", row.load),
                row.side.name().to_owned(),
                stages.all.to_string(),
                stages.on_places.to_string(),
                stages.overruns.to_string(),
                stages.demotions.to_string(),
                stalls.count.to_string(),
                format!("{:.1}", stalls.longest_us as f64 / 1e3),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pays: bool) -> PlaceUse {
        PlaceUse {
            place: "cell-1".to_owned(),
            cores: vec![1],
            model: "signs".to_owned(),
            co_run: Some(1.5),
            break_even: Some(1.25),
            pays,
        }
    }

    #[test]
    fn if_no_place_pays_the_report_says_so_and_has_the_co_run_factors() {
        let text = Report::new(vec![place(false)], Results::default()).text();
        assert!(text.contains("No place pays by the plan"), "{text}");
        assert!(text.contains("1.50") && text.contains("1.25"), "{text}");
        let text = Report::new(vec![place(true)], Results::default()).text();
        assert!(!text.contains("No place pays"), "{text}");
    }
}
