//! Calibration as charts: accuracy and depth against the threshold, and whether confidence is met.

use punctual_report::{Axis, Lines, Series};

use super::report::{ExitReport, Report, ThresholdReport};

pub fn charts(report: &Report) -> [Lines; 3] {
    let [plain, divided] = ["Is confidence met?", "Is it met with temperatures?"];
    [
        thresholds(report),
        reliability(report, plain, |exit| &exit.reliability),
        reliability(report, divided, |exit| &exit.reliability_scaled),
    ]
}

/// Accuracy and the share of the depth that is used, against the threshold.
fn thresholds(report: &Report) -> Lines {
    let exits = report.exits.len() as f64;
    let line = |name: &str, percent: &dyn Fn(&ThresholdReport) -> f64| {
        let points = report.thresholds.iter();
        Series {
            name: name.to_owned(),
            points: points.map(|t| [t.threshold, percent(t)]).collect(),
        }
    };
    Lines {
        title: "What a threshold does".to_owned(),
        x: Axis::linear("threshold"),
        y: Axis::percent("%"),
        series: vec![
            line("answers that are right", &|t| t.accuracy * 100.0),
            line("stages run, of all", &|t| t.depth / exits * 100.0),
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
