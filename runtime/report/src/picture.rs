//! Plots that stand alone, for documents: with a background, and a key of the policies.

use crate::palette::{colour, css, dashed};

const LINE: usize = 22;
const COLUMNS: usize = 4;

/// A plot as a picture of its own: black on white, a key of the policies below.
#[must_use]
pub fn picture(plot: &str, policies: &[&str]) -> String {
    let plot = plot.replace("currentColor", "#000000");
    let (width, height) = (number(&plot, "width"), number(&plot, "height"));
    let rows = policies.len().div_ceil(COLUMNS);
    let whole = height + rows * LINE + LINE / 2;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{whole}\" \
         viewBox=\"0 0 {width} {whole}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{plot}\n"
    );
    for (position, policy) in policies.iter().enumerate() {
        let x = 30 + position % COLUMNS * (width - 40) / COLUMNS;
        let y = height + position / COLUMNS * LINE + LINE / 2;
        let colour = css(colour(position));
        let dashes = if dashed(position) {
            " stroke-dasharray=\"6 4\""
        } else {
            ""
        };
        svg.push_str(&format!(
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" \
             stroke-width=\"3\"{dashes}/><text x=\"{}\" y=\"{}\">{policy}</text>\n",
            x + 24,
            x + 32,
            y + 5
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The first number of an attribute.
fn number(svg: &str, attribute: &str) -> usize {
    let value = svg.split(&format!("{attribute}=\"")).nth(1);
    let digits = value.map(|rest| {
        rest.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    });
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_plot_and_every_policy_below_it() {
        let plot = "<svg width=\"640\" height=\"400\"><path stroke=\"currentColor\"/></svg>";
        let svg = picture(plot, &["punctual", "seeb", "batch", "deeprt", "seq"]);
        assert!(svg.contains("height=\"455\""), "{svg}");
        assert!(svg.contains("stroke=\"#000000\"") && !svg.contains("currentColor"));
        assert_eq!(svg.matches("<text").count(), 5);
    }
}
