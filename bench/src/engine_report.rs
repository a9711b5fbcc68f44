//! What `punctual bench engine` shows.

use std::fmt;

use punctual_report::{Table, WIDTH};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub network: String,
    pub instruction_set: String,
    pub rounds: u32,
    /// One a batch size and number of cores.
    pub rows: Vec<Row>,
}

/// One batch size on some cores.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub batch: usize,
    pub cores: usize,
    pub punctual: Times,
    pub onnxruntime: Times,
    pub difference: f32,
    /// From the least score to the greatest.
    pub spread: f32,
}

/// Quantiles of times for the whole batch through all stages, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    pub p50_ns: u64,
    /// 99 of 100 are not above it.
    pub p99_ns: u64,
    /// 999 of 1000 are not above it: the longest, when there were fewer.
    pub p999_ns: u64,
    pub max_ns: u64,
}

impl Times {
    /// Of at least one measurement.
    pub fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let at = |share: f64| {
            times[((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1]
        };
        Self {
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: at(1.0),
        }
    }
}

impl Row {
    /// Our median over theirs: below 1 we are faster.
    pub fn ratio(&self) -> f64 {
        self.punctual.p50_ns as f64 / self.onnxruntime.p50_ns as f64
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            network,
            instruction_set,
            rounds,
            ..
        } = self;
        writeln!(
            f,
            "{network}, {instruction_set}, {rounds} rounds; milliseconds a batch\n"
        )?;
        let mut table = Table::new(
            &[
                "batch",
                "cores",
                "ratio",
                "punctual p50",
                "p99",
                "max",
                "onnxruntime p50",
                "p99",
                "max",
                "scores differ by",
            ],
            0,
        )
        .keys(2);
        let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
        for row in &self.rows {
            let (own, other) = (&row.punctual, &row.onnxruntime);
            table.row([
                row.batch.to_string(),
                row.cores.to_string(),
                format!("{:.2}", row.ratio()),
                ms(own.p50_ns),
                ms(own.p99_ns),
                ms(own.max_ns),
                ms(other.p50_ns),
                ms(other.p99_ns),
                ms(other.max_ns),
                format!("{:.1e}", row.difference),
            ]);
        }
        write!(f, "{table:0$}", f.width().unwrap_or(WIDTH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measurements_and_of_few_the_last_is_the_longest() {
        let times = Times::of((1..=100).rev().collect());
        assert_eq!(
            (times.p50_ns, times.p99_ns, times.p999_ns, times.max_ns),
            (50, 99, 100, 100)
        );
        let one = Times::of(vec![7]);
        assert_eq!((one.p50_ns, one.max_ns), (7, 7));
    }
}
