//! Plots as SVG, by `plotters`. Text and axes take the colour of the page.

use plotters::prelude::*;
use punctual_report::drawing::{FONT, SIZE, draw, line};
use punctual_report::palette::{colour, dashed, exit_colour};
use punctual_simulator::summary::Summary;

use super::merged::Merged;
use super::row::{Row, groups};

/// Positions in the order of first occurrence: a policy's colour is the same in all plots.
fn policies(rows: &[Row]) -> Vec<&str> {
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
pub fn misses_against_load(rows: &[Row]) -> String {
    let groups = groups(rows);
    let loads = groups.iter().map(|group| group.load);
    let most = loads.clone().fold(0.0, f64::max).max(1e-3);
    let least = loads.fold(most, f64::min);
    let margin = ((most - least) * 0.04).max(most * 0.02);
    draw(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(50)
            .y_label_area_size(66)
            .build_cartesian_2d(least - margin..most + margin, -1.0..102.0)?;
        chart
            .configure_mesh()
            .x_desc("load (1: as published)")
            .y_desc("missed, %")
            .label_style(FONT)
            .y_label_formatter(&|percent| format!("{percent:.0}"))
            .axis_desc_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (position, policy) in policies(rows).iter().enumerate() {
            let of_policy = groups.iter().filter(|group| group.policy == *policy);
            let points: Vec<(f64, f64)> = of_policy
                .map(|group| (group.load, group.mean(Row::missed_share) * 100.0))
                .collect();
            line(&mut chart, position, &points)?;
            let style = colour(position).filled();
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, style)))?;
        }
        Ok(())
    })
}

/// Right answers among all requests against missed requests; a point a policy and load. Left and up is better.
#[must_use]
pub fn accuracy_against_misses(rows: &[Row]) -> String {
    let groups = groups(rows);
    let names = policies(rows);
    draw(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(50)
            .y_label_area_size(66)
            .build_cartesian_2d(-2.0..102.0, -2.0..102.0)?;
        chart
            .configure_mesh()
            .x_desc("missed, %")
            .y_desc("right answers among all requests, %")
            .x_label_formatter(&|percent| format!("{percent:.0}"))
            .label_style(FONT)
            .y_label_formatter(&|percent| format!("{percent:.0}"))
            .axis_desc_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (position, policy) in names.iter().enumerate() {
            let of_policy = groups.iter().filter(|group| group.policy == *policy);
            let points = of_policy.map(|group| {
                let missed = group.mean(Row::missed_share) * 100.0;
                (missed, group.mean(|row| row.accuracy_all) * 100.0)
            });
            let style = if dashed(position) {
                colour(position).stroke_width(2)
            } else {
                colour(position).filled()
            };
            chart.draw_series(points.map(|point| Circle::new(point, 5, style)))?;
        }
        Ok(())
    })
}

/// Share of requests answered within a latency; a line a policy.
#[must_use]
pub fn latency_cdf(policies: &[Merged]) -> String {
    let latencies = policies.iter().flat_map(|merged| &merged.latencies);
    let latencies = latencies.map(|(us, _)| us / 1e3);
    let most = latencies.clone().fold(0.01, f64::max) * 1.2;
    let least = latencies
        .filter(|ms| *ms > 0.0)
        .fold(most, f64::min)
        .max(1e-3)
        / 1.2;
    draw(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(50)
            .y_label_area_size(66)
            .build_cartesian_2d((least..most).log_scale(), -1.0..102.0)?;
        chart
            .configure_mesh()
            .x_desc("latency from the intended submission, ms")
            .y_desc("answered, % of all requests")
            .x_label_formatter(&|ms| format!("{ms}"))
            .label_style(FONT)
            .y_label_formatter(&|percent| format!("{percent:.0}"))
            .axis_desc_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (position, merged) in policies.iter().enumerate() {
            let points: Vec<(f64, f64)> = merged
                .latencies
                .iter()
                .map(|(us, share)| ((us / 1e3).max(least), share * 100.0))
                .collect();
            line(&mut chart, position, &points)?;
        }
        Ok(())
    })
}

/// What became of a policy's requests: answers by exit, then the rest.
#[must_use]
pub fn what_became(policies: &[Merged]) -> String {
    let exits = policies
        .iter()
        .map(|m| m.summary.exits.len())
        .max()
        .unwrap_or(0);
    let height = 70 + 30 * policies.len() as u32;
    draw((SIZE.0, height), |area| {
        let count = policies.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(50)
            .y_label_area_size(116)
            .build_cartesian_2d(0.0..100.0, 0.0..count)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_desc("share of requests, %")
            .label_style(FONT)
            .x_label_formatter(&|percent| format!("{percent:.0}"))
            .axis_desc_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (
            index,
            Merged {
                policy, summary, ..
            },
        ) in policies.iter().enumerate()
        {
            let (top, bottom) = (count - index as f64 - 0.15, count - index as f64 - 0.85);
            let all = summary.submitted.max(1) as f64;
            let mut left = 0.0;
            for (count, colour) in parts(summary, exits) {
                let right = left + count as f64 * 100.0 / all;
                let corners = [(left, top), (right, bottom)];
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                left = right;
            }
            let (x, y) = chart.backend_coord(&(0.0, (top + bottom) / 2.0));
            let style =
                TextStyle::from(FONT.into_font()).pos(plotters::style::text_anchor::Pos::new(
                    plotters::style::text_anchor::HPos::Right,
                    plotters::style::text_anchor::VPos::Center,
                ));
            area.draw(&Text::new(policy.clone(), (x - 8, y), style))?;
        }
        Ok(())
    })
}

/// Late, rejected, failed, lost.
pub(super) const REST: [(&str, RGBColor); 4] = [
    ("late", RGBColor(230, 159, 0)),
    ("rejected", RGBColor(170, 170, 170)),
    ("failed", RGBColor(213, 94, 0)),
    ("lost", RGBColor(90, 0, 60)),
];

fn parts(summary: &Summary, exits: usize) -> Vec<(u64, RGBColor)> {
    // Late answers have exits, too: they are shown as late only.
    let answers: u64 = summary.exits.iter().sum();
    let on_time = |count: u64| {
        (u128::from(count) * u128::from(summary.on_time) / u128::from(answers.max(1))) as u64
    };
    let by_exit = summary.exits.iter().enumerate();
    let by_exit = by_exit.map(|(exit, count)| (on_time(*count), exit_colour(exit, exits)));
    let rest = [
        summary.late,
        summary.rejected.sum(),
        summary.failed.sum(),
        summary.lost,
    ];
    let rest = rest
        .into_iter()
        .zip(REST)
        .map(|(count, (_, colour))| (count, colour));
    by_exit.chain(rest).collect()
}
