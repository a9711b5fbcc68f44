//! Weights from a seed.

use punctual_model::{Activation, Network, OperatorKind, WeightRange};

/// Draws all weights and biases anew: uniform, of the variance that keeps that of activations through
/// a layer (He's rule, where the activation cuts the negative half off). What is added to a shortcut
/// is drawn smaller, so that a hundred blocks do not add up to more than halves hold.
pub fn seed_weights(network: &mut Network, seed: u64) {
    const BESIDE_A_SHORTCUT: f32 = 0.2;
    const BIAS: f32 = 0.05;
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let drawn = operators.filter_map(|operator| match operator.kind {
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
    let len = drawn.iter().map(|each| end(each.0).max(end(each.1))).max();
    let mut values = vec![0.0; len.unwrap_or(0)];
    let mut random = Random(seed);
    for (weights, bias, beside, activation) in drawn {
        let fan_in = (weights.len / bias.len) as f32;
        let gain = match activation {
            Activation::Relu | Activation::Clip { .. } => 2.0,
            _ => 1.0,
        };
        let share = if beside { BESIDE_A_SHORTCUT } else { 1.0 };
        let limit = (3.0 * gain / fan_in).sqrt() * share;
        random.fill(&mut values[weights.start as usize..end(weights)], limit);
        random.fill(&mut values[bias.start as usize..end(bias)], BIAS);
    }
    network.weights = values.into();
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn fill(&mut self, values: &mut [f32], limit: f32) {
        for value in values {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            // The upper 24 bits: from -1 to 1 in steps that floats have.
            let unit = (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0;
            *value = unit * limit;
        }
    }
}
