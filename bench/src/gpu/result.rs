//! What a step found: a claim, figures that have a bound, tables, plots.

use punctual_device_cuda::partition::search::FoundPlace;
use punctual_report::{Bars, Lines, Table};
use serde::{Deserialize, Serialize};

use super::bound;

/// What a step claims about its own result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// What had to be shown is so.
    Proven,
    /// What had to be shown is not so.
    Refuted,
    /// It has figures, and nothing to be right or wrong about.
    #[default]
    Measured,
    /// It ran, and what had to be shown stays open.
    Open,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepResult {
    pub claim: Claim,
    /// For a person, in a sentence without a full stop.
    pub found: String,
    pub figures: Vec<Figure>,
    /// Every single value that was measured; kept in first light only.
    pub samples: Vec<Samples>,
    pub tables: Vec<Sheet>,
    pub plots: Vec<Lines>,
    pub bars: Vec<Bars>,
    /// Measured times next to predicted ones.
    pub compared: Vec<Compared>,
    /// Which multiprocessors each bit of a mask governs.
    pub map: Vec<MaskBit>,
    /// Where this driver keeps masks, if that was found here by trying.
    pub found_places: Vec<FoundPlace>,
    /// What one must know to read it: how it was measured, what was left out and why.
    pub notes: Vec<String>,
}

/// A measured value that has a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub bound: String,
    /// Of what, if the bound holds for several.
    pub of: String,
    /// In the bound's unit.
    pub value: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    pub of: String,
    pub unit: String,
    /// In the order in which they were measured.
    pub values: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskBit {
    /// Of green contexts the number of a group.
    pub bit: u8,
    /// As `%smid` numbers them.
    pub multiprocessors: Vec<u32>,
}

/// A measured time, and what was predicted for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Of which network, stage and batch.
    pub of: String,
    pub multiprocessors: u32,
    pub measured_us: f64,
    /// None if there is no prediction; `why` says why.
    pub predicted: Option<Prediction>,
    pub why: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub us: f64,
    /// What products, and bytes that the cache has no room for, allow.
    pub at_least_us: f64,
    /// What limits most of it.
    pub limit: String,
    /// Measured over predicted.
    pub ratio: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sheet {
    pub title: String,
    pub headings: Vec<String>,
    /// How many columns, from the left, are words.
    pub words: usize,
    pub rows: Vec<Vec<String>>,
}

impl StepResult {
    /// Adds a value that has a bound. One that is no number (nothing was counted) is none.
    ///
    /// # Panics
    /// When there is no such bound: an error in the step.
    pub fn figure(&mut self, bound: &str, of: &str, value: f64) {
        assert!(bound::find(bound).is_some(), "no bound is called {bound}");
        if value.is_finite() {
            self.figures.push(Figure {
                bound: bound.to_owned(),
                of: of.to_owned(),
                value,
            });
        }
    }

    /// Adds durations; their quantiles.
    pub fn nanoseconds(&mut self, of: impl Into<String>, values: Vec<u64>) -> Latency {
        let latency = Latency::of(values.clone());
        self.samples.push(Samples {
            of: of.into(),
            unit: "ns".to_owned(),
            values,
        });
        latency
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl Sheet {
    /// A table with these headings, the first `words` of them over columns of words.
    pub fn new(title: &str, headings: &[&str], words: usize) -> Self {
        Self {
            title: title.to_owned(),
            headings: headings
                .iter()
                .map(|heading| (*heading).to_owned())
                .collect(),
            words,
            rows: Vec::new(),
        }
    }

    /// A table of durations: columns of words `before` them, and what is derived from them `after`.
    pub fn of_latencies(title: &str, before: &[&str], after: &[&str]) -> Self {
        let headings = [before, &Latency::HEADINGS, after].concat();
        Self::new(title, &headings, before.len())
    }

    /// Adds a row of such a table.
    pub fn latency<const B: usize, const A: usize>(
        &mut self,
        before: [String; B],
        latency: &Latency,
        after: [String; A],
    ) {
        self.row(before.into_iter().chain(latency.cells()).chain(after));
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn table(&self) -> Table {
        let headings: Vec<&str> = self.headings.iter().map(String::as_str).collect();
        let mut table = Table::new(&headings, self.words);
        for row in &self.rows {
            table.row(row.iter().cloned());
        }
        table
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: usize,
    /// Of all, in microseconds, like the following.
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// 999 of 1000 are not above it: the longest, when there were fewer.
    pub p999_us: f64,
    pub max_us: f64,
}

impl Latency {
    /// The headings of [`cells`](Self::cells).
    const HEADINGS: [&'static str; 6] = [
        "n",
        "mean, us",
        "p50, us",
        "p99, us",
        "p99.9, us",
        "max, us",
    ];

    /// Of durations in nanoseconds: each quantile is one of them, the smallest that enough are not
    /// above. Zeros when there are none.
    pub fn of(mut durations_ns: Vec<u64>) -> Self {
        durations_ns.sort_unstable();
        let Some(&longest) = durations_ns.last() else {
            return Self::default();
        };
        let count = durations_ns.len();
        let at = |permille: usize| {
            let rank = (count * permille).div_ceil(1000).max(1);
            durations_ns[rank - 1] as f64 / 1e3
        };
        let sum: u128 = durations_ns.iter().map(|&ns| u128::from(ns)).sum();
        Self {
            count,
            mean_us: sum as f64 / count as f64 / 1e3,
            p50_us: at(500),
            p99_us: at(990),
            p999_us: at(999),
            max_us: longest as f64 / 1e3,
        }
    }

    /// How many times `base` it is, by the median; no number if one of them has no durations.
    pub fn over(&self, base: &Self) -> f64 {
        self.quotient(base, self.p50_us / base.p50_us)
    }

    /// Likewise by the mean.
    pub fn mean_over(&self, base: &Self) -> f64 {
        self.quotient(base, self.mean_us / base.mean_us)
    }

    /// Likewise by the 99th percentile.
    pub fn p99_over(&self, base: &Self) -> f64 {
        self.quotient(base, self.p99_us / base.p99_us)
    }

    fn quotient(&self, base: &Self, quotient: f64) -> f64 {
        if self.count > 0 && base.count > 0 {
            quotient
        } else {
            f64::NAN
        }
    }

    /// For a row of a table.
    fn cells(&self) -> [String; 6] {
        let us = |us: f64| format!("{us:.1}");
        [
            self.count.to_string(),
            us(self.mean_us),
            us(self.p50_us),
            us(self.p99_us),
            us(self.p999_us),
            us(self.max_us),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_durations_that_were_measured() {
        let latency = Latency::of((1..=1000).rev().map(|us| us * 1000).collect());
        let found = [
            latency.p50_us,
            latency.p99_us,
            latency.p999_us,
            latency.max_us,
        ];
        assert_eq!(found, [500.0, 990.0, 999.0, 1000.0]);
        assert_eq!((latency.count, latency.mean_us), (1000, 500.5));
        assert_eq!(Latency::of(vec![7_000]).p999_us, 7.0);
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }

    #[test]
    fn nothing_is_no_multiple_of_anything() {
        let (some, none) = (Latency::of(vec![2_000]), Latency::default());
        assert_eq!(some.over(&Latency::of(vec![1_000])), 2.0);
        assert!(none.over(&some).is_nan() && some.mean_over(&none).is_nan());
    }

    #[test]
    fn a_value_that_is_no_number_is_no_figure() {
        let mut result = StepResult::default();
        result.figure("guards", "", f64::NAN);
        result.figure("guards", "", 1.5);
        assert_eq!(result.figures.len(), 1);
    }

    #[test]
    #[should_panic(expected = "no bound is called")]
    fn a_figure_without_a_bound_is_an_error_of_the_step() {
        StepResult::default().figure("no-such", "", 1.0);
    }
}
