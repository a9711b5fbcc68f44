//! Colours that people with any colour vision tell apart (Okabe and Ito, 2008), on light and dark.

use std::fmt;

/// Red, green, blue. Its `Display` is CSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// For policies and tasks, by position.
const COLOURS: [Colour; 7] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(230, 159, 0),
    Colour(86, 180, 233),
    Colour(148, 130, 60),
];

/// For exits, from the shallowest: the deeper the darker.
const EXITS: [Colour; 5] = [
    Colour(125, 195, 150),
    Colour(85, 175, 175),
    Colour(60, 145, 190),
    Colour(45, 120, 190),
    Colour(40, 95, 180),
];

impl Colour {
    /// Of the policy or task at a position.
    #[must_use]
    pub const fn of(position: usize) -> Self {
        COLOURS[position % COLOURS.len()]
    }

    /// Whether the line at a position is dashed: colours repeat after the last.
    #[must_use]
    pub const fn dashed(position: usize) -> bool {
        position / COLOURS.len() % 2 == 1
    }

    /// Of an exit of `exits`: in between, mixed of its neighbours.
    #[must_use]
    pub fn of_exit(exit: usize, exits: usize) -> Self {
        let steps = exits.max(2) - 1;
        let place = (exit.min(steps) * (EXITS.len() - 1)) as f64 / steps as f64;
        let below = (place as usize).min(EXITS.len() - 2);
        let share = place - below as f64;
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share) as u8;
        let (low, high) = (EXITS[below], EXITS[below + 1]);
        Self(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of its light, 0 to 1 (WCAG 2.2).
    fn luminance(Colour(red, green, blue): Colour) -> f64 {
        let linear = |part: u8| match f64::from(part) / 255.0 {
            dark if dark <= 0.040_45 => dark / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(a: Colour, b: Colour) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    #[test]
    fn every_colour_is_seen_on_the_paper_of_both_schemes() {
        let papers = [Colour(0xff, 0xff, 0xff), Colour(0x16, 0x18, 0x1b)];
        for paper in papers {
            let css = include_str!("page.css");
            assert!(css.contains(&format!("--paper: {paper};")), "{paper}");
            for colour in COLOURS.into_iter().chain(EXITS) {
                let contrast = contrast(colour, paper);
                assert!(contrast >= 2.0, "{colour} on {paper}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn the_deeper_the_exit_the_darker() {
        assert!(EXITS.map(luminance).is_sorted_by(|a, b| a > b));
    }
}
