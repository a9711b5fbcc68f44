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
pub(super) fn colour(position: usize) -> RGBColor {
    COLOURS[position % COLOURS.len()]
}

/// Whether the line at a position is dashed: colours repeat after the last.
#[must_use]
pub(super) const fn dashed(position: usize) -> bool {
    position / COLOURS.len() % 2 == 1
}

/// The colour of an exit of `exits`.
#[must_use]
pub(super) fn exit_colour(exit: usize, exits: usize) -> RGBColor {
    let last = EXITS.len() - 1;
    let at = if exits <= 1 {
        last
    } else {
        exit * last / (exits - 1)
    };
    EXITS[at.min(last)]
}

/// As HTML writes it.
#[must_use]
pub(super) fn css(colour: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}
