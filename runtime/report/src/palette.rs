//! Colours that people with any colour vision tell apart (Okabe and Ito, 2008), on light and dark.

use plotters::style::RGBColor;

/// For policies and tasks, by position.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(148, 130, 60),
];

/// For exits, from the shallowest: the deeper the darker.
const EXITS: [RGBColor; 5] = [
    RGBColor(186, 228, 188),
    RGBColor(123, 204, 196),
    RGBColor(67, 162, 202),
    RGBColor(8, 104, 172),
    RGBColor(8, 64, 129),
];

/// The colour of the policy or task at a position.
#[must_use]
pub fn colour(position: usize) -> RGBColor {
    COLOURS[position % COLOURS.len()]
}

/// Whether the line at a position is dashed: colours repeat after the last.
#[must_use]
pub const fn dashed(position: usize) -> bool {
    position / COLOURS.len() % 2 == 1
}

/// The colour of an exit of `exits`: in between, mixed of its neighbours.
#[must_use]
pub fn exit_colour(exit: usize, exits: usize) -> RGBColor {
    let steps = exits.max(2) - 1;
    let place = (exit.min(steps) * (EXITS.len() - 1)) as f64 / steps as f64;
    let below = (place as usize).min(EXITS.len() - 2);
    let share = place - below as f64;
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share) as u8;
    let (low, high) = (EXITS[below], EXITS[below + 1]);
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

#[must_use]
pub fn css(colour: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}
