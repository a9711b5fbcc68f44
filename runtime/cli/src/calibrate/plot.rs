//! Calibration as charts: what a threshold does, what depth gains, and whether confidence is met.

use punctual_report::{Axis, Lines, Series};

use super::report::{ExitReport, Report, ThresholdReport};

type Bins = Vec<(f64, f64, usize)>;

/// Those of thresholds and confidence only where the network has one.
pub fn charts(report: &Report) -> Vec<Lines> {
    let plain = |exit: &ExitReport| Some(exit.confidence.as_ref()?.reliability.clone());
    let divided = |exit: &ExitReport| Some(exit.temperature.as_ref()?.reliability_scaled.clone());
    let charts = [
        (!report.thresholds.is_empty()).then(|| thresholds(report)),
        (report.exits.len() > 1).then(|| depth(report)),
        reliability(report, "Is confidence met?", plain),
        reliability(report, "Is it met with temperatures?", divided),
    ];
    charts.into_iter().flatten().collect()
}

/// Quality and the share of the depth that is used, against the threshold.
fn thresholds(report: &Report) -> Lines {
    let exits = report.exits.len() as f64;
    let line = |name: &str, percent: &dyn Fn(&ThresholdReport) -> f64| {
        let points = report.thresholds.iter();
        Series {
            name: name.to_owned(),
            points: points.map(|t| [t.threshold, percent(t)]).collect(),
        }
    };
    let quality = report.quality_name();
    let mut series = vec![
        line(quality, &|t| t.accuracy * 100.0),
        line("stages run", &|t| t.depth / exits * 100.0),
    ];
    let figures = report.exits[0].figures.iter().enumerate();
    for (at, figure) in figures.filter(|(_, figure)| figure.is_share) {
        series.push(line(figure.name, &|t| t.figures[at].value * 100.0));
    }
    Lines {
        title: "What a threshold does".to_owned(),
        x: Axis::linear("threshold"),
        y: Axis::percent("%"),
        series,
    }
}

/// Quality against depth: of frames that leave by their confidence, of as many that leave at random, and of the exits.
fn depth(report: &Report) -> Lines {
    let (quality, exits) = (report.quality_name(), &report.exits);
    let exit_depth = |exit: &ExitReport| (exit.exit + 1) as f64;
    let line = |name: &str, points: Vec<[f64; 2]>| Series {
        name: name.to_owned(),
        points,
    };
    let by_threshold = |share: fn(&ThresholdReport) -> f64| {
        let points = report.thresholds.iter();
        points.map(|t| [t.depth, share(t) * 100.0]).collect()
    };
    let at_exits = |share: &dyn Fn(&ExitReport) -> f64| {
        let points = exits.iter();
        points
            .map(|exit| [exit_depth(exit), share(exit) * 100.0])
            .collect()
    };
    let series = if report.thresholds.is_empty() {
        let mut series = vec![line(quality, at_exits(&|exit| exit.accuracy))];
        let figures = exits[0].figures.iter().enumerate();
        for (at, figure) in figures.filter(|(_, figure)| figure.is_share) {
            series.push(line(figure.name, at_exits(&|exit| exit.figures[at].value)));
        }
        series
    } else {
        vec![
            line("by confidence", by_threshold(|t| t.accuracy)),
            line("at random", by_threshold(|t| t.at_random)),
            line("all at an exit", at_exits(&|exit| exit.accuracy)),
        ]
    };
    // From the ten below the least, as what depth gains may be little.
    let shares = series.iter().flat_map(|series| &series.points);
    let least = shares.map(|point| point[1]).fold(100.0, f64::min);
    let range = Some([(least / 10.0).floor() * 10.0 - 1.0, 102.0]);
    Lines {
        title: "What depth gains".to_owned(),
        x: Axis::linear("stages run"),
        y: Axis {
            range,
            ..Axis::linear(&format!("{quality}, %"))
        },
        series,
    }
}

/// Quality against confidence, a line an exit; on the diagonal confidence is met. None without confidence.
fn reliability(
    report: &Report,
    title: &str,
    of: impl Fn(&ExitReport) -> Option<Bins>,
) -> Option<Lines> {
    let line = |exit: &ExitReport| {
        let bins = of(exit)?.into_iter();
        Some(Series {
            name: format!("exit {}", exit.exit),
            points: bins
                .map(|(confidence, quality, _)| [confidence * 100.0, quality * 100.0])
                .collect(),
        })
    };
    let lines: Option<Vec<Series>> = report.exits.iter().map(line).collect();
    let met = Series {
        name: "met".to_owned(),
        points: vec![[0.0, 0.0], [100.0, 100.0]],
    };
    Some(Lines {
        title: title.to_owned(),
        x: Axis::percent("confidence, %"),
        y: Axis::percent(&format!("{}, %", report.quality_name())),
        series: lines?.into_iter().chain([met]).collect(),
    })
}
