//! Samples at computed positions.

use punctual_model::{GridSample, TensorId};
use punctual_types::{Interpolation, Outside, Sampling};

use super::{Builder, Mutable, Operator, Random, Site, below, pick};

impl Builder {
    /// Pixels at the positions of a grid, which has two channels for each group.
    pub fn grid_sample(&mut self, input: TensorId, grid: TensorId, sampling: Sampling) -> TensorId {
        let groups = self.shape(grid).channels / 2;
        self.push(&[input, grid], GridSample { groups, sampling })
    }
}

fn sampling(random: &mut Random) -> Sampling {
    let outside = [Outside::Zeros, Outside::Border, Outside::Reflection];
    Sampling {
        interpolation: pick(&[Interpolation::Linear, Interpolation::Nearest], random),
        outside: pick(&outside, random),
        align_corners: random.one_in(2),
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let (groups, sampling) = (1, sampling(random));
    site.operator(&[site.other(random)], GridSample { groups, sampling })
}

impl Mutable for GridSample {
    fn vary(&mut self, random: &mut Random) {
        match random.below(3) {
            0 => self.groups = 1 + below(5, random),
            _ => self.sampling = sampling(random),
        }
    }
}
