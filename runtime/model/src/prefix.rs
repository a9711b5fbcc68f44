//! What networks have in common: the stages that they begin with, and what stages of one network have.
//!
//! Networks that were specialised by training only their last layers again compute the same at the
//! beginning, and what computes the same can share a batch and its weights in memory. Stages that repeat what an earlier
//! one does, as those of an unrolled recurrence, take the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::network::{Network, Stage};
use crate::tensor::TensorId;
use crate::{Border, Exit, Operator, WeightRange};

/// Names all that stages compute: two with the same hash give the same results for the same inputs.
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

/// A stage among the stages of its network and of many networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePrefix {
    /// Of the stage and all before it.
    pub hash: PrefixHash,
    /// Of the stage alone, whatever comes before it. Stages with equal ones take the same time.
    pub own: PrefixHash,
    /// Each weight counts once.
    pub weight_bytes: u64,
}

impl Network {
    /// The stages that end in an exit, with it.
    pub fn exits(&self) -> impl Iterator<Item = (&Stage, &Exit)> {
        let stages = self.stages.iter();
        stages.filter_map(|stage| Some((stage, stage.exit.as_ref()?)))
    }

    /// Each stage's hashes and size. The first hash covers the input's normalisation, and the operators of
    /// the stage and of all before it with shapes and weights. Neither covers names, nor where
    /// in the network a tensor or a weight stands.
    ///
    /// # Panics
    /// If the network is not valid.
    #[must_use]
    pub fn stage_prefixes(&self) -> Vec<StagePrefix> {
        let mut all = Hashing::new(self);
        let vectors = self.vectors.iter().map(|vector| vector.length);
        all.add(&(&self.input, vectors.collect::<Vec<_>>()));
        for input in self.input_tensors() {
            all.name(input);
        }
        let stages = self.stages.iter();
        stages
            .map(|stage| {
                all.stage(stage);
                StagePrefix {
                    hash: all.hash(),
                    own: self.own_hash(stage),
                    weight_bytes: DistinctWeights::of(&stage.operators).bytes(),
                }
            })
            .collect()
    }

    /// Of what a stage takes, computes and leaves.
    fn own_hash(&self, stage: &Stage) -> PrefixHash {
        let mut own = Hashing::new(self);
        let borders = self.borders();
        let inputs = self.input_tensors().collect::<Vec<_>>();
        for &tensor in &stage.inputs {
            own.name(tensor);
            own.add(&self.tensors[tensor.index()]);
            own.add(&self.quantisation(tensor));
            // Devices lay out an image, a vector and what is carried differently.
            own.add(
                &inputs
                    .iter()
                    .position(|input| *input == tensor)
                    .map(|at| at > 0),
            );
            own.add_border(borders[tensor.index()]);
        }
        own.stage(stage);
        for &tensor in &stage.outputs {
            let name = own.name(tensor);
            own.add(&name);
            own.add_border(borders[tensor.index()]);
        }
        own.hash()
    }
}

/// For each stage the number of the first with the same [`own`](StagePrefix::own) hash: its own, if no earlier one has it.
#[must_use]
pub fn same_stages(prefixes: &[StagePrefix]) -> Vec<u8> {
    let first = |of: &StagePrefix| prefixes.iter().position(|before| before.own == of.own);
    // A package never has more than `STAGES_MAX`.
    prefixes
        .iter()
        .filter_map(first)
        .map(|stage| stage as u8)
        .collect()
}

/// The weights, scales and biases of some operators, each range once.
#[derive(Clone, Copy, Debug)]
pub struct DistinctWeights {
    pub floats: u64,
    pub integers: u64,
}

impl DistinctWeights {
    #[must_use]
    pub fn of<'o>(operators: impl IntoIterator<Item = &'o Operator>) -> Self {
        let (mut floats, mut integers) = (BTreeSet::new(), BTreeSet::new());
        for operator in operators {
            floats.extend(operator.floats());
            integers.extend(operator.integers());
        }
        let count =
            |ranges: BTreeSet<&WeightRange>| ranges.iter().map(|range| u64::from(range.len)).sum();
        Self {
            floats: count(floats),
            integers: count(integers),
        }
    }

    #[must_use]
    pub const fn count(self) -> u64 {
        self.floats + self.integers
    }

    #[must_use]
    pub const fn bytes(self) -> u64 {
        4 * self.floats + self.integers
    }
}

/// Hashes operators, without names. Tensors are numbered by the order in which they first appear.
pub(crate) struct Hashing<'n> {
    network: &'n Network,
    hasher: blake3::Hasher,
    names: BTreeMap<TensorId, u32>,
}

impl<'n> Hashing<'n> {
    pub fn new(network: &'n Network) -> Self {
        Self {
            network,
            hasher: blake3::Hasher::new(),
            names: BTreeMap::new(),
        }
    }

    pub fn hash(&self) -> PrefixHash {
        PrefixHash(*self.hasher.finalize().as_bytes())
    }

    pub fn add<T: Serialize + ?Sized>(&mut self, value: &T) {
        let encoded = postcard::to_allocvec(value);
        self.hasher
            .update(&encoded.expect("plain data with known lengths always encodes"));
    }

    fn add_border(&mut self, border: Border) {
        self.add(&(border.zeros, border.plain));
    }

    fn name(&mut self, tensor: TensorId) -> TensorId {
        let next = self.names.len() as u32;
        TensorId(*self.names.entry(tensor).or_insert(next))
    }

    fn stage(&mut self, stage: &Stage) {
        for operator in &stage.operators {
            self.operator(operator);
        }
        match &stage.exit {
            Some(exit) => {
                let exit = self.renamed(exit);
                self.add(&exit);
            }
            None => {
                self.hasher.update(b"no exit");
            }
        }
    }

    /// The exit without the names of its outputs.
    fn renamed(&mut self, exit: &Exit) -> Exit {
        let mut renamed = exit.clone();
        for read in renamed.reads_mut() {
            *read = self.name(*read);
        }
        for output in &mut renamed.outputs {
            output.name.clear();
        }
        renamed
    }

    fn operator(&mut self, operator: &Operator) {
        let mut renamed = operator.clone();
        for read in renamed.reads_mut() {
            *read = self.name(*read);
        }
        renamed.output = self.name(operator.output);
        self.content(operator, renamed);
    }

    /// Many at a time: the hasher is only fast with many of its chunks of 1 KiB, of which it takes the first ones alone
    /// wherever it was not at the beginning of one.
    fn floats(&mut self, weights: &[f32]) {
        const AT_A_TIME: usize = 64 * 1024;
        let mut bytes = vec![0; 4 * weights.len().min(AT_A_TIME)];
        for some in weights.chunks(AT_A_TIME) {
            for (place, weight) in bytes.chunks_exact_mut(4).zip(some) {
                place.copy_from_slice(&weight.to_le_bytes());
            }
            self.hasher.update(&bytes[..4 * some.len()]);
        }
    }

    /// An operator whose tensors have been renamed, with the shape of its result and its weights.
    pub fn content(&mut self, operator: &Operator, mut renamed: Operator) {
        renamed.name.clear();
        for range in &mut renamed.weights {
            range.start = 0;
        }
        self.add(&renamed);
        self.add(&self.network.tensors[operator.output.index()]);
        self.add(&self.network.quantisation(operator.output));
        for weights in self.network.float_weights(operator) {
            self.floats(weights);
        }
        for integers in self.network.integer_weights(operator) {
            self.add(integers);
        }
    }
}
