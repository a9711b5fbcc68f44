//! Calibration as charts: accuracy and depth against the threshold, and whether confidence is met.

use punctual_report::{Axis, Figure, Lines, Series, Svg, picture};

use super::report::{ExitReport, Report};

/// The charts as one picture of its own.
pub fn svg(report: &Report) -> Svg {
    let charts = charts(report);
    let shown = charts.iter().filter_map(|chart| {
        let names = chart.series.iter().map(|series| series.name.as_str());
        Some((chart.svg()?, names.collect()))
    });
    picture(&shown.collect::<Vec<_>>())
}

/// The charts for a page.
pub fn figures(report: &Report) -> Vec<Figure> {
    let figure = |chart: &Lines| {
        let names = chart.series.iter().map(|series| series.name.as_str());
        Figure::new(&chart.title, chart.svg()).series(names)
    };
    charts(report).iter().map(figure).collect()
}

fn charts(report: &Report) -> [Lines; 3] {
    [
        thresholds(report),
        reliability(report, "Is confidence met?", |exit| &exit.reliability),
        reliability(report, "Is it met with temperatures?", |exit| {
            &exit.reliability_scaled
        }),
    ]
}

/// Accuracy and the share of the depth that is used, against the threshold.
fn thresholds(report: &Report) -> Lines {
    let exits = report.exits.len() as f64;
    let thresholds = report.thresholds.iter();
    let line = |name: &str, points: Vec<[f64; 2]>| Series {
        name: name.to_owned(),
        points,
    };
    Lines {
        title: "What a threshold does".to_owned(),
        x: Axis::linear("threshold"),
        y: Axis::percent("%"),
        series: vec![
            line(
                "answers that are right",
                thresholds
                    .clone()
                    .map(|t| [t.threshold, t.accuracy * 100.0])
                    .collect(),
            ),
            line(
                "stages run, of all",
                thresholds
                    .map(|t| [t.threshold, t.depth / exits * 100.0])
                    .collect(),
            ),
        ],
    }
}

/// Accuracy against confidence, a line an exit; on the diagonal confidence is met.
fn reliability(
    report: &Report,
    title: &str,
    of: impl Fn(&ExitReport) -> &Vec<(f64, f64, usize)>,
) -> Lines {
    let line = |exit: &ExitReport| Series {
        name: format!("exit {}", exit.exit),
        points: of(exit)
            .iter()
            .map(|(confidence, accuracy, _)| [confidence * 100.0, accuracy * 100.0])
            .collect(),
    };
    let met = Series {
        name: "met".to_owned(),
        points: vec![[0.0, 0.0], [100.0, 100.0]],
    };
    Lines {
        title: title.to_owned(),
        x: Axis::percent("confidence, %"),
        y: Axis::percent("right, %"),
        series: report.exits.iter().map(line).chain([met]).collect(),
    }
}
