//! Values taken at computed positions.

use punctual_model::{Take, TensorId};
use punctual_types::Axis;

use super::{Builder, Mutable, Operator, Random, Site, attributes, pick};

impl Builder {
    /// The columns at the positions of the indices.
    pub fn take_columns(&mut self, input: TensorId, indices: TensorId) -> TensorId {
        let axis = Axis::Column;
        self.push(&[input, indices], Take { axis })
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let axis = pick(&[Axis::Channel, Axis::Row, Axis::Column], random);
    site.operator(&[site.other(random)], Take { axis })
}

impl Mutable for Take {
    fn vary(&mut self, random: &mut Random) {
        self.axis = attributes::axis(random);
    }
}
