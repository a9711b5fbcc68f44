//! What a comparison shows, as charts. A policy has the same colour in all of them.

use punctual_report::{Axis, Colour, Lines, Series, Shares, Svg};
use punctual_simulator::summary::Summary;

use super::merged::Merged;
use super::row::{Row, groups};

/// Positions in the order of first occurrence.
pub(super) fn policies(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.policy.as_str()) {
            names.push(&row.policy);
        }
    }
    names
}

/// Share of requests that were missed, against load; a line a policy.
#[must_use]
pub fn misses_against_load(rows: &[Row]) -> Lines {
    against_load(rows, "Misses against load", "missed, %", Row::missed_share)
}

/// The same of those of which the camera knew nothing at their deadlines.
#[must_use]
pub fn untold_against_load(rows: &[Row]) -> Lines {
    let title = "Late or silent against load";
    against_load(rows, title, "late or silent, %", Row::untold_share)
}

fn against_load(rows: &[Row], title: &str, y: &str, share: fn(&Row) -> f64) -> Lines {
    let points = |policy: &str| {
        let groups = groups(rows).into_iter();
        let groups = groups.filter(|group| group.policy == policy);
        groups
            .map(|group| [group.load, group.mean(share) * 100.0])
            .collect()
    };
    Lines {
        title: title.to_owned(),
        x: Axis::linear("load (1: as published)"),
        y: Axis::percent(y),
        series: lines(policies(rows), points),
    }
}

/// Right answers on time among all requests against missed requests; a point a policy and load, joined from load to load.
#[must_use]
pub fn accuracy_against_misses(rows: &[Row]) -> Lines {
    let points = |policy: &str| {
        let groups = groups(rows).into_iter();
        let groups = groups.filter(|group| group.policy == policy);
        let point = |group: super::row::Group<'_>| {
            let missed = group.mean(Row::missed_share) * 100.0;
            [missed, group.mean(|row| row.accuracy_on_time) * 100.0]
        };
        groups.map(point).collect()
    };
    Lines {
        title: "Score against misses (left and up is better)".to_owned(),
        x: Axis::percent("missed, %"),
        y: Axis::percent("right and on time, of all requests, %"),
        series: lines(policies(rows), points),
    }
}

/// Share of requests answered within a latency; a line a policy.
#[must_use]
pub fn latency_cdf(policies: &[Merged]) -> Lines {
    const LEAST_MS: f64 = 1e-3;
    let series = policies.iter().map(|merged| Series {
        name: merged.policy.clone(),
        points: merged
            .latencies
            .iter()
            .map(|(us, share)| [(us / 1e3).max(LEAST_MS), share * 100.0])
            .collect(),
    });
    Lines {
        title: "Latencies".to_owned(),
        x: Axis::log("latency from the intended submission, ms"),
        y: Axis::percent("answered, % of all requests"),
        series: series.collect(),
    }
}

fn lines<'p>(policies: Vec<&'p str>, points: impl Fn(&'p str) -> Vec<[f64; 2]>) -> Vec<Series> {
    let line = |policy: &'p str| Series {
        name: policy.to_owned(),
        points: points(policy),
    };
    policies.into_iter().map(line).collect()
}

/// The outcomes of a policy's requests: answers by exit, then the rest.
#[must_use]
pub fn what_became(policies: &[Merged]) -> Svg {
    let exits = policies.iter().map(|merged| merged.summary.exits.len());
    let exits = exits.max().unwrap_or(0);
    let bar = |merged: &Merged| {
        let all = merged.summary.submitted.max(1) as f64;
        let parts = parts(&merged.summary, exits).into_iter();
        let parts = parts.map(|(count, colour)| (count as f64 * 100.0 / all, colour));
        (merged.policy.clone(), parts.collect())
    };
    let shares = Shares {
        of: "requests".to_owned(),
        groups: policies.iter().map(bar).collect(),
    };
    shares.svg()
}

/// What became of requests that were not answered on time.
pub(super) const REST: [(&str, Colour); 3] = [
    ("told early", Colour(150, 150, 150)),
    ("late", Colour(230, 159, 0)),
    ("silent", Colour(213, 94, 0)),
];

fn parts(summary: &Summary, exits: usize) -> Vec<(u64, Colour)> {
    // Late answers have exits, too: they are shown as late only.
    let answers: u64 = summary.exits.iter().sum();
    let on_time = |count: u64| {
        (u128::from(count) * u128::from(summary.on_time) / u128::from(answers.max(1))) as u64
    };
    let by_exit = summary.exits.iter().enumerate();
    let by_exit = by_exit.map(|(exit, count)| (on_time(*count), Colour::of_exit(exit, exits)));
    let rest = [summary.told_early, summary.late, summary.silent()];
    let rest = rest
        .into_iter()
        .zip(REST)
        .map(|(count, (_, colour))| (count, colour));
    by_exit.chain(rest).collect()
}
