//! The moves, and their weights.

use punctual_types::Random;

use super::Drawing;

/// Adds something to a drawing; `None` where it finds nothing to work on.
type Draw = fn(&mut Drawing) -> Option<()>;

pub(super) struct Move {
    pub draw: Draw,
    /// How likely it is, relative to the others.
    weight: u64,
}

const fn of(weight: u64, draw: Draw) -> Move {
    Move { draw, weight }
}

/// All moves. Those that make planners place, join and reuse memory weigh the most.
pub(super) const ALL: &[Move] = &[
    of(8, Drawing::conv),
    of(8, Drawing::pointwise_conv),
    of(6, Drawing::heads),
    of(4, Drawing::transposed_conv),
    of(3, Drawing::pool),
    of(2, Drawing::global_pool),
    of(2, Drawing::resize),
    of(2, Drawing::pad),
    of(1, Drawing::grid_sample),
    of(2, Drawing::pixels_to_channels),
    of(10, Drawing::concat),
    of(4, Drawing::concat_with_itself),
    of(6, Drawing::split),
    of(6, Drawing::slice),
    of(3, Drawing::gather),
    of(1, Drawing::gather_each),
    of(1, Drawing::squeeze),
    of(4, Drawing::transpose),
    of(3, Drawing::reshape),
    of(2, Drawing::folded_batch),
    of(2, Drawing::flatten),
    of(1, Drawing::tile),
    of(1, Drawing::identity),
    of(8, Drawing::unary),
    of(5, Drawing::chain),
    of(8, Drawing::residual),
    of(4, Drawing::with_constant),
    of(4, Drawing::broadcast),
    of(2, Drawing::choice),
    of(2, Drawing::variadic),
    of(1, Drawing::arithmetic),
    of(1, Drawing::clip),
    of(1, Drawing::p_relu),
    of(3, Drawing::dense),
    of(3, Drawing::product),
    of(3, Drawing::attention),
    of(1, Drawing::einsum),
    of(3, Drawing::layer_norm),
    of(2, Drawing::batch_norm),
    of(2, Drawing::instance_norm),
    of(2, Drawing::softmax),
    of(3, Drawing::reduce),
    of(1, Drawing::running_sum),
    of(1, Drawing::length_norm),
    of(1, Drawing::top_k),
    of(1, Drawing::arg_max),
    of(2, Drawing::recurrent),
    of(3, Drawing::quantised_conv),
    of(2, Drawing::quantised_chain),
    of(8, Drawing::vector_use),
];

/// Each move's weight in one network: four times the usual one for a third of the moves, none for another third.
pub(super) fn weights(random: &mut Random) -> Vec<u64> {
    let weight = |one: &Move| match random.below(3) {
        0 => 4 * one.weight,
        1 => one.weight,
        _ => 0,
    };
    let mut weights: Vec<u64> = ALL.iter().map(weight).collect();
    if weights.iter().all(|weight| *weight == 0) {
        weights[0] = 1;
    }
    // What makes values at all.
    weights[0] += 2;
    weights
}
