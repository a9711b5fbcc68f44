//! The duty cycles as a picture: a lane for each partition, a block for each batch.

use std::fmt::Write as _;

use crate::plan::{FleetPlan, NodePlan};
use crate::report::ms;

/// Lanes in one picture; a larger fleet shows its first ones and says so.
const LANES_MAX: usize = 100;
const LANE: f64 = 30.0;
const LEFT: f64 = 190.0;
const TOP: f64 = 46.0;
const WIDTH: f64 = 760.0;
const RIGHT: f64 = 70.0;
/// Tol's light palette without its grey: told apart also by the colour-blind, and black text on it can be read.
const COLOURS: [&str; 8] = [
    "#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00",
];

impl FleetPlan {
    /// The picture, as an SVG document of its own. Same plan, same text.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let shown = &self.nodes[..self.nodes.len().min(LANES_MAX)];
        let longest = shown
            .iter()
            .map(|node| ms(node.duty_cycle))
            .fold(1e-6, f64::max);
        let legend = self.sessions.len().min(LANES_MAX);
        let below = TOP + LANE * shown.len() as f64;
        let height = below + 60.0 + 18.0 * legend as f64;
        let width = LEFT + WIDTH + RIGHT;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        let more = self.nodes.len() - shown.len();
        let more = if more > 0 {
            format!(" (and {more} more)")
        } else {
            String::new()
        };
        text(
            &mut svg,
            (12.0, 22.0),
            "start",
            &format!("Duty cycles of {} partitions{more}", shown.len()),
        );
        for (lane, node) in shown.iter().enumerate() {
            self.lane(&mut svg, node, TOP + LANE * lane as f64, WIDTH / longest);
        }
        axis(&mut svg, below, longest);
        for (position, session) in self.sessions.iter().take(legend).enumerate() {
            let y = below + 48.0 + 18.0 * position as f64;
            let colour = COLOURS[position % COLOURS.len()];
            let _ = writeln!(
                svg,
                "<rect x=\"12\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\" stroke=\"#333333\"/>",
                y - 10.0
            );
            let label = format!(
                "{position} {}: {}, deadline {}",
                session.title(),
                session.rate_hz,
                session.deadline
            );
            text(&mut svg, (30.0, y), "start", &label);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn lane(&self, svg: &mut String, node: &NodePlan, y: f64, scale: f64) {
        let name = format!("{} {}, {} units", node.board, node.board_number, node.units);
        text(svg, (LEFT - 10.0, y + 18.0), "end", &name);
        let end = LEFT + ms(node.duty_cycle) * scale;
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"#eeeeee\" stroke=\"#333333\"/>",
            y + 3.0,
            end - LEFT,
            LANE - 6.0
        );
        let mut x = LEFT;
        for run in &node.runs {
            let width = ms(run.time) * scale;
            let colour = COLOURS[run.session % COLOURS.len()];
            let title = self.sessions[run.session].title();
            let _ = writeln!(
                svg,
                "<g><title>{}: batch {} in {}</title><rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{width:.2}\" \
                 height=\"{:.1}\" fill=\"{colour}\" stroke=\"#333333\"/>",
                escaped(&title),
                run.batch,
                run.time,
                y + 3.0,
                LANE - 6.0
            );
            let label = format!("{} x{}", run.session, run.batch);
            // Text that would run over the block's edge stays in the tooltip only.
            if width > 7.0 * label.len() as f64 {
                text(svg, (x + width / 2.0, y + 19.0), "middle", &label);
            }
            svg.push_str("</g>\n");
            x += width;
        }
        let occupancy = format!("{:.0}%", node.occupancy * 100.0);
        text(svg, (end + 6.0, y + 18.0), "start", &occupancy);
    }
}

/// Ticks at a round distance, ten at most.
fn axis(svg: &mut String, y: f64, longest: f64) {
    let mut step = 10_f64.powf((longest / 10.0).log10().floor());
    for factor in [2.0, 2.5, 2.0] {
        if longest / step > 10.0 {
            step *= factor;
        }
    }
    let ticks = (longest / step).floor() as usize;
    for tick in 0..=ticks {
        let at = step * tick as f64;
        let x = LEFT + at * WIDTH / longest;
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.2}\" y1=\"{y:.1}\" x2=\"{x:.2}\" y2=\"{:.1}\" stroke=\"#333333\"/>",
            y + 5.0
        );
        let places = usize::from(step < 1.0) * 3;
        text(svg, (x, y + 19.0), "middle", &format!("{at:.places$}"));
    }
    text(svg, (LEFT + WIDTH + 22.0, y + 19.0), "start", "ms");
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.2}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(text)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
