//! Images of another size.

use punctual_model::{Resize, TensorId};
use punctual_types::{Coordinates, Extent, Filter, Resampling, Rounding};

use super::attributes::extent;
use super::{Builder, Bytes, Mutable, Operator, Random, Site, pick};

impl Builder {
    /// To rows and columns in the ratio of the sizes.
    pub fn resize(
        &mut self,
        input: TensorId,
        height: u32,
        width: u32,
        coordinates: Coordinates,
        filter: Filter,
    ) -> TensorId {
        let shape = self.shape(input);
        let ratio = |to: u32, from: u32| to as f32 / from as f32;
        let resampling = Resampling {
            size: Extent { height, width },
            scale: [ratio(height, shape.height), ratio(width, shape.width)],
            coordinates,
            filter,
        };
        self.push(&[input], Resize { resampling })
    }
}

fn resampling(random: &mut Random) -> Resampling {
    let coordinates = [
        Coordinates::Asymmetric,
        Coordinates::HalfPixel,
        Coordinates::HalfPixelSymmetric,
        Coordinates::PytorchHalfPixel,
        Coordinates::AlignCorners,
    ];
    let rounding = [
        Rounding::Floor,
        Rounding::Ceil,
        Rounding::PreferFloor,
        Rounding::PreferCeil,
    ];
    let nearest = Filter::Nearest(pick(&rounding, random));
    Resampling {
        size: extent(1, 14, random),
        scale: [0, 1].map(|_| pick(&[0.5, 1.0, 1.7, 2.0, 1e-38, 3e38], random)),
        coordinates: pick(&coordinates, random),
        filter: pick(&[Filter::Linear, nearest], random),
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let resampling = resampling(random);
    site.operator(&[], Resize { resampling })
}

impl Mutable for Resize {
    fn vary(&mut self, random: &mut Random) {
        self.resampling = resampling(random);
    }

    fn bytes(&self, input: Bytes, _: Bytes) -> Bytes {
        input
    }
}
