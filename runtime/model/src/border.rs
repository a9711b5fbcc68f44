//! What lies around a tensor where a device keeps zeros around it for convolutions.

use crate::{Exit, Network, Operator, OperatorKind};

/// What those who read and write a tensor want around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Border {
    /// Rows and columns of zeros that the widest of its convolutions wants on each side.
    pub zeros: u32,
    /// Somebody takes it for plain values, one behind the other, with nothing around them. Its convolutions then read a
    /// copy that has the zeros.
    pub plain: bool,
}

impl Border {
    /// Zeros around the tensor itself.
    #[must_use]
    pub const fn around(self) -> u32 {
        if self.plain { 0 } else { self.zeros }
    }

    /// Zeros around a copy of it, if it needs one.
    #[must_use]
    pub const fn around_copy(self) -> Option<u32> {
        if self.plain && self.zeros > 0 {
            Some(self.zeros)
        } else {
            None
        }
    }
}

impl OperatorKind {
    /// Rows and columns of zeros that it wants around its input.
    #[must_use]
    pub fn border(&self) -> u32 {
        match self {
            Self::Conv2d { window, .. } => window.halo() as u32,
            // Its kernels read all of their zeros.
            Self::QuantisedConv2d { window, .. } => window.padding.largest() as u32,
            _ => 0,
        }
    }

    fn reads_plain_values(&self) -> bool {
        matches!(self, Self::Attention { .. })
    }

    fn writes_plain_values(&self) -> bool {
        matches!(
            self,
            Self::Attention { .. }
                | Self::Linear { .. }
                | Self::GlobalAveragePool
                | Self::Token { .. }
        )
    }
}

impl Network {
    /// The border of each tensor, by position.
    #[must_use]
    pub fn borders(&self) -> Vec<Border> {
        let mut borders = vec![Border::default(); self.tensors.len()];
        // Clients write vectors.
        for vector in self.input_tensors().skip(1) {
            borders[vector.index()].plain = true;
        }
        for stage in &self.stages {
            for operator in &stage.operators {
                mark(operator, &mut borders);
            }
            for tensor in stage.exit.iter().flat_map(Exit::answers) {
                borders[tensor.index()].plain = true;
            }
        }
        // Devices that keep zeros around tensors have it in planes; only convolutions read these.
        borders[self.input_tensor().index()].plain = false;
        borders
    }
}

fn mark(operator: &Operator, borders: &mut [Border]) {
    let input = &mut borders[operator.input.index()];
    input.zeros = input.zeros.max(operator.kind.border());
    if operator.kind.reads_plain_values() {
        for read in operator.reads() {
            borders[read.index()].plain = true;
        }
    }
    if operator.kind.writes_plain_values() {
        borders[operator.output.index()].plain = true;
    }
}
