//! How large a batch of best-effort work may be.

/// What batches of best-effort work the gaps of a partition have had room for of late.
///
/// Promises: a batch that was stopped, and lost all that it did, is followed by smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct Gaps {
    places: u8,
    /// How many gaps were used since `places` was set.
    used: u8,
}

impl Gaps {
    pub const fn new() -> Self {
        Self {
            places: u8::MAX,
            used: 0,
        }
    }

    /// The largest batch that they have room for.
    pub const fn places(&self) -> u8 {
        self.places
    }

    /// A batch was stopped.
    pub fn was_short(&mut self, batch: u8) {
        self.places = (batch / 2).max(1);
        self.used = 0;
    }

    /// A batch came to its end: twice, and larger ones are tried again.
    pub fn was_long_enough(&mut self) {
        self.used += 1;
        if self.used == 2 {
            self.places = self.places.saturating_mul(2);
            self.used = 0;
        }
    }
}
