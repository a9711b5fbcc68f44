//! Charts that stand alone, for documents: with a background, and a key of their series.

use maud::{Markup, PreEscaped, html};

use crate::charts::Lines;
use crate::page::NOTHING;
use crate::palette::Colour;
use crate::plot::SIZE;
use crate::svg::Svg;
use crate::text::printable;

const LINE: usize = 22;
const COLUMNS: usize = 4;

/// Charts next to each other as a picture of its own: black on white, each with its title above and a key of
/// its series below.
#[must_use]
pub fn picture(charts: &[Lines]) -> Svg {
    let (width, height) = (SIZE.0 as usize, SIZE.1 as usize);
    let rows = charts
        .iter()
        .map(|chart| chart.series.len().div_ceil(COLUMNS));
    let height = LINE + height + rows.max().unwrap_or(0) * LINE + LINE / 2;
    let all = width * charts.len();
    let black = |svg: Svg| PreEscaped(svg.as_str().replace("currentColor", "#000000"));
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(all) height=(height)
            viewBox={ "0 0 " (all) " " (height) } font-family="sans-serif" font-size="14" {
            rect width="100%" height="100%" fill="#ffffff" {}
            @for (at, chart) in charts.iter().enumerate() {
                text x=(at * width + 30) y=(LINE) font-weight="bold" { (printable(&chart.title)) }
                g transform={ "translate(" (at * width) " " (LINE) ")" } {
                    @match chart.svg() {
                        Some(svg) => (black(svg)),
                        None => text x="30" y="30" { (NOTHING) },
                    }
                    @for (position, series) in chart.series.iter().enumerate() { (entry(position, &series.name)) }
                }
            }
        }
    };
    Svg::trusted(svg.into_string() + "\n")
}

fn entry(position: usize, name: &str) -> Markup {
    let (width, height) = (SIZE.0 as usize, SIZE.1 as usize);
    let x = 30 + position % COLUMNS * (width - 40) / COLUMNS;
    let y = height + position / COLUMNS * LINE + LINE / 2;
    let dashes = Colour::dashed(position).then_some("6 4");
    html! {
        line x1=(x) y1=(y) x2=(x + 24) y2=(y) stroke=(Colour::of(position)) stroke-width="3"
            stroke-dasharray=[dashes] {}
        text x=(x + 32) y=(y + 5) { (printable(name)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::Series;

    #[test]
    fn a_picture_has_its_plot_and_every_policy_below_it() {
        let line = |name: &str| Series {
            name: name.to_owned(),
            points: vec![[1.0, 2.0]],
        };
        let names = ["punctual", "seeb", "batch", "deeprt", "<seq>"];
        let chart = Lines {
            series: names.map(line).to_vec(),
            ..Lines::default()
        };
        let svg = picture(&[chart, Lines::default()]);
        let svg = svg.as_str();
        assert!(svg.contains("height=\"477\""), "{svg}");
        assert!(svg.contains("stroke=\"#000000\"") && !svg.contains("currentColor"));
        let shown = |name: &str| svg.matches(&format!(">{name}</text>")).count();
        assert!(names[..4].iter().all(|name| shown(name) == 1), "{svg}");
        assert_eq!([shown("&lt;seq&gt;"), shown(NOTHING)], [1, 1]);
    }
}
