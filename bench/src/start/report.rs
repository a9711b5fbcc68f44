//! What was measured, as a table and as JSON.

use std::collections::BTreeMap;

use punctual_report::{Column, Table};
use serde::Serialize;

use super::turn::{Cache, Moment};
use super::workload::Kind;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub machine: String,
    pub rounds: u32,
    pub rows: Vec<Row>,
}

/// A moment of the starts of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    workload: Kind,
    cache: Cache,
    moment: String,
    ours: Times,
    /// Of the other daemon, if there is one that tells of this.
    theirs: Option<Times>,
}

/// In milliseconds from just before the process was started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Times {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Times {
    /// Of one time at least.
    fn of(mut ms: Vec<f64>) -> Self {
        ms.sort_by(f64::total_cmp);
        let rank = |quantile: f64| (quantile * ms.len() as f64).ceil() as usize;
        let at = |quantile| ms[rank(quantile).clamp(1, ms.len()) - 1];
        Self {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        }
    }
}

/// The times of each moment, by its name.
fn by_moment(starts: &[Vec<Moment>]) -> BTreeMap<&str, Vec<f64>> {
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for moment in starts.iter().flatten() {
        times.entry(&moment.name).or_default().push(moment.ms);
    }
    times
}

impl Row {
    /// In the order in which the first start came to them.
    pub fn of(
        workload: Kind,
        cache: Cache,
        ours: &[Vec<Moment>],
        theirs: &[Vec<Moment>],
    ) -> Vec<Self> {
        let theirs = by_moment(theirs);
        let mut rows: Vec<Self> = by_moment(ours)
            .into_iter()
            .map(|(moment, ms)| Self {
                workload,
                cache,
                moment: moment.to_owned(),
                ours: Times::of(ms),
                theirs: theirs.get(moment).cloned().map(Times::of),
            })
            .collect();
        rows.sort_by(|a, b| a.ours.p50.total_cmp(&b.ours.p50));
        rows
    }

    /// How many times sooner ours is.
    fn ratio(&self) -> Option<f64> {
        Some(self.theirs?.p50 / self.ours.p50)
    }
}

impl Report {
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and names") + "\n"
    }

    pub fn markdown(&self) -> String {
        let ms = |heading: &str| Column::number(heading).unit("ms");
        let mut table = Table::of([
            Column::words("workload"),
            Column::words("cache"),
            Column::words("moment"),
            ms("p50"),
            ms("p99"),
            ms("p99.9"),
            ms("max"),
            ms("other's p50"),
            ms("other's p99"),
            ms("other's max"),
            Column::number("ratio"),
        ]);
        for row in &self.rows {
            let one = |value: f64| format!("{value:.1}");
            let other = |of: fn(Times) -> f64| row.theirs.map_or(String::new(), |t| one(of(t)));
            table.row([
                row.workload.name().to_owned(),
                row.cache.name().to_owned(),
                row.moment.clone(),
                one(row.ours.p50),
                one(row.ours.p99),
                one(row.ours.p999),
                one(row.ours.max),
                other(|times| times.p50),
                other(|times| times.p99),
                other(|times| times.max),
                row.ratio()
                    .map_or(String::new(), |ratio| format!("{ratio:.2}")),
            ]);
        }
        let (machine, rounds) = (&self.machine, self.rounds);
        format!("{machine}, {rounds} starts of each\n\n{}", table.markdown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(ready: f64, first: f64) -> Vec<Moment> {
        let moment = |name: &str, ms| Moment {
            name: name.to_owned(),
            ms,
        };
        vec![moment("ready", ready), moment("signs first", first)]
    }

    #[test]
    fn a_moment_of_many_starts_is_told_by_its_quantiles_and_compared_by_its_median() {
        let ours: Vec<_> = (1..=100).map(|ms| start(f64::from(ms), 200.0)).collect();
        let theirs = [start(150.0, 900.0), start(152.0, 1000.0)];
        let rows = Row::of(Kind::Demo, Cache::Warm, &ours, &theirs);
        let [ready, first] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!(
            (ready.ours.p50, ready.ours.p99, ready.ours.max),
            (50.0, 99.0, 100.0)
        );
        assert_eq!((ready.ratio(), first.ratio()), (Some(3.0), Some(4.5)));
        let alone = Row::of(Kind::Demo, Cache::Warm, &ours, &[]);
        assert_eq!(alone[0].ratio(), None);
    }
}
