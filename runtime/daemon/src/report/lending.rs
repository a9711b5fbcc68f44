//! What tasks borrowed and lent: on whose compute units their stages ran.

use serde::{Deserialize, Serialize};

/// Only of a plan with places. Counted are stages that came to their end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendingReport {
    /// Of the plan.
    pub places: u64,
    /// One entry a partition with tasks, in the plan's order.
    pub homes: Vec<HomeReport>,
    /// The pairs of homes of which one used compute units of the other.
    pub loans: Vec<LoanReport>,
    /// One entry a task, in the plan's order.
    pub tasks: Vec<WidthsReport>,
}

/// Of the tasks of one partition, their home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeReport {
    pub partition: String,
    /// On exactly its compute units.
    pub own: RanReport,
    /// On a part of them.
    pub cells: RanReport,
    /// On at least one unit of another home.
    pub borrowed: RanReport,
    /// Its units times the time for which stages of other homes used them.
    pub lent_unit_us: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanReport {
    pub stages: u64,
    /// The sum of their measured times.
    pub busy_us: u64,
}

/// Stages of the tasks of `borrower` on compute units of `owner`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoanReport {
    pub owner: String,
    pub borrower: String,
    pub stages: u64,
    pub busy_us: u64,
    /// The units of `owner` that they used, times their time.
    pub unit_us: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WidthsReport {
    pub task: String,
    /// By rising width; only those that were used.
    pub widths: Vec<WidthReport>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WidthReport {
    /// How many compute units ran them.
    pub units: u64,
    /// Stages, counted once for each request of the task in their batch.
    pub members: u64,
}
