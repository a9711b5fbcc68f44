//! Attention.

use punctual_model::{Attention, Tensor, TensorId};

use super::{Builder, Mutable, Operator, Random, Reads, Site, below, pick};

impl Builder {
    /// Attention of a tensor to itself, in two heads.
    pub fn attention(&mut self, input: TensorId, mask: TensorId) -> TensorId {
        let attention = Attention {
            by_row: false,
            bias: None,
            heads: 2,
            scale: 0.5,
        };
        self.push(&[input, input, input, mask], attention)
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let other = site.other(random);
    let attention = Attention {
        heads: 1 + below(3, random),
        scale: 0.3,
        by_row: random.one_in(2),
        bias: None,
    };
    site.operator(&[other, other], attention)
}

impl Mutable for Attention {
    fn vary(&mut self, random: &mut Random) {
        match random.below(3) {
            0 => self.heads = below(6, random),
            1 => self.scale = pick(&[0.0, -1.0, 0.3, 20.0, f32::INFINITY], random),
            _ => self.by_row = !self.by_row,
        }
    }

    /// Keys and values of other shapes are the input again; a bias goes.
    fn fit(&mut self, reads: &mut Reads<'_>) {
        let (channels, shapes) = (reads.shape.channels, reads.shapes());
        let is_key = |key: &Tensor| key.channels == channels;
        let is_mask = |mask: &Tensor| mask.channels == 1;
        let alike = |pair: &[Tensor]| pair[0].extent() == pair[1].extent();
        if !shapes.first().is_some_and(is_key)
            || !shapes.get(2).is_none_or(is_mask)
            || !shapes.windows(2).all(alike)
        {
            *reads.others = vec![reads.input; 2];
        }
        if self.heads == 0 || !channels.is_multiple_of(self.heads) {
            self.heads = 1;
        }
        self.bias = None;
        reads.weights.clear();
    }
}
