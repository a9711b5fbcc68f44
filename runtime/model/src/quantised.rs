//! What of a network is kept in bytes: tensors of u8 and weights of i8.
//!
//! A byte `q` of a tensor with a [`Quantisation`] stands for `(q - zero) * scale`; a weight `w` of an
//! output channel for `w * scale` of that channel. An operator on bytes sums integers exactly and
//! rounds once, half to even, saturating: [`reference`](crate::reference) says how, to the last bit.

use std::collections::BTreeMap;

use punctual_types::{Activation, Extent, Filter, Quantisation};
use serde::{Deserialize, Serialize};

use crate::validate::{OperatorError, WEIGHTS_MAX};
use crate::{Network, NetworkError, Operator, OperatorKind, TensorId, WeightRange};

/// The part of a network that is kept in bytes; empty for one that is all f32.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantised {
    /// The tensors of bytes. All others are f32.
    pub tensors: BTreeMap<TensorId, Quantisation>,
    /// All i8 weights, in the logical layout that each operator's doc gives.
    pub weights: Vec<i8>,
}

/// Most products of one sum of bytes: with more, sums of the largest values would leave i32.
pub const QUANTISED_PRODUCTS_MAX: u64 = 1 << 16;
const _: () = assert!(QUANTISED_PRODUCTS_MAX * 255 * 128 <= i32::MAX as u64);

impl OperatorKind {
    /// Its i8 weights, a range of [`Quantised::weights`].
    #[must_use]
    pub fn quantised_weights(&self) -> Option<WeightRange> {
        match self {
            Self::QuantisedConv2d { weights, .. } => Some(*weights),
            _ => None,
        }
    }

    /// As [`quantised_weights`](Self::quantised_weights), to move them.
    pub fn quantised_weights_mut(&mut self) -> Option<&mut WeightRange> {
        match self {
            Self::QuantisedConv2d { weights, .. } => Some(weights),
            _ => None,
        }
    }
}

impl Network {
    /// What the bytes of `tensor` stand for; `None` if it is f32.
    #[must_use]
    pub fn quantisation(&self, tensor: TensorId) -> Option<Quantisation> {
        self.quantised.tensors.get(&tensor).copied()
    }

    /// Bytes of one image's tensor, as it is without a device's layout.
    ///
    /// # Panics
    /// When there is no such tensor.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: TensorId) -> u64 {
        let elements = self.tensors[tensor.index()].elements();
        match self.quantisation(tensor) {
            Some(_) => elements,
            None => 4 * elements,
        }
    }

    /// Bytes of an operator's weights, scales and biases.
    #[must_use]
    pub fn weight_bytes(operator: &Operator) -> u64 {
        let floats = operator.kind.weight_ranges();
        let floats: u64 = floats.map(|range| u64::from(range.len)).sum();
        let bytes = operator.kind.quantised_weights();
        4 * floats + bytes.map_or(0, |range| u64::from(range.len))
    }

    /// The quantised tensors exist, are worth something, and none of them is an input, or what an exit answers with.
    pub(crate) fn check_quantised(&self) -> Result<(), NetworkError> {
        let found = self.quantised.weights.len();
        if found > WEIGHTS_MAX {
            return Err(NetworkError::Count {
                what: "quantised weights",
                found,
                limit: WEIGHTS_MAX,
            });
        }
        let exits = self.exits().map(|(_, exit)| exit);
        let of_exits = exits.flat_map(|exit| {
            exit.scores
                .map(|s| s.tensor)
                .into_iter()
                .chain(exit.confidence)
        });
        let floats: Vec<TensorId> = of_exits.chain(self.input_tensors()).collect();
        for (&tensor, &Quantisation { scale, .. }) in &self.quantised.tensors {
            let exists = tensor.index() < self.tensors.len();
            if !exists || floats.contains(&tensor) || !Quantisation::is_step(scale) {
                return Err(NetworkError::Quantisation { tensor, scale });
            }
        }
        Ok(())
    }

    /// Which of an operator's tensors are bytes. Its shapes have been checked.
    pub(crate) fn check_elements(&self, operator: &Operator) -> Result<(), OperatorError> {
        let of = |tensor| self.quantisation(tensor);
        let (input, output) = (of(operator.input), of(operator.output));
        let others = operator.kind.others().iter();
        let same = others
            .copied()
            .all(|other| of(other).is_some() == input.is_some());
        let fits = match operator.kind {
            OperatorKind::QuantisedConv2d { .. } => input.is_some(),
            OperatorKind::Convert => input.is_some() || output.is_some(),
            OperatorKind::Pool { .. }
            | OperatorKind::GlobalAveragePool
            | OperatorKind::Add { .. } => same && input.is_some() == output.is_some(),
            OperatorKind::Copy { table, .. } => {
                let mut others = operator.kind.others().iter();
                input == output
                    && others.all(|&other| of(other) == input)
                    && (input.is_none() || table.is_none())
            }
            // The nearest is moved as it is; what is blended must be floats.
            OperatorKind::Resize { resampling } => {
                input == output && (input.is_none() || resampling.filter != Filter::Linear)
            }
            _ => same && input.is_none() && output.is_none(),
        };
        if !fits {
            return Err(OperatorError::Elements);
        }
        match operator.kind {
            OperatorKind::Add { activation, .. } if input.is_some() => check_clip(activation),
            OperatorKind::Pool { kernel, .. } if input.is_some() => check_window(kernel),
            OperatorKind::GlobalAveragePool if input.is_some() => {
                check_window(self.tensors[operator.input.index()].extent())
            }
            OperatorKind::QuantisedConv2d {
                weights,
                scales,
                bias,
                activation,
                ..
            } => {
                check_clip(activation)?;
                let (count, outputs) = self.quantised_counts(operator);
                check_sum(count / outputs.max(1))?;
                let there = self.quantised.weights.len();
                weights.check("quantised weights", there, count)?;
                scales.check("scales", self.weights.len(), outputs)?;
                bias.check("bias", self.weights.len(), outputs)?;
                let input = input.map_or(0.0, |input| input.scale);
                let scales = &self.weights[scales.start as usize..][..scales.len as usize];
                match scales
                    .iter()
                    .find(|&&scale| !Quantisation::is_step(scale * input))
                {
                    Some(&scale) => Err(OperatorError::Scale { scale, input }),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The weights that a convolution of bytes needs, and its output channels.
    fn quantised_counts(&self, operator: &Operator) -> (u64, u64) {
        let OperatorKind::QuantisedConv2d { window, groups, .. } = operator.kind else {
            return (0, 0);
        };
        let input = self.tensors[operator.input.index()];
        let outputs = u64::from(self.tensors[operator.output.index()].channels);
        let area = window.kernel.area() as u64;
        let inputs = u64::from(input.channels / groups.max(1));
        (outputs.saturating_mul(inputs * area), outputs)
    }
}

/// A pool's window sums as a convolution does.
fn check_window(window: Extent) -> Result<(), OperatorError> {
    check_sum(u64::from(window.height) * u64::from(window.width))
}

fn check_sum(products: u64) -> Result<(), OperatorError> {
    match products > QUANTISED_PRODUCTS_MAX {
        true => Err(OperatorError::Products { products }),
        false => Ok(()),
    }
}

/// Bytes can only be clipped.
fn check_clip(activation: Activation) -> Result<(), OperatorError> {
    match activation {
        Activation::None | Activation::Relu => Ok(()),
        Activation::Clip { low, high } if low.is_finite() && high.is_finite() && low <= high => {
            Ok(())
        }
        Activation::Clip { low, high } => Err(OperatorError::Clip { low, high }),
        _ => Err(OperatorError::Curve),
    }
}
