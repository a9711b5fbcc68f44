//! Calibration as a picture: accuracy and depth against the threshold, and whether confidence is met.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::report::Report;

const SIZE: (u32, u32) = (1080, 460);
const FONT: (&str, u32) = ("sans-serif", 16);
const TITLE: (&str, u32) = ("sans-serif", 18);
/// What plotters writes for black: text and axes, which shall be the page's colour.
const BLACK_INK: &str = "#000000";
/// Told apart with any colour vision (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawing = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The picture as SVG; text and axes take the colour of the page.
///
/// Writing to memory cannot fail, and all ranges are finite and not empty, so an error is a mistake in here.
pub fn svg(report: &Report) -> String {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let (left, right) = area.split_horizontally(SIZE.0 / 2);
        thresholds(&left, report).expect("a plot into memory");
        reliability(&right, report).expect("a plot into memory");
        area.present().expect("a plot into memory");
    }
    svg.replace(BLACK_INK, "currentColor")
}

/// Accuracy and the share of the depth that is used, against the threshold.
fn thresholds(area: &Area<'_>, report: &Report) -> Drawing {
    let mut chart = ChartBuilder::on(area)
        .caption("what a threshold does", TITLE)
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..1.0, 0.0..102.0)?;
    chart
        .configure_mesh()
        .x_desc("threshold")
        .y_desc("%")
        .label_style(FONT)
        .draw()?;
    let exits = report.exits.len() as f64;
    let accuracy = report
        .thresholds
        .iter()
        .map(|t| (t.threshold, t.accuracy * 100.0));
    let depth = report
        .thresholds
        .iter()
        .map(|t| (t.threshold, t.depth / exits * 100.0));
    let (right, deep) = (COLOURS[0].stroke_width(2), COLOURS[1].stroke_width(2));
    chart
        .draw_series(LineSeries::new(accuracy, right))?
        .label("answers that are right")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], right));
    chart
        .draw_series(LineSeries::new(depth, deep))?
        .label("stages run, of all")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], deep));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(FONT)
        .draw()
}

/// Accuracy against confidence, a line an exit; on the diagonal confidence is met.
fn reliability(area: &Area<'_>, report: &Report) -> Drawing {
    let title = if report.scaled {
        "is confidence met? (with temperatures)"
    } else {
        "is confidence met? (dashed: with temperatures)"
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, TITLE)
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..100.0, 0.0..102.0)?;
    chart
        .configure_mesh()
        .x_desc("confidence, %")
        .y_desc("right, %")
        .label_style(FONT)
        .draw()?;
    let diagonal = BLACK.mix(0.35).stroke_width(1);
    chart.draw_series(LineSeries::new([(0.0, 0.0), (100.0, 100.0)], diagonal))?;
    let percent =
        |&(confidence, accuracy, _): &(f64, f64, usize)| (confidence * 100.0, accuracy * 100.0);
    for exit in &report.exits {
        let style = COLOURS[exit.exit % COLOURS.len()].stroke_width(2);
        let (drawn, dashed) = if report.scaled {
            (&exit.reliability_scaled, None)
        } else {
            (&exit.reliability, Some(&exit.reliability_scaled))
        };
        chart
            .draw_series(LineSeries::new(drawn.iter().map(percent), style).point_size(3))?
            .label(format!("exit {}", exit.exit))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        if let Some(dashed) = dashed {
            chart.draw_series(DashedLineSeries::new(
                dashed.iter().map(percent),
                5,
                4,
                style,
            ))?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(FONT)
        .draw()
}
