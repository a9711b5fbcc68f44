//! Charts that stand alone, for documents: with a background, and a key of their series.

use maud::{Markup, PreEscaped, html};

use crate::palette::Colour;
use crate::plot::SIZE;
use crate::svg::Svg;

const LINE: usize = 22;
const COLUMNS: usize = 4;

/// Charts beside each other as a picture of its own: black on white, below each a key of its series' names.
#[must_use]
pub fn picture(charts: &[(Svg, Vec<&str>)]) -> Svg {
    let (width, height) = (SIZE.0 as usize, SIZE.1 as usize);
    let rows = charts
        .iter()
        .map(|(_, names)| names.len().div_ceil(COLUMNS));
    let height = height + rows.max().unwrap_or(0) * LINE + LINE / 2;
    let all = width * charts.len();
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(all) height=(height)
            viewBox={ "0 0 " (all) " " (height) } font-family="sans-serif" font-size="14" {
            rect width="100%" height="100%" fill="#ffffff" {}
            @for (at, (chart, names)) in charts.iter().enumerate() {
                g transform={ "translate(" (at * width) " 0)" } {
                    (PreEscaped(chart.as_str().replace("currentColor", "#000000")))
                    @for (position, name) in names.iter().enumerate() { (entry(position, name)) }
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
        text x=(x + 32) y=(y + 5) { (name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_plot_and_every_policy_below_it() {
        let plot = Svg::trusted("<svg><path stroke=\"currentColor\"/></svg>".into());
        let policies = vec!["punctual", "seeb", "batch", "deeprt", "<seq>"];
        let svg = picture(&[(plot, policies)]);
        let svg = svg.as_str();
        assert!(svg.contains("height=\"455\""), "{svg}");
        assert!(svg.contains("stroke=\"#000000\"") && !svg.contains("currentColor"));
        assert_eq!(svg.matches("<text").count(), 5);
        assert!(svg.contains(">&lt;seq&gt;<"), "{svg}");
    }
}
