//! Rows of a table.

use punctual_model::{Embedding, TensorId};

use super::{Builder, Mutable, Random, below};

impl Builder {
    /// A row of a table of `rows` for each pixel.
    pub fn embedding(&mut self, input: TensorId, channels: u32, rows: u32) -> TensorId {
        let table = self.draw(rows * channels, 3);
        self.push_weighted(&[input], Embedding { channels }, &[table])
    }
}

impl Mutable for Embedding {
    fn vary(&mut self, random: &mut Random) {
        self.channels = below(20, random);
    }
}
