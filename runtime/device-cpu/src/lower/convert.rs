//! The model's words in the kernels' types.

use punctual_kernels::{Activation, Extent, Padding, PoolKind, Window};

pub(super) fn activation_of(activation: punctual_model::Activation) -> Activation {
    match activation {
        punctual_model::Activation::None => Activation::None,
        punctual_model::Activation::Relu => Activation::Relu,
        punctual_model::Activation::Clip { low, high } => Activation::Clip { low, high },
        punctual_model::Activation::Sigmoid => Activation::Sigmoid,
        punctual_model::Activation::Silu => Activation::Silu,
        punctual_model::Activation::HardSigmoid => Activation::HardSigmoid,
        punctual_model::Activation::HardSwish => Activation::HardSwish,
        punctual_model::Activation::Gelu => Activation::Gelu,
        punctual_model::Activation::Tanh => Activation::Tanh,
    }
}

pub(super) fn window(
    kernel: punctual_model::Extent,
    stride: punctual_model::Extent,
    padding: punctual_model::Padding,
) -> Window {
    let extent = |extent: punctual_model::Extent| Extent {
        height: extent.height as usize,
        width: extent.width as usize,
    };
    Window {
        kernel: extent(kernel),
        stride: extent(stride),
        padding: padding_of(padding),
    }
}

pub(super) fn padding_of(padding: punctual_model::Padding) -> Padding {
    Padding {
        top: padding.top as usize,
        left: padding.left as usize,
        bottom: padding.bottom as usize,
        right: padding.right as usize,
    }
}

pub(super) fn pool_kind(kind: punctual_model::PoolKind) -> PoolKind {
    match kind {
        punctual_model::PoolKind::Max => PoolKind::Max,
        punctual_model::PoolKind::Average { counts_padding } => {
            PoolKind::Average { counts_padding }
        }
    }
}
