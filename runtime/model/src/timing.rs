//! What of a network its execution time depends on: not what its weights are, which training changes, but how many they are
//! and what is done with them. No kernel looks at a weight to see whether it can save work.

use std::fmt;

use punctual_types::{Activation, Quantisation};

use crate::{Floats, InputForm, Network, Operator, Quantised, Stage};

/// Names all that a network's execution time depends on: networks with equal ones take the same time on the same machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimingHash([u8; 32]);

impl fmt::Display for TimingHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TimingHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimingHash({self})")
    }
}

impl Network {
    /// Covers its stages, operators with their attributes, shapes, which tensors are bytes, and where weights lie, so also which
    /// of them several operators have: memory that is read once stays in the caches. It covers no names, no weights, and
    /// none of the figures that only scale values.
    #[must_use]
    pub fn timing(&self) -> TimingHash {
        let bytes = postcard::to_allocvec(&self.without_values());
        let bytes = bytes.expect("plain data with known lengths always encodes");
        TimingHash(*blake3::hash(&bytes).as_bytes())
    }

    /// A network of the same work, in place of which all that differ in values alone can stand.
    fn without_values(&self) -> Self {
        let mut vectors = self.vectors.clone();
        for vector in &mut vectors {
            vector.name.clear();
        }
        let mut input = self.input;
        if input.form.is_image() {
            input.form = InputForm::image(&[], &[]);
        }
        let tensors = self.quantised.tensors.keys();
        Self {
            name: String::new(),
            input,
            vectors,
            answer: self.answer,
            classes: Vec::new(),
            tensors: self.tensors.clone(),
            stages: self.stages.iter().map(without_values).collect(),
            weights: Floats::default(),
            quantised: Quantised {
                tensors: tensors.map(|tensor| (*tensor, SOME_BYTES)).collect(),
                weights: Vec::new(),
            },
        }
    }
}

/// In place of whatever bytes stand for.
const SOME_BYTES: Quantisation = Quantisation {
    scale: 1.0,
    zero: 0,
};

fn without_values(stage: &Stage) -> Stage {
    let mut stage = stage.clone();
    for operator in &mut stage.operators {
        operator.name.clear();
        forget_slope(operator);
    }
    let outputs = stage.exit.iter_mut().flat_map(|exit| &mut exit.outputs);
    outputs.for_each(|output| output.name.clear());
    stage
}

/// It is learnt, as weights are (PyTorch's `PReLU`), where other attributes are the architecture's.
fn forget_slope(operator: &mut Operator) {
    if let Some(Activation::LeakyRelu { .. }) = operator.kind.activation() {
        let activation = Activation::LeakyRelu { slope: 0.0 };
        operator.kind.set_activation(activation);
    }
}
