//! The model's activations in the kernels' words.

use punctual_kernels::Activation;

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
