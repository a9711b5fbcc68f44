//! Policies side by side in a table.

use punctual_report::{Table, percent};

use super::row::{Row, groups, span};

/// A comparison: a line for each policy at each load, means over the seeds.
#[must_use]
pub fn comparison(rows: &[Row]) -> Table {
    let mut table = Table::new(
        &[
            "policy",
            "load",
            "requests",
            "missed",
            "late",
            "rejected",
            "failed",
            "lost",
            "accuracy",
            "of all",
            "full depth",
            "bound",
            "p50",
            "p99",
            "p99.9",
            "max",
            "goodput/s",
            "efficacy",
        ],
        1,
    )
    .keys(2);
    for group in groups(rows) {
        let share = |count: fn(&Row) -> u64| {
            percent(group.mean(|row| count(row) as f64 / row.submitted.max(1) as f64))
        };
        table.row([
            group.policy.to_owned(),
            format!("{}", group.load),
            format!("{:.0}", group.mean(|row| row.submitted as f64)),
            share(|row| row.missed),
            share(|row| row.late),
            share(|row| row.rejected),
            share(|row| row.failed),
            share(|row| row.lost),
            percent(group.mean(|row| row.accuracy)),
            percent(group.mean(|row| row.accuracy_all)),
            percent(group.mean(|row| row.accuracy_full_depth)),
            group.bound().map_or_else(|| "-".into(), percent),
            span(group.mean(|row| row.latency_us.p50)),
            span(group.mean(|row| row.latency_us.p99)),
            span(group.mean(|row| row.latency_us.p999)),
            span(group.mean(|row| row.latency_us.max)),
            format!("{:.1}", group.mean(|row| row.goodput_per_s)),
            format!("{:.0}", group.mean(|row| row.gpu_efficacy)),
        ]);
    }
    table
}
