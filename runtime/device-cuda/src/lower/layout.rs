//! How a tensor lies in the workspace and in slots: the one place that knows.

use punctual_cuda_kernels::params::Kept;
use punctual_cuda_kernels::{TensorView, padded};
use punctual_model::{Network, TensorId};

/// Bytes of a pixel are padded to a multiple of this: one vector load.
pub(super) const BYTES_STEP: u32 = 16;

/// How many integers from 0 on halves hold exactly.
pub(super) const WHOLE_HALVES: u32 = 2048;

/// How operators keep a tensor.
pub(super) fn kept(network: &Network, tensor: TensorId) -> Kept {
    match network.quantisation(tensor) {
        Some(_) => Kept::Bytes,
        None => Kept::Halves,
    }
}

/// A tensor that is kept in some way, nowhere yet.
pub(super) fn view_of(network: &Network, tensor: TensorId, kept: Kept) -> TensorView {
    let shape = network.tensors[tensor.index()];
    TensorView {
        address: 0,
        height: shape.height,
        width: shape.width,
        channels: shape.channels,
        pitch: match kept {
            Kept::Bytes => shape.channels.next_multiple_of(BYTES_STEP),
            Kept::Halves | Kept::Floats => padded(shape.channels),
        },
    }
}

/// Bytes of an image's tensor.
pub(super) fn image_bytes(view: &TensorView, kept: Kept) -> u64 {
    view.image() * u64::from(kept.bytes())
}
