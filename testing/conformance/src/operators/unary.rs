//! Functions of one value.

use punctual_model::{TensorId, Unary};
use punctual_types::UnaryFunction;

use super::{Builder, Mutable, Operator, Random, Site, pick};

impl Builder {
    pub fn unary(&mut self, function: UnaryFunction, input: TensorId) -> TensorId {
        self.push(&[input], Unary { function })
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let function = pick(&UnaryFunction::ALL, random);
    site.operator(&[], Unary { function })
}

impl Mutable for Unary {
    fn vary(&mut self, random: &mut Random) {
        self.function = pick(&UnaryFunction::ALL, random);
    }
}
