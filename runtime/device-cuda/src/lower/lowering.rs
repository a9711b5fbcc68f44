//! One network for one target: what is decided before any launch, and what all launches ask for.

use punctual_cuda_kernels::IMAGES_MAX;
use punctual_device::{InputLayout, VectorPlace};
use punctual_model::{Network, Operator, OutputLayout, PlacedExit, SolutionChoice, VECTORS_MAX};

use super::choice::Machine;
use super::error::LowerError;
use super::layout::BYTES_STEP;
use super::pages::{Pages, Piece};
use super::requests;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub multiprocessors: u32,
    /// Compute capability, e.g. `(8, 7)`.
    pub compute_capability: (u32, u32),
    /// Bytes of a page of weights.
    pub page_bytes: u32,
}

/// One network for one target.
pub(super) struct Lowering<'n> {
    pub(super) network: &'n Network,
    pub(super) target: &'n Target,
    pub(super) choices: &'n [SolutionChoice],
    /// The requested outputs of its exits.
    pub(super) outputs: Option<&'n OutputLayout>,
    pub(super) pages: Pages,
    /// Where each tensor lies in a request's slot, if it is carried.
    pub(super) slots: Vec<Option<u64>>,
    pub(super) request_bytes: u64,
}

impl<'n> Lowering<'n> {
    pub(super) fn new(
        network: &'n Network,
        target: &'n Target,
        choices: &'n [SolutionChoice],
    ) -> Result<Self, LowerError> {
        if target.multiprocessors == 0 {
            return Err(LowerError::NoMultiprocessors);
        }
        let pages = Pages::plan(network, target.page_bytes)?;
        let (slots, request_bytes) = requests::slots(network);
        Ok(Self {
            network,
            target,
            choices,
            outputs: None,
            pages,
            slots,
            request_bytes,
        })
    }

    /// The requested outputs of a stage's exit.
    pub(super) fn placed(&self, stage: u32) -> Option<&'n PlacedExit> {
        self.outputs?.stage(stage as usize)
    }

    /// Checks that launches can have these numbers of images, and count their halves in 32 bits.
    pub(super) fn check_batches(&self, batches: &[u8]) -> Result<(), LowerError> {
        let model = || self.network.name.clone();
        for &batch in batches {
            if !(1..=IMAGES_MAX).contains(&usize::from(batch)) {
                return Err(LowerError::Batch {
                    model: model(),
                    batch,
                });
            }
            for (tensor, shape) in (0..).zip(&self.network.tensors) {
                let pixels = u64::from(shape.height) * u64::from(shape.width);
                let pitch = shape.channels.checked_next_multiple_of(BYTES_STEP);
                let halves = pixels.saturating_mul(pitch.unwrap_or(u32::MAX).into());
                let bytes = halves.saturating_mul(2 * u64::from(batch));
                // Half of it: kernels also count sums of four bytes.
                if bytes >= 1 << 31 {
                    return Err(LowerError::Tensor {
                        model: model(),
                        tensor,
                        bytes,
                        batch,
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) fn machine(&self) -> Machine {
        Machine {
            multiprocessors: self.target.multiprocessors,
            major: self.target.compute_capability.0,
        }
    }

    pub(super) fn input(&self) -> InputLayout {
        let shape = self.network.input.tensor();
        let (height, width) = (shape.height as usize, shape.width as usize);
        let mut end = shape.elements() as usize;
        let mut vectors = [VectorPlace::default(); VECTORS_MAX];
        for (place, vector) in vectors.iter_mut().zip(&self.network.vectors) {
            let (offset, length) = (end, vector.length as usize);
            *place = VectorPlace { offset, length };
            end += length;
        }
        InputLayout {
            channels: shape.channels as usize,
            height,
            width,
            row_stride: width,
            plane_stride: height * width,
            offset: 0,
            vectors,
        }
    }

    /// The pieces of an operator's weights.
    pub(super) fn pieces(&self, operator: Option<u32>) -> &[Piece] {
        operator.map_or(&[], |operator| self.pages.pieces(operator))
    }

    pub(super) fn pages_of(&self, operators: std::ops::Range<u32>) -> Box<[u32]> {
        let own = operators.flat_map(|operator| self.pieces(Some(operator)));
        let own = own.map(|piece| piece.page);
        let pages: std::collections::BTreeSet<u32> = own.collect();
        pages.into_iter().collect()
    }

    pub(super) fn no_kernel(&self, operator: &Operator, kind: &'static str) -> LowerError {
        LowerError::NoKernel {
            model: self.network.name.clone(),
            operator: operator.name.clone(),
            tensor: operator.output.0,
            kind,
        }
    }
}
