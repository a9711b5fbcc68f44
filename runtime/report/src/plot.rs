//! Plots as SVG, by `plotters`. Text and axes take the colour of the page.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::palette::Colour;
use crate::svg::Svg;

/// Of a plot, in pixels. On a telephone of 400 pixels it is shown at 0.7 of that, and its labels can still be read.
pub(crate) const SIZE: (u32, u32) = (520, 340);
/// Of labels: its family, its size in pixels. `plotters` writes four fifths of it.
pub(crate) const FONT: (&str, u32) = ("sans-serif", 18);
/// What plotters writes for black: text and axes, which shall be the page's colour.
const BLACK_INK: &str = "#000000";

/// What a plot is drawn on.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Whether it was drawn.
pub(crate) type Plotted = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws into a string. Writing to memory cannot fail, and every range below is finite and not
/// empty, so an error is a mistake in here.
pub(crate) fn draw(size: (u32, u32), with: impl FnOnce(&Area<'_>) -> Plotted) -> Svg {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        with(&area).expect("a plot into memory");
        area.present().expect("a plot into memory");
    }
    Svg::trusted(svg.replace(BLACK_INK, "currentColor"))
}

pub(crate) const fn rgb(Colour(red, green, blue): Colour) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Of the series at a position.
pub(crate) const fn colour(position: usize) -> RGBColor {
    rgb(Colour::of(position))
}

/// A line in the colour, and with the dashes, of a position.
pub(crate) fn line<X, Y>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    position: usize,
    points: &[(f64, f64)],
) -> Plotted
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let style = colour(position).stroke_width(2);
    if Colour::dashed(position) {
        chart.draw_series(DashedLineSeries::new(points.iter().copied(), 6, 4, style))?;
    } else {
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
    }
    Ok(())
}
