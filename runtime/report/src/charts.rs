//! Charts of any numbers.

use std::ops::Range;

use plotters::coord::ranged1d::{NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use crate::page::Figure;
use crate::plot::{Area, FONT, Plotted, SIZE, colour, draw, line};
use crate::svg::Svg;
use crate::ticks::Ticks;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, with its unit.
    pub name: String,
    /// Equal factors are equally far apart; only what is above 0 is shown.
    pub log: bool,
    /// From where to where it goes; without it, as far as what it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

impl Axis {
    /// From 0 to 100, with room for lines at both ends.
    #[must_use]
    pub fn percent(name: &str) -> Self {
        Self {
            range: Some([-1.0, 102.0]),
            ..Self::linear(name)
        }
    }

    /// Equal differences are equally far apart.
    #[must_use]
    pub fn linear(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn log(name: &str) -> Self {
        Self {
            log: true,
            ..Self::linear(name)
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub name: String,
    /// In the order in which they are joined.
    pub points: Vec<[f64; 2]>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// The lines, told apart by colour in this order.
    pub series: Vec<Series>,
}

impl Lines {
    /// What can be shown of each line.
    fn visible(&self) -> Vec<Vec<[f64; 2]>> {
        let shown = |axis: &Axis, value: f64| value.is_finite() && (!axis.log || value > 0.0);
        let points = |series: &Series| {
            let points = series.points.iter().copied();
            points
                .filter(|[x, y]| shown(&self.x, *x) && shown(&self.y, *y))
                .collect()
        };
        self.series.iter().map(points).collect()
    }

    /// As SVG: lines and, where they are few, their points. None when there is nothing to show.
    #[must_use]
    pub fn svg(&self) -> Option<Svg> {
        let series = self.visible();
        let range = |index: usize, axis: &Axis| {
            if let Some([least, most]) = axis.range {
                return least..most;
            }
            let values = series.iter().flatten().map(|point| point[index]);
            let least = values.clone().fold(f64::INFINITY, f64::min);
            let most = values.fold(f64::NEG_INFINITY, f64::max);
            let margin = match most - least {
                // A single value, with room on both sides.
                0.0 => most.abs().max(1.0) / 2.0,
                between => between * 0.04,
            };
            if axis.log {
                let room = if most == least { 2.0 } else { 1.1 };
                least / room..most * room
            } else if index == 1 && least >= 0.0 {
                // Amounts begin at nothing.
                0.0..most + margin
            } else {
                least - margin..most + margin
            }
        };
        if series.iter().all(Vec::is_empty) {
            return None;
        }
        let (x, y) = (range(0, &self.x), range(1, &self.y));
        Some(draw(SIZE, |area| match (self.x.log, self.y.log) {
            (false, false) => self.draw(area, &series, linear(x), linear(y)),
            (true, false) => self.draw(area, &series, log(x), linear(y)),
            (false, true) => self.draw(area, &series, linear(x), log(y)),
            (true, true) => self.draw(area, &series, log(x), log(y)),
        }))
    }

    /// With its title and a key.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let names = self.series.iter().map(|series| series.name.as_str());
        Figure::new(&self.title, self.svg()).series(names)
    }

    fn draw<X, Y>(
        &self,
        area: &Area<'_>,
        series: &[Vec<[f64; 2]>],
        x: Labelled<X>,
        y: Labelled<Y>,
    ) -> Plotted
    where
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let (x_ticks, y_ticks) = (x.ticks.clone(), y.ticks.clone());
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(20)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.name)
            .y_desc(&self.y.name)
            .x_label_formatter(&|value| x_ticks.label(*value))
            .y_label_formatter(&|value| y_ticks.label(*value))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (position, points) in series.iter().enumerate() {
            let points: Vec<(f64, f64)> = points.iter().map(|&[x, y]| (x, y)).collect();
            line(&mut chart, position, &points)?;
            const POINTS_MAX: usize = 40;
            if points.len() <= POINTS_MAX {
                let style = colour(position).filled();
                chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, style)))?;
            }
        }
        Ok(())
    }
}

/// Bars side by side: for each group one a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    pub title: String,
    /// What the bars' lengths are, with the unit.
    pub y: Axis,
    /// Names of the groups, from left to right.
    pub groups: Vec<String>,
    /// Of each series: its name, and a value a group; none where nothing was measured.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

impl Bars {
    /// As SVG. None when there is nothing to show. Bars begin at 0, so the axis is never logarithmic.
    #[must_use]
    pub fn svg(&self) -> Option<Svg> {
        let values = self.series.iter().flat_map(|(_, values)| values);
        let most = values
            .flatten()
            .copied()
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        (most > 0.0 && !self.groups.is_empty()).then(|| draw(SIZE, |area| self.draw(area, most)))
    }

    /// With its title and a key.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let names = self.series.iter().map(|(name, _)| name.as_str());
        Figure::new(&self.title, self.svg()).series(names)
    }

    fn draw(&self, area: &Area<'_>, most: f64) -> Plotted {
        let count = self.groups.len();
        let y = linear(0.0..most * 1.05);
        let ticks = y.ticks.clone();
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(20)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(groups(count), y)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_desc(&self.y.name)
            .x_label_formatter(&|at| self.groups.get(*at as usize).cloned().unwrap_or_default())
            .y_label_formatter(&|value| ticks.label(*value))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        let width = 0.8 / self.series.len().max(1) as f64;
        for (position, (_, values)) in self.series.iter().enumerate() {
            let style = colour(position).filled();
            let bars = values.iter().take(count).enumerate();
            let bars = bars.filter_map(|(group, value)| {
                let value = value.filter(|value| value.is_finite())?;
                let left = group as f64 + 0.1 + position as f64 * width;
                Some(Rectangle::new(
                    [(left, 0.0), (left + width * 0.92, value)],
                    style,
                ))
            });
            chart.draw_series(bars)?;
        }
        Ok(())
    }
}

/// An axis with labels of its own.
struct Labelled<R> {
    range: R,
    ticks: Ticks,
}

fn linear(range: Range<f64>) -> Labelled<RangedCoordf64> {
    Labelled {
        ticks: Ticks::linear(range.start, range.end),
        range: range.into(),
    }
}

fn log(range: Range<f64>) -> Labelled<LogCoord<f64>> {
    Labelled {
        ticks: Ticks::log(range.start, range.end),
        range: range.log_scale().into(),
    }
}

impl<R: Ranged<ValueType = f64>> Ranged for Labelled<R> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(value, limit)
    }

    fn key_points<H: plotters::coord::ranged1d::KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.ticks.values().to_vec()
    }

    fn range(&self) -> Range<f64> {
        self.range.range()
    }
}

impl<R: Ranged<ValueType = f64>> ValueFormatter<f64> for Labelled<R> {}

/// An axis of groups: each one unit wide, its name in the middle.
fn groups(count: usize) -> Labelled<RangedCoordf64> {
    Labelled {
        ticks: Ticks::at((0..count).map(|group| group as f64 + 0.5)),
        range: (0.0..count as f64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(log: bool, points: &[[f64; 2]]) -> Lines {
        let axis = |name: &str| Axis {
            log,
            ..Axis::linear(name)
        };
        Lines {
            title: "a plot".into(),
            x: axis("TPCs"),
            y: axis("latency, us"),
            series: vec![Series {
                name: "ours".into(),
                points: points.to_vec(),
            }],
        }
    }

    #[test]
    fn lines_are_drawn_on_both_kinds_of_axes_and_say_what_they_show() {
        for log in [false, true] {
            let svg = lines(log, &[[1.0, 800.0], [2.0, 420.0], [4.0, 230.0]]);
            let svg = svg.svg().expect("points");
            let svg = svg.as_str();
            assert!(svg.contains("TPCs") && svg.contains("latency, us"), "{svg}");
            assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn one_point_and_equal_points_can_be_shown() {
        for points in [&[[3.0, 5.0]][..], &[[0.0, 0.0], [0.0, 0.0]]] {
            assert!(lines(false, points).svg().is_some(), "{points:?}");
        }
    }

    #[test]
    fn what_no_axis_can_show_is_left_out() {
        assert_eq!(lines(false, &[]).svg(), None);
        assert_eq!(lines(false, &[[f64::NAN, 1.0]]).svg(), None);
        assert_eq!(lines(true, &[[0.0, 1.0], [1.0, -1.0]]).svg(), None);
        assert!(lines(true, &[[0.0, 1.0], [1.0, 1.0]]).svg().is_some());
    }

    #[test]
    fn bars_have_one_rectangle_a_value_and_the_names_of_their_groups() {
        let mut bars = Bars {
            title: "DISB".into(),
            y: Axis::linear("ms"),
            groups: vec!["A".into(), "B".into()],
            series: vec![
                ("alone".into(), vec![Some(4.0), Some(5.0)]),
                ("ours".into(), vec![Some(4.1), None]),
            ],
        };
        let all = bars.svg().expect("values");
        let all = all.as_str().matches("<rect").count();
        bars.series[1].1[1] = Some(5.2);
        let svg = bars.svg().expect("values");
        let svg = svg.as_str();
        assert_eq!(svg.matches("<rect").count(), all + 1);
        assert!(
            svg.contains(">\nA\n</text>") && svg.contains(">\nB\n</text>"),
            "{svg}"
        );
        bars.series.clear();
        assert_eq!(bars.svg(), None);
    }
}
