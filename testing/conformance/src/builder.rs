//! Networks operator by operator, with seeded weights.

use std::collections::BTreeSet;

use punctual_model::{
    AnswerKind, Exit, InputSpec, Network, Operands, Operator, OperatorKind, Output, Quantised,
    Stage, Tensor, TensorId, VectorSpec, WeightRange,
};
use punctual_types::{Activation, Element, Quantisation, Random, View};

use super::graph;

/// A network in the making.
pub(super) struct Builder {
    pub input: TensorId,
    random: Random,
    network: Network,
    /// Operators of the open stage, and its further outputs.
    open: Vec<Operator>,
    outputs: Vec<Output>,
}

impl Builder {
    pub fn new(name: &'static str, seed: u64, height: u32, width: u32, classes: usize) -> Self {
        let classes = 0..classes;
        let network = Network {
            name: name.to_owned(),
            input: InputSpec::rgb(height, width, [0.5; 3], [0.25; 3]),
            vectors: Vec::new(),
            answer: AnswerKind::Classes,
            classes: classes.map(|class| format!("class {class}")).collect(),
            stages: Vec::new(),
            tensors: vec![Tensor::of_sides([3, height, width])],
            weights: Vec::new().into(),
            quantised: Quantised::default(),
        };
        Self {
            input: network.input_tensor(),
            random: Random::new(seed),
            network,
            open: Vec::new(),
            outputs: Vec::new(),
        }
    }

    pub fn shape(&self, tensor: TensorId) -> Tensor {
        self.network.tensors[tensor.index()]
    }

    fn floats(&mut self, len: u32, of_unit: impl Fn(f32) -> f32) -> WeightRange {
        let weights = self.network.weights.to_mut();
        let start = weights.len() as u32;
        weights.extend((0..len).map(|_| of_unit(self.random.signed_unit())));
        WeightRange { start, len }
    }

    /// Uniform weights of a variance that keeps the scale of activations.
    pub fn draw(&mut self, len: u32, fan_in: u32) -> WeightRange {
        let scale = (3.0 / fan_in as f32).sqrt();
        self.floats(len, |unit| unit * scale)
    }

    /// Any integers, the extremes among them.
    pub fn integers(&mut self, len: u32) -> WeightRange {
        let weights = &mut self.network.quantised.weights;
        let start = weights.len() as u32;
        weights.extend((0..len).map(|_| (self.random.signed_unit() * 130.0) as i8));
        WeightRange { start, len }
    }

    /// Steps of integers that keep the scale of activations.
    pub fn steps(&mut self, len: u32, fan_in: u32) -> WeightRange {
        let step = (3.0 / fan_in as f32).sqrt() / 127.0;
        self.floats(len, |unit| step * (1.0 + 0.3 * unit))
    }

    /// An operator without weights.
    pub fn push(&mut self, reads: &[TensorId], kind: impl Into<OperatorKind>) -> TensorId {
        self.push_weighted(reads, kind, &[])
    }

    pub fn push_weighted(
        &mut self,
        reads: &[TensorId],
        kind: impl Into<OperatorKind>,
        weights: &[WeightRange],
    ) -> TensorId {
        let output = TensorId(self.network.tensors.len() as u32);
        let operator = Operator::new(format!("operator {}", output.0), reads, output, kind)
            .with_weights(weights.iter().copied());
        let others: Vec<Tensor> = operator.others.iter().map(|id| self.shape(*id)).collect();
        let lengths: Vec<u32> = weights.iter().map(|range| range.len).collect();
        let of = Operands {
            input: self.shape(operator.input),
            others: &others,
            weights: &lengths,
        };
        let shape = operator.kind.output_shape(&of).expect("the operands fit");
        self.network.tensors.push(shape);
        self.open.push(operator);
        output
    }

    /// Gives the last operator another activation.
    pub fn activate(&mut self, new: Activation) {
        let last = self.open.last_mut().expect("an operator");
        last.kind.set_activation(new);
    }

    /// Makes a tensor one of bytes.
    pub fn keep(&mut self, tensor: TensorId, of: Option<Quantisation>) {
        if let Some(of) = of {
            self.network.quantised.tensors.insert(tensor, of);
        }
    }

    /// What the stage's operators write and none of them reads.
    pub fn unread(&self) -> Vec<TensorId> {
        let read: BTreeSet<TensorId> = self.open.iter().flat_map(Operator::reads).collect();
        let written = self.open.iter().map(|operator| operator.output);
        written.filter(|tensor| !read.contains(tensor)).collect()
    }

    /// The next random number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    /// Ends a stage.
    pub fn head(&mut self, input: TensorId) {
        let logits = self.linear(input, self.network.classes.len() as u32, Activation::None);
        self.end(logits);
    }

    /// Ends a stage that answers by the mean of each channel.
    pub fn mean_head(&mut self, input: TensorId) {
        let mean = self.mean(input);
        self.head(mean);
    }

    /// Ends a stage with a layer of bytes whose scores are floats.
    pub fn quantised_head(&mut self, input: TensorId) {
        let logits = self.quantised_conv_over(input, self.network.classes.len() as u32, None);
        self.end(logits);
    }

    /// Ends a stage whose class scores are there.
    pub fn end(&mut self, logits: TensorId) {
        let mut exit = Exit::of_scores(logits, self.network.classes.len() as u32);
        exit.outputs.append(&mut self.outputs);
        self.network.stages.push(Stage {
            inputs: Vec::new(),
            outputs: Vec::new(),
            operators: std::mem::take(&mut self.open),
            exit: Some(exit),
        });
    }

    /// A vector that comes with the input.
    ///
    /// # Panics
    /// When there are other tensors already: inputs are the first ones.
    pub fn vector(&mut self, length: u32) -> TensorId {
        let count = self.network.vectors.len();
        assert_eq!(self.network.tensors.len(), 1 + count, "vectors come first");
        let name = format!("vector {count}");
        self.network.vectors.push(VectorSpec { name, length });
        self.network.tensors.push(Tensor::features(length));
        TensorId(count as u32 + 1)
    }

    /// Gives a tensor back at the exit of the open stage.
    pub fn output(&mut self, tensor: TensorId) {
        let sides = self.shape(tensor).sides();
        self.outputs.push(Output {
            name: format!("output {}", self.outputs.len()),
            tensor,
            shape: sides.to_vec(),
            view: View::plain(sides),
            element: Element::F32,
        });
    }

    pub fn finish(mut self) -> Network {
        graph::carry(&mut self.network);
        if let Err(error) = self.network.validate() {
            panic!("the network `{}` is invalid: {error}", self.network.name);
        }
        self.network
    }
}
