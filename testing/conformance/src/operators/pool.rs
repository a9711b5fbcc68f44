//! Maxima and means of windows.

use punctual_model::{Pool, TensorId};
use punctual_types::{Extent, Padding, PoolKind};

use super::attributes::{rewindow, window};
use super::{Builder, Mutable, Operator, Random, Site};

impl Builder {
    pub fn pool(
        &mut self,
        input: TensorId,
        kind: PoolKind,
        kernel: u32,
        stride: u32,
        padding: u32,
    ) -> TensorId {
        let pool = Pool {
            kind,
            kernel: Extent::square(kernel),
            stride: Extent::square(stride),
            padding: Padding::uniform(padding),
        };
        self.push(&[input], pool)
    }

    pub fn mean(&mut self, input: TensorId) -> TensorId {
        let mean = Pool::mean_of_all(self.shape(input).extent());
        self.push(&[input], mean)
    }
}

fn kind(random: &mut Random) -> PoolKind {
    match random.below(3) {
        0 => PoolKind::Max,
        other => PoolKind::Average {
            counts_padding: other == 1,
        },
    }
}

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let window = window(random);
    if random.one_in(4) {
        return site.operator(&[], Pool::mean_of_all(site.shape.extent()));
    }
    let pool = Pool {
        kind: kind(random),
        kernel: window.kernel,
        stride: window.stride,
        padding: window.padding,
    };
    site.operator(&[], pool)
}

impl Mutable for Pool {
    fn vary(&mut self, random: &mut Random) {
        if random.one_in(4) {
            self.kind = kind(random);
            return;
        }
        let mut window = self.window();
        rewindow(&mut window, random);
        (self.kernel, self.stride, self.padding) = (window.kernel, window.stride, window.padding);
    }
}
