//! Charts that stand alone, for documents: with a paper of their own, and a key of their series.

use maud::{Markup, html};

use crate::charts::Lines;
use crate::page::NOTHING;
use crate::palette::Colour;
use crate::plot::SIZE;
use crate::svg::{Svg, paper};
use crate::text::printable;

const LINE: usize = 22;
/// Of charts side by side.
const COLUMNS: usize = 2;
/// From the left of a chart to its title and its key.
const INSET: usize = 30;
/// Of a letter, at most, and of what stands before and behind a name in a key.
const LETTER: usize = 9;
const MARK: usize = 56;

/// Charts as a picture of its own, two side by side: dark on light or, where its reader wants that, light on dark; each with its title
/// above and a key of its series below.
#[must_use]
pub fn picture(charts: &[Lines]) -> Svg {
    let (width, plot) = (SIZE.0 as usize, SIZE.1 as usize);
    let keys: Vec<Vec<Entry>> = charts.iter().map(key).collect();
    let lines = keys.iter().filter_map(|key| Some(key.last()?.line + 1));
    let height = LINE + plot + lines.max().unwrap_or(0) * LINE + LINE / 2;
    let (wide, tall) = (
        charts.len().min(COLUMNS) * width,
        charts.len().div_ceil(COLUMNS) * height,
    );
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(wide) height=(tall)
            viewBox={ "0 0 " (wide) " " (tall) } font-family="sans-serif" font-size="14" fill="currentColor" {
            (paper())
            @for (at, (chart, key)) in charts.iter().zip(&keys).enumerate() {
                g transform={ "translate(" (at % COLUMNS * width) " " (at / COLUMNS * height) ")" } {
                    text x=(INSET) y=(LINE) font-weight="bold" { (printable(&chart.title)) }
                    g transform={ "translate(0 " (LINE) ")" } {
                        @match chart.svg() {
                            Some(svg) => (svg),
                            None => text x=(INSET) y="30" { (NOTHING) },
                        }
                        @for (position, entry) in key.iter().enumerate() { (entry.markup(position)) }
                    }
                }
            }
        }
    };
    Svg::trusted(svg.into_string() + "\n")
}

/// A name in a key, and where it stands.
struct Entry<'n> {
    name: &'n str,
    left: usize,
    line: usize,
}

/// As many names in a line as there is room for.
fn key(chart: &Lines) -> Vec<Entry<'_>> {
    let (mut left, mut line) = (INSET, 0);
    let mut key = Vec::new();
    for series in &chart.series {
        let wide = series.name.chars().count() * LETTER + MARK;
        if left > INSET && left + wide > SIZE.0 as usize {
            (left, line) = (INSET, line + 1);
        }
        let name = &series.name;
        key.push(Entry { name, left, line });
        left += wide;
    }
    key
}

impl Entry<'_> {
    fn markup(&self, position: usize) -> Markup {
        let (x, y) = (self.left, SIZE.1 as usize + self.line * LINE + LINE / 2);
        let dashes = Colour::dashed(position).then_some("6 4");
        html! {
            line x1=(x) y1=(y) x2=(x + 24) y2=(y) stroke=(Colour::of(position)) stroke-width="3"
                stroke-dasharray=[dashes] {}
            text x=(x + 32) y=(y + 5) { (printable(self.name)) }
        }
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
        assert!(svg.contains("width=\"1040\" height=\"417\""), "{svg}");
        let shown = |name: &str| svg.matches(&format!(">{name}</text>")).count();
        assert!(names[..4].iter().all(|name| shown(name) == 1), "{svg}");
        assert_eq!([shown("&lt;seq&gt;"), shown(NOTHING)], [1, 1]);
    }
}
