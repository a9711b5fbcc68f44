//! Weights from a seed.

use punctual_model::{Network, OperatorKind, WeightRange};
use punctual_types::{Activation, Random};

/// Draws all weights and biases anew: uniform, of the variance that keeps that of activations through
/// a layer (He's rule, where the activation cuts the negative half off). What is added to a shortcut
/// is drawn smaller, so that a hundred blocks do not add up to more than halves hold.
pub fn seed_weights(network: &mut Network, seed: u64) {
    const BESIDE_A_SHORTCUT: f32 = 0.2;
    const BIAS: f32 = 0.05;
    const TABLE: f32 = 0.5;
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let drawn = operators
        .clone()
        .filter_map(|operator| match operator.kind {
            OperatorKind::Conv2d {
                weights,
                bias,
                residual,
                activation,
                ..
            } => Some((weights, bias, residual.is_some(), activation)),
            OperatorKind::Linear {
                weights,
                bias,
                activation,
            } => Some((weights, bias, false, activation)),
            _ => None,
        });
    let drawn: Vec<_> = drawn.collect();
    let end = |range: WeightRange| (range.start + range.len) as usize;
    let norms = operators
        .clone()
        .filter_map(|operator| match operator.kind {
            OperatorKind::LayerNorm { scale, bias, .. } => Some((scale, bias)),
            _ => None,
        });
    let norms: Vec<_> = norms.collect();
    let tables = operators.filter_map(|operator| match operator.kind {
        OperatorKind::Tokens { table, .. } => Some(table),
        _ => None,
    });
    let tables: Vec<_> = tables.collect();
    let pairs = drawn.iter().map(|each| [each.0, each.1]);
    let pairs = pairs.chain(norms.iter().map(|&(scale, bias)| [scale, bias]));
    let len = pairs.flatten().chain(tables.iter().copied()).map(end).max();
    let mut values = vec![0.0; len.unwrap_or(0)];
    let mut random = Random::new(seed);
    let mut fill = |values: &mut [f32], limit: f32| {
        values.fill_with(|| random.signed_unit() * limit);
    };
    for (weights, bias, beside, activation) in drawn {
        let fan_in = (weights.len / bias.len) as f32;
        let gain = match activation {
            Activation::Relu | Activation::Clip { .. } => 2.0,
            _ => 1.0,
        };
        let share = if beside { BESIDE_A_SHORTCUT } else { 1.0 };
        let limit = (3.0 * gain / fan_in).sqrt() * share;
        fill(&mut values[weights.start as usize..end(weights)], limit);
        fill(&mut values[bias.start as usize..end(bias)], BIAS);
    }
    for (scale, bias) in norms {
        values[scale.start as usize..end(scale)].fill(1.0);
        fill(&mut values[bias.start as usize..end(bias)], BIAS);
    }
    for table in tables {
        fill(&mut values[table.start as usize..end(table)], TABLE);
    }
    network.weights = values.into();
}
