//! Weights from a seed.

use punctual_model::{Network, Operator, OperatorKind, WeightRange};
use punctual_types::{Activation, Random};

/// Draws all weights and biases anew: uniform, of the variance that keeps that of activations through
/// a layer (He's rule, where the activation cuts the negative half off). What is added to a shortcut
/// is drawn smaller, so that a hundred blocks do not add up to more than halves hold.
pub(super) fn seed_weights(network: &mut Network, seed: u64) {
    const BESIDE_A_SHORTCUT: f32 = 0.2;
    const BIAS: f32 = 0.05;
    const TABLE: f32 = 0.5;
    let operators = || network.stages.iter().flat_map(|stage| &stage.operators);
    let end = |range: &WeightRange| (range.start + range.len) as usize;
    let len = operators().flat_map(Operator::floats).map(end).max();
    let mut values = vec![0.0; len.unwrap_or(0)];
    let mut random = Random::new(seed);
    let mut fill = |range: WeightRange, limit: f32| {
        values[range.start as usize..end(&range)].fill_with(|| random.signed_unit() * limit);
    };
    for operator in operators() {
        let (OperatorKind::Conv2d(_) | OperatorKind::Linear(_)) = operator.kind else {
            continue;
        };
        let [weights, bias] = [operator.weights[0], operator.weights[1]];
        let fan_in = (weights.len / bias.len) as f32;
        let gain = match operator.kind.activation() {
            Some(Activation::Relu | Activation::Clip { .. }) => 2.0,
            _ => 1.0,
        };
        let is_beside = !operator.others.is_empty();
        let share = if is_beside { BESIDE_A_SHORTCUT } else { 1.0 };
        fill(weights, (3.0 * gain / fan_in).sqrt() * share);
        fill(bias, BIAS);
    }
    let norms = |operator: &&Operator| matches!(operator.kind, OperatorKind::LayerNorm(_));
    for norm in operators().filter(norms) {
        fill(norm.weights[1], BIAS);
    }
    let tables = |operator: &&Operator| matches!(operator.kind, OperatorKind::Tokens(_));
    for tokens in operators().filter(tables) {
        fill(tokens.weights[0], TABLE);
    }
    for norm in operators().filter(norms) {
        let scale = norm.weights[0];
        values[scale.start as usize..end(&scale)].fill(1.0);
    }
    network.weights = values.into();
}
