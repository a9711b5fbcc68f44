//! Runs a network with the kernels' plain references: slow, and obviously right.

use std::collections::BTreeMap;

use punctual_kernels::reference::{self, Shape};
use punctual_kernels::{Activation, Extent, Padding, PoolKind, Window};
use punctual_model::{Network, Operator, OperatorKind, TensorId, WeightRange};

/// The class scores at each exit for one image given as `[channel][row][column]`.
///
/// # Panics
/// If the network is not valid or the image has another length.
#[must_use]
pub fn interpret(network: &Network, image: &[f32]) -> Vec<Vec<f32>> {
    let mut values = BTreeMap::from([(network.input_tensor(), image.to_vec())]);
    let scores = network.stages.iter().map(|stage| {
        for operator in &stage.operators {
            let value = run(network, operator, &values);
            values.insert(operator.output, value);
        }
        values[&stage.logits].clone()
    });
    scores.collect()
}

fn run(network: &Network, operator: &Operator, values: &BTreeMap<TensorId, Vec<f32>>) -> Vec<f32> {
    let input = &values[&operator.input];
    let tensor = network.tensors[operator.input.0 as usize];
    let shape = Shape {
        channels: tensor.channels as usize,
        height: tensor.height as usize,
        width: tensor.width as usize,
    };
    assert_eq!(input.len(), shape.elements(), "length of an input");
    let slice =
        |range: &WeightRange| &network.weights[range.start as usize..][..range.len as usize];
    match &operator.kind {
        OperatorKind::Conv2d {
            weights,
            bias,
            kernel,
            stride,
            padding,
            groups,
            residual,
            activation,
        } => reference::conv2d(
            shape,
            &window(*kernel, *stride, *padding),
            *groups as usize,
            activation_of(*activation),
            slice(weights),
            slice(bias),
            input,
            residual.map(|residual| &values[&residual][..]),
        ),
        OperatorKind::Pool {
            kind,
            kernel,
            stride,
            padding,
        } => {
            let kind = match kind {
                punctual_model::PoolKind::Max => PoolKind::Max,
                punctual_model::PoolKind::Average => PoolKind::Average,
            };
            reference::pool(shape, &window(*kernel, *stride, *padding), kind, input)
        }
        OperatorKind::GlobalAveragePool => reference::global_average_pool(shape, input),
        OperatorKind::Linear {
            weights,
            bias,
            activation,
        } => reference::linear(
            activation_of(*activation),
            slice(weights),
            slice(bias),
            input,
        ),
        OperatorKind::Add { other, activation } => {
            reference::add(activation_of(*activation), input, &values[other])
        }
    }
}

// Written again rather than shared with the lowering, which this is to check.
fn activation_of(activation: punctual_model::Activation) -> Activation {
    match activation {
        punctual_model::Activation::None => Activation::None,
        punctual_model::Activation::Relu => Activation::Relu,
        punctual_model::Activation::Clip { low, high } => Activation::Clip { low, high },
    }
}

fn window(
    kernel: punctual_model::Extent,
    stride: punctual_model::Extent,
    padding: punctual_model::Padding,
) -> Window {
    Window {
        kernel: Extent {
            height: kernel.height as usize,
            width: kernel.width as usize,
        },
        stride: Extent {
            height: stride.height as usize,
            width: stride.width as usize,
        },
        padding: Padding {
            top: padding.top as usize,
            left: padding.left as usize,
            bottom: padding.bottom as usize,
            right: padding.right as usize,
        },
    }
}
