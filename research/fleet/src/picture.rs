//! The duty cycles as a picture: a lane for each partition, a block for each batch.

use punctual_report::{Anchor, Drawing, Style, Ticks};

use crate::plan::{FleetPlan, NodePlan};
use crate::report::ms;

/// Lanes in one picture; a larger fleet shows its first ones, with a note.
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
        let more = match self.nodes.len() - shown.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let title = format!("Duty cycles of {} partitions{more}", shown.len());
        let mut drawing = Drawing::new(LEFT + WIDTH + RIGHT, height, &title);
        drawing.paper();
        drawing.text((12.0, 22.0), Anchor::Start, &title);
        for (lane, node) in shown.iter().enumerate() {
            self.lane(
                &mut drawing,
                node,
                TOP + LANE * lane as f64,
                WIDTH / longest,
            );
        }
        axis(&mut drawing, below, longest);
        for (position, session) in self.sessions.iter().take(legend).enumerate() {
            let y = below + 48.0 + 18.0 * position as f64;
            drawing.rect(
                (12.0, y - 10.0),
                (12.0, 12.0),
                &outlined(colour(position), ""),
            );
            let label = format!(
                "{position} {}: {}, deadline {}",
                session.title(),
                session.rate_hz,
                session.deadline
            );
            drawing.text((30.0, y), Anchor::Start, &label);
        }
        drawing.svg().as_str().to_owned() + "\n"
    }

    fn lane(&self, drawing: &mut Drawing, node: &NodePlan, y: f64, scale: f64) {
        let name = format!("{} {}, {} units", node.board, node.board_number, node.units);
        drawing.text((LEFT - 10.0, y + 18.0), Anchor::End, &name);
        let (top, high) = (y + 3.0, LANE - 6.0);
        let whole = ms(node.duty_cycle) * scale;
        drawing.rect((LEFT, top), (whole, high), &outlined("none", ""));
        let mut x = LEFT;
        for run in &node.runs {
            let width = ms(run.time) * scale;
            let name = self.sessions[run.session].title();
            let title = format!("{name}: batch {} in {}", run.batch, run.time);
            drawing.rect(
                (x, top),
                (width, high),
                &outlined(colour(run.session), &title),
            );
            let label = format!("{} x{}", run.session, run.batch);
            // Text that would run over the block's edge stays in the tooltip only.
            if width > 7.0 * label.len() as f64 {
                drawing.text((x + width / 2.0, y + 19.0), Anchor::OnBar, &label);
            }
            x += width;
        }
        let occupancy = format!("{:.0}%", node.occupancy * 100.0);
        drawing.text((LEFT + whole + 6.0, y + 18.0), Anchor::Start, &occupancy);
    }
}

const fn colour(session: usize) -> &'static str {
    COLOURS[session % COLOURS.len()]
}

const fn outlined<'s>(fill: &'s str, title: &'s str) -> Style<'s> {
    Style {
        fill,
        stroke: "currentColor",
        title,
    }
}

fn axis(drawing: &mut Drawing, y: f64, longest: f64) {
    let ticks = Ticks::linear(0.0, longest);
    for &at in ticks.values() {
        let x = LEFT + at * WIDTH / longest;
        drawing.line((x, y), (x, y + 5.0), "currentColor");
        drawing.text((x, y + 19.0), Anchor::Middle, &ticks.label(at));
    }
    drawing.text((LEFT + WIDTH + 22.0, y + 19.0), Anchor::Start, "ms");
}
