//! Softmaxes along an axis, or along parts of it.

use punctual_model::{Softmax, TensorId};
use punctual_types::{Axis, Digit};

use super::attributes::axis;
use super::{Builder, Mutable, Operator, Random, Reads, Site, any, below, pick};

impl Builder {
    pub fn softmax(&mut self, input: TensorId, digit: Digit, logarithm: bool) -> TensorId {
        self.push(&[input], Softmax { digit, logarithm })
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let axis = pick(&[Axis::Channel, Axis::Row, Axis::Column], random);
    let size = axis.index().map_or(1, |at| site.shape.sides()[at]);
    let divisor = |of: u32, random: &mut Random| {
        let all: Vec<u32> = (1..=of).filter(|part| of.is_multiple_of(*part)).collect();
        any(&all, random).unwrap_or(1)
    };
    let extent = divisor(size, random);
    let step = divisor(size / extent, random);
    let softmax = Softmax {
        digit: Digit { axis, step, extent },
        logarithm: random.one_in(3),
    };
    site.operator(&[], softmax)
}

impl Mutable for Softmax {
    fn vary(&mut self, random: &mut Random) {
        match random.below(4) {
            0 => self.digit.axis = axis(random),
            1 => self.digit.step = 1 + below(6, random),
            2 => self.digit.extent = 1 + below(12, random),
            _ => self.logarithm = !self.logarithm,
        }
    }

    /// Parts that do not divide the axis are all of it.
    fn fit(&mut self, reads: &mut Reads<'_>) {
        let Digit { axis, step, extent } = &mut self.digit;
        if let Some(at) = axis.index() {
            let size = reads.shape.sides()[at];
            if !size.is_multiple_of((*step * *extent).max(1)) {
                (*step, *extent) = (1, size);
            }
        }
    }
}
