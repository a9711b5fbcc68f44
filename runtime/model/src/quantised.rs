//! What of a network is kept in bytes: tensors of u8 and weights of i8.
//!
//! A byte `q` of a tensor with a [`Quantisation`] stands for `(q - zero) * scale`; a weight `w` of an
//! output channel for `w * scale` of that channel. An operator on bytes sums integers exactly and
//! rounds once, half to even, saturating: [`reference`](crate::reference) says how, to the last bit.

use std::collections::BTreeMap;

use punctual_types::Quantisation;
use serde::{Deserialize, Serialize};

use crate::validate::WEIGHTS_MAX;
use crate::{Network, NetworkError, TensorId};

/// The part of a network that is kept in bytes; empty for one that is all f32.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantised {
    /// The tensors of bytes. All others are f32.
    pub tensors: BTreeMap<TensorId, Quantisation>,
    /// All i8 weights, in the logical layout that each operator's doc gives.
    pub weights: Vec<i8>,
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
}
