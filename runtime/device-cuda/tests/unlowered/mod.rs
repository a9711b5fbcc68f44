//! A network of which one operator has no kernel.

use punctual_conformance::networks;
use punctual_model::{Network, OperatorKind};

/// Its attention has heads of more channels than the kernels take.
pub fn network() -> Network {
    let mut network = networks::every_operator(1);
    let mut attended = Vec::new();
    let stages = network.stages.iter_mut();
    for operator in stages.flat_map(|stage| &mut stage.operators) {
        if let OperatorKind::Attention(attention) = &mut operator.kind {
            attention.heads = 1;
            attended.push(operator.output);
            attended.extend(operator.reads());
        }
    }
    for tensor in attended {
        network.tensors[tensor.index()].channels = 264;
    }
    network
}
