//! How long stages were expected to take, and how long they took.

use std::collections::BTreeMap;

use punctual_core::{ModelId, PartitionId, StageId, StageTime};
use punctual_model::{Quantiles, Samples};
use punctual_recording::Names;
use punctual_recording::frames::{Outcome, Run};
use punctual_report::{Column, Table, Text, percent};
use serde::Serialize;

/// What is measured together: one stage of one model, at one batch size, on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    pub model: ModelId,
    pub stage: StageId,
    pub batch: u8,
    pub partition: PartitionId,
}

impl Cell {
    #[must_use]
    pub const fn of(run: &Run) -> Self {
        Self {
            model: run.model,
            stage: run.stage,
            batch: run.batch,
            partition: run.partition,
        }
    }
}

/// All runs of a recording, by cell.
#[derive(Clone, Debug, Default)]
pub struct Expected(BTreeMap<Cell, Runs>);

#[derive(Clone, Debug, Default)]
struct Runs {
    /// What the plan has for them; none: it has no such cell.
    time: Option<StageTime>,
    measured: Samples,
    over: u64,
    preempted: u64,
}

/// A row for machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub model: String,
    pub stage: u8,
    pub batch: u8,
    pub partition: String,
    /// Those that finished.
    pub runs: u32,
    pub preempted: u64,
    pub budget_ns: Option<u64>,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// How many of the runs took longer than the budget.
    pub over_budget: u64,
}

impl Expected {
    /// Counts a run that ended.
    pub fn run(&mut self, run: &Run) {
        let Some(end) = run.end else { return };
        match end.outcome {
            Outcome::Finished { measured, .. } => {
                let runs = self.runs(run);
                runs.measured.add(measured);
                let budget = run.time.map(|time| time.budget);
                runs.over += u64::from(budget.is_some_and(|budget| measured > budget));
            }
            Outcome::Preempted => self.runs(run).preempted += 1,
            Outcome::NotRun | Outcome::Failed => {}
        }
    }

    fn runs(&mut self, run: &Run) -> &mut Runs {
        let runs = self.0.entry(Cell::of(run)).or_default();
        runs.time = run.time;
        runs
    }

    /// The cells of which any run finished.
    #[must_use]
    pub fn rows(&self, names: &Names) -> Vec<Row> {
        let finished = self.0.iter().filter(|(_, runs)| !runs.measured.is_empty());
        finished
            .map(|(cell, runs)| {
                let Quantiles {
                    samples,
                    p50_ns,
                    p99_ns,
                    max_ns,
                } = runs.measured.quantiles();
                Row {
                    model: names.model(cell.model),
                    stage: cell.stage.0,
                    batch: cell.batch,
                    partition: names.partition(cell.partition),
                    runs: samples,
                    preempted: runs.preempted,
                    budget_ns: runs.time.map(|time| time.budget.as_nanos()),
                    p50_ns,
                    p99_ns,
                    max_ns,
                    over_budget: runs.over,
                }
            })
            .collect()
    }

    #[must_use]
    pub fn table(&self, names: &Names) -> Table {
        let mut table = Table::of([
            Column::words("model"),
            Column::words("partition"),
            Column::number("stage"),
            Column::number("batch"),
            Column::number("runs"),
            Column::number("budget").unit("ms"),
            Column::number("p50").unit("ms"),
            Column::number("p99").unit("ms"),
            Column::number("max").unit("ms"),
            Column::number("over budget"),
        ])
        .keys(4);
        let ms = |ns: u64| Text::from(format!("{:.3}", ns as f64 / 1e6));
        for row in self.rows(names) {
            let share = row.over_budget as f64 / f64::from(row.runs.max(1));
            let over = match row.over_budget {
                0 => Text::from(percent(share)),
                _ => Text::bad(&percent(share)),
            };
            table.row([
                Text::from(row.model),
                Text::from(row.partition),
                Text::from(row.stage.to_string()),
                Text::from(row.batch.to_string()),
                Text::from(row.runs.to_string()),
                row.budget_ns.map_or_else(|| Text::soft("none"), ms),
                ms(row.p50_ns),
                ms(row.p99_ns),
                ms(row.max_ns),
                over,
            ]);
        }
        table
    }
}
