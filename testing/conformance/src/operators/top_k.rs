//! Positions of the values that come first.

use punctual_model::{TensorId, TopK};
use punctual_types::{Axis, Ranking};

use super::{Builder, Mutable, Operator, Random, Reads, Site, attributes, below, pick};

impl Builder {
    /// The best channel of each pixel.
    pub fn best_channel(&mut self, input: TensorId, ranking: Ranking) -> TensorId {
        self.best(input, Axis::Channel, 1, ranking)
    }

    /// The best columns of each row and channel.
    pub fn best_columns(&mut self, input: TensorId, count: u32, ranking: Ranking) -> TensorId {
        self.best(input, Axis::Column, count, ranking)
    }

    fn best(&mut self, input: TensorId, axis: Axis, count: u32, ranking: Ranking) -> TensorId {
        let top = TopK {
            axis,
            count,
            ranking,
        };
        self.push(&[input], top)
    }
}

fn ranking(random: &mut Random) -> Ranking {
    Ranking {
        largest: random.one_in(2),
        last: random.one_in(2),
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let top = TopK {
        axis: pick(&[Axis::Channel, Axis::Column], random),
        count: 1 + below(4, random),
        ranking: ranking(random),
    };
    site.operator(&[], top)
}

impl Mutable for TopK {
    fn vary(&mut self, random: &mut Random) {
        match random.below(3) {
            0 => self.axis = attributes::axis(random),
            1 => self.count = below(8, random),
            _ => self.ranking = ranking(random),
        }
    }

    fn fit(&mut self, reads: &mut Reads<'_>) {
        self.count = self.count.clamp(1, reads.shape.width);
    }
}
