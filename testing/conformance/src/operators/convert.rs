//! Conversions of bytes and floats.

use punctual_model::{Convert, TensorId};
use punctual_types::Quantisation;

use super::{Builder, Bytes, Mutable, Operator, Random, Site};

impl Builder {
    pub fn convert(&mut self, input: TensorId, to: Option<Quantisation>) -> TensorId {
        let output = self.push(&[input], Convert);
        self.keep(output, to);
        output
    }
}

pub(super) fn new(site: &Site<'_>, _: &mut Random) -> Operator {
    site.operator(&[], Convert)
}

impl Mutable for Convert {
    fn bytes(&self, _: Bytes, before: Bytes) -> Bytes {
        before
    }
}
