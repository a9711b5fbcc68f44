//! What of a network is kept in bytes: tensors of u8 and weights of i8.
//!
//! A byte `q` of a tensor with a [`Quantisation`] stands for `(q - zero) * scale`; a weight `w` of an
//! output channel for `w * scale` of that channel. An operator on bytes sums integers exactly and
//! rounds once, half to even, saturating: [`reference`](crate::reference) says how, to the last bit.

use std::collections::BTreeMap;

use punctual_types::Quantisation;
use serde::{Deserialize, Serialize};

use crate::tensor::TensorId;

/// The part of a network that is kept in bytes; empty for one that is all f32.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantised {
    /// The tensors of bytes. All others are f32.
    pub tensors: BTreeMap<TensorId, Quantisation>,
    /// All i8 weights, in the logical layout that each operator's doc gives.
    pub weights: Vec<i8>,
}
