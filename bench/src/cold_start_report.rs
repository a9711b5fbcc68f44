//! What starts took, as a table and for a machine.

use punctual_report::Table;
use serde_json::{Value, json};

use super::cold_start::{Times, Way};

pub(super) struct Report {
    pub(super) model: String,
    pub(super) isa: String,
    pub(super) rounds: u16,
    /// Operators whose fastest solution has to be prepared.
    pub(super) solutions: usize,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    way: Way,
    /// The package was not in the kernel's page cache.
    cold: bool,
    pub(super) times: Vec<Times>,
}

/// A time's median and 99th percentile, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quantiles {
    p50: u64,
    p99: u64,
}

impl Row {
    pub(super) fn new(way: Way, cold: bool) -> Self {
        Self {
            way,
            cold,
            times: Vec::new(),
        }
    }

    fn quantiles(&self, of: impl Fn(&Times) -> u64) -> Quantiles {
        let mut sorted: Vec<u64> = self.times.iter().map(of).collect();
        sorted.sort_unstable();
        // The smallest value that at least this share does not exceed.
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
        };
        Quantiles {
            p50: at(50),
            p99: at(99),
        }
    }

    fn first(&self) -> Quantiles {
        self.quantiles(|times| times.exits.first().copied().unwrap_or(0))
    }

    fn deepest(&self) -> Quantiles {
        self.quantiles(|times| times.exits.last().copied().unwrap_or(0))
    }
}

impl Report {
    pub(super) fn table(&self) -> String {
        let headings = [
            "cache",
            "start",
            "entered",
            "opened",
            "lowered",
            "loaded",
            "first exit p50 / p99",
            "ratio",
            "deepest exit p50 / p99",
            "ratio",
        ];
        let mut table = Table::new(&headings, 2);
        for row in &self.rows {
            let part = |of: fn(&Times) -> u64| ms(row.quantiles(of).p50);
            let (first, deepest) = (row.first(), row.deepest());
            let base = self.base(row);
            table.row([
                cache(row.cold).to_owned(),
                row.way.name().to_owned(),
                part(|times| times.entered),
                part(|times| times.opened),
                part(|times| times.lowered),
                part(|times| times.loaded),
                format!("{} / {}", ms(first.p50), ms(first.p99)),
                ratio(first, base.first()),
                format!("{} / {}", ms(deepest.p50), ms(deepest.p99)),
                ratio(deepest, base.deepest()),
            ]);
        }
        format!(
            "{} on {}, {} starts of each kind; {} operators have a solution to prepare; milliseconds \
             from before the process was started\n\n{}",
            self.model,
            self.isa,
            self.rounds,
            self.solutions,
            table.markdown()
        )
    }

    pub(super) fn json(&self) -> Value {
        let quantiles = |q: Quantiles| json!({ "p50_ns": q.p50, "p99_ns": q.p99 });
        let row = |row: &Row| {
            json!({
                "cache": cache(row.cold),
                "start": row.way.name(),
                "entered": quantiles(row.quantiles(|times| times.entered)),
                "opened": quantiles(row.quantiles(|times| times.opened)),
                "lowered": quantiles(row.quantiles(|times| times.lowered)),
                "loaded": quantiles(row.quantiles(|times| times.loaded)),
                "first_exit": quantiles(row.first()),
                "deepest_exit": quantiles(row.deepest()),
            })
        };
        json!({
            "model": self.model,
            "isa": self.isa,
            "rounds": self.rounds,
            "solutions": self.solutions,
            "starts": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// The row that a row is compared with: everything on, with the same cache.
    fn base(&self, row: &Row) -> &Row {
        let same = |base: &&Row| base.cold == row.cold && base.way == Way::Interleaved;
        self.rows.iter().find(same).unwrap_or(&self.rows[0])
    }
}

const fn cache(cold: bool) -> &'static str {
    if cold { "cold" } else { "warm" }
}

fn ms(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

fn ratio(of: Quantiles, to: Quantiles) -> String {
    format!("{:.2}", of.p50 as f64 / to.p50.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let mut row = Row::new(Way::InTurn, true);
        for exit in 1..=200 {
            row.times.push(Times {
                entered: 0,
                opened: 0,
                lowered: 0,
                loaded: 0,
                exits: vec![exit, 10 * exit],
            });
        }
        let expected = Quantiles { p50: 100, p99: 198 };
        assert_eq!(row.first(), expected);
        assert_eq!(row.deepest().p99, 1980);
    }
}
