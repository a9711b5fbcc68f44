//! What networks have in common: the stages that they begin with.
//!
//! Networks that were specialised by training only their last layers again compute the same at the
//! beginning, and what computes the same can share a batch and its weights in memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Exit;
use crate::network::{Network, Operator, Stage, TensorId, WeightRange};

/// Names all that a stage computes from an image: two stages with the same hash give the same
/// results for the same image, and take the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PrefixHash([u8; 32]);

impl fmt::Display for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixHash({self})")
    }
}

/// A stage among the stages of many networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePrefix {
    /// Of the stage and all before it.
    pub hash: PrefixHash,
    pub weight_bytes: u64,
}

impl Network {
    /// The stages that end in an exit, with it.
    pub fn exits(&self) -> impl Iterator<Item = (&Stage, &Exit)> {
        let stages = self.stages.iter();
        stages.filter_map(|stage| Some((stage, stage.exit.as_ref()?)))
    }

    fn vector_lengths(&self) -> Vec<u32> {
        self.vectors.iter().map(|vector| vector.length).collect()
    }

    /// Each stage's hash and size. The hash covers the input's normalisation, and the operators of
    /// the stage and of all before it with shapes and weights. It does not cover names, nor where
    /// in the network a tensor or a weight stands.
    ///
    /// # Panics
    /// If the network is not valid.
    #[must_use]
    pub fn stage_prefixes(&self) -> Vec<StagePrefix> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&encoded(&(&self.input, &self.vector_lengths())));
        let mut names = Names::default();
        for input in self.input_tensors() {
            names.of(input);
        }
        let mut prefixes = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            let mut weight_bytes = 0;
            for operator in &stage.operators {
                let (renamed, ranges) = names.rename(operator);
                hasher.update(&encoded(&renamed));
                hasher.update(&encoded(&self.tensors[operator.output.0 as usize]));
                hasher.update(&encoded(&self.quantisation(operator.output)));
                for range in ranges {
                    let weights = &self.weights[range.start as usize..][..range.len as usize];
                    for weight in weights {
                        hasher.update(&weight.to_le_bytes());
                    }
                }
                if let Some(range) = operator.kind.quantised_weights() {
                    let weights = &self.quantised.weights[range.start as usize..];
                    hasher.update(&encoded(&weights[..range.len as usize]));
                }
                weight_bytes += Network::weight_bytes(operator);
            }
            match &stage.exit {
                Some(exit) => hasher.update(&encoded(&names.of_exit(exit))),
                None => hasher.update(b"no exit"),
            };
            prefixes.push(StagePrefix {
                hash: PrefixHash(*hasher.finalize().as_bytes()),
                weight_bytes,
            });
        }
        prefixes
    }
}

/// Tensors by the order in which they first appear.
#[derive(Default)]
struct Names(BTreeMap<TensorId, u32>);

impl Names {
    fn of(&mut self, tensor: TensorId) -> TensorId {
        let next = self.0.len() as u32;
        TensorId(*self.0.entry(tensor).or_insert(next))
    }

    /// The exit without the names of its outputs.
    fn of_exit(&mut self, exit: &Exit) -> Exit {
        let mut renamed = exit.clone();
        for read in renamed.reads_mut() {
            *read = self.of(*read);
        }
        for output in &mut renamed.outputs {
            output.name.clear();
        }
        renamed
    }

    /// The operator without what is only a name, and the ranges of its weights.
    fn rename(&mut self, operator: &Operator) -> (Operator, Vec<WeightRange>) {
        let mut renamed = operator.clone();
        renamed.name.clear();
        renamed.input = self.of(operator.input);
        for other in renamed.kind.others_mut() {
            *other = self.of(*other);
        }
        for range in renamed.kind.weight_ranges_mut() {
            range.start = 0;
        }
        if let Some(range) = renamed.kind.quantised_weights_mut() {
            range.start = 0;
        }
        renamed.output = self.of(operator.output);
        (renamed, operator.kind.weight_ranges().collect())
    }
}

fn encoded<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("plain data with known lengths always encodes")
}
