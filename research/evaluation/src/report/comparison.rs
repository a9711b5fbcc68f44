//! Policies side by side in a table.

use punctual_report::{Table, percent};

use super::row::{Group, Row, groups, span};

/// What the figures of a comparison mean, a sentence each.
pub const MEANING: [&str; 4] = [
    "Score: right and on time, of all requests. On time, told early, late and silent are all requests.",
    "Told early: refused before the deadline, so that the camera can act; `told after`: the mean time from its submission.",
    "Late: answered after the deadline. Silent: no word at the deadline, and no answer later.",
    "Accuracy: right, of the answers; `of all`: right, late ones too, of all requests.",
];

/// A comparison: a line for each policy at each load, means over the seeds.
#[must_use]
pub fn comparison(rows: &[Row]) -> Table {
    let mut table = Table::new(
        &[
            "policy",
            "load",
            "score",
            "on time",
            "told early",
            "told after",
            "late",
            "silent",
            "requests",
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
        let share = |count: fn(&Row) -> u64| percent(group.mean(|row| row.share(count(row))));
        table.row([
            group.policy.to_owned(),
            format!("{}", group.load),
            percent(group.mean(|row| row.accuracy_on_time)),
            share(|row| row.submitted - row.missed),
            share(|row| row.told_early),
            told_after(&group),
            share(|row| row.late),
            share(|row| row.silent),
            format!("{:.0}", group.mean(|row| row.submitted as f64)),
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

fn told_after(group: &Group<'_>) -> String {
    let us = group.mean(|row| row.told_us);
    if us == 0.0 && group.rows.iter().any(|row| row.told_early > 0) {
        return "at once".into();
    }
    span(us)
}
