//! What all operators' kernels have in common.

use crate::{AlignedBuffer, Conv2d, Gather, Image, KernelError, Part};

/// An operator, made for one instruction set and for layouts that were checked.
pub trait Kernel: Send + Sync {
    /// Runs a part of the operator for each image. `packed` is what [`pack`](Self::pack) wrote; of kernels without weights
    /// it is empty.
    ///
    /// # Panics
    /// When `packed` or an image's slices have other lengths than the layouts say.
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]);

    /// Floats of its packed weights.
    fn packed_len(&self) -> usize {
        0
    }

    /// Packs its operator's weights into [`packed_len`](Self::packed_len) floats.
    fn pack(&self, _weights: &Weights<'_>, _packed: &mut [f32]) -> Result<(), KernelError> {
        Ok(())
    }

    /// The packed weights, in memory of their own.
    fn packed(&self, weights: &Weights<'_>) -> Result<AlignedBuffer, KernelError> {
        let mut packed = AlignedBuffer::zeroed(self.packed_len());
        self.pack(weights, &mut packed)?;
        Ok(packed)
    }

    /// Tells its type from those of other kernels.
    fn name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// What the packed weights depend on in addition to the weights and their length: kernels of one type for which it is
    /// equal pack equal weights alike, and may share them. None: that is not known.
    fn packing(&self) -> Option<Vec<usize>> {
        None
    }

    /// Whether it does no more work for some rows after the other than for all at once.
    fn runs_in_rows(&self) -> bool {
        false
    }

    /// The convolution that it is, which may have further solutions.
    fn conv2d(&self) -> Option<&Conv2d> {
        None
    }

    /// The gather that it is, which makes no values of its own.
    fn gather(&self) -> Option<&Gather> {
        None
    }
}

/// An operator's weights, in its order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weights<'w> {
    pub floats: &'w [&'w [f32]],
    pub integers: &'w [&'w [i8]],
}

impl<'w> Weights<'w> {
    pub fn floats(floats: &'w [&'w [f32]]) -> Self {
        Self {
            floats,
            integers: &[],
        }
    }
}
