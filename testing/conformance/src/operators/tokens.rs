//! Pixels in a row behind constant tokens.

use punctual_model::{TensorId, Tokens};

use super::{Builder, Mutable, Operator, Random, Site, below};

impl Builder {
    /// All pixels in a row behind one constant token.
    pub fn tokens(&mut self, input: TensorId) -> TensorId {
        let shape = self.shape(input);
        let table = self.draw(shape.channels * (shape.pixels() as u32 + 1), 3);
        self.push_weighted(&[input], Tokens { prefix: 1 }, &[table])
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let prefix = below(3, random);
    site.operator(&[], Tokens { prefix })
}

impl Mutable for Tokens {
    fn vary(&mut self, random: &mut Random) {
        self.prefix = below(4, random);
    }
}
