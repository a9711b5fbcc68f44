//! Fully connected layers.

use punctual_model::{Linear, Tensor, TensorId};
use punctual_types::Activation;

use super::{Builder, Mutable, Operator, Random, Site, attributes};

impl Builder {
    pub fn linear(&mut self, input: TensorId, outputs: u32, activation: Activation) -> TensorId {
        let inputs = self.shape(input).elements() as u32;
        let weights = self.draw(outputs * inputs, inputs);
        let bias = self.draw(outputs, 16);
        self.push_weighted(&[input], Linear { activation }, &[weights, bias])
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let activation = attributes::activation(random);
    site.operator(&[], Linear { activation })
}

impl Mutable for Linear {
    fn lengths(&self, _: Tensor, before: u32) -> Option<Vec<u32>> {
        Some(vec![0, before])
    }
}
