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
    Colour(186, 228, 188),
    Colour(123, 204, 196),
    Colour(67, 162, 202),
    Colour(8, 104, 172),
    Colour(8, 64, 129),
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
