//! Normalisation of each pixel's channels.

use punctual_model::{LayerNorm, TensorId};

use super::{Builder, Mutable, Operator, Random, Site, pick};

impl Builder {
    pub fn layer_norm(&mut self, input: TensorId) -> TensorId {
        let channels = self.shape(input).channels;
        let weights = [self.draw(channels, 3), self.draw(channels, 3)];
        self.push_weighted(&[input], LayerNorm { epsilon: 1e-5 }, &weights)
    }
}

pub(super) fn new(site: &Site<'_>, _: &mut Random) -> Operator {
    site.operator(&[], LayerNorm { epsilon: 1e-5 })
}

impl Mutable for LayerNorm {
    fn vary(&mut self, random: &mut Random) {
        self.epsilon = pick(&[1e-5, 1.0, 1e-30, 0.0, f32::NAN], random);
    }
}
