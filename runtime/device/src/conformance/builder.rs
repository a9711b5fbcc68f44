//! Networks operator by operator, with seeded weights.

mod arithmetic;
mod computed;
mod copies;
mod detections;
mod quantised;
mod sequence;

pub(super) use copies::{digit, view};

use std::collections::BTreeSet;

use punctual_model::{
    AnswerKind, ChannelRun, Conv2d, Exit, Gather, InputSpec, Linear, Network, Operands, Operator,
    OperatorKind, Output, Pool, Quantised, Resize, Stage, Tensor, TensorId, VectorSpec,
    WeightRange,
};
use punctual_types::{
    Activation, BinaryFunction, Coordinates, Element, Extent, Filter, Padding, PoolKind, Random,
    Resampling, View, Window,
};

/// A network in the making.
pub(super) struct Builder {
    name: &'static str,
    pub input: TensorId,
    classes: usize,
    size: (u32, u32),
    random: Random,
    tensors: Vec<Tensor>,
    weights: Vec<f32>,
    quantised: Quantised,
    vectors: Vec<VectorSpec>,
    open: Vec<Operator>,
    /// Further outputs of the open stage.
    outputs: Vec<Output>,
    stages: Vec<(Vec<Operator>, Exit)>,
}

impl Builder {
    pub fn new(name: &'static str, seed: u64, height: u32, width: u32, classes: usize) -> Self {
        Self {
            name,
            input: TensorId(0),
            classes,
            size: (height, width),
            random: Random::new(seed),
            tensors: vec![Tensor {
                channels: 3,
                height,
                width,
            }],
            weights: Vec::new(),
            quantised: Quantised::default(),
            vectors: Vec::new(),
            open: Vec::new(),
            outputs: Vec::new(),
            stages: Vec::new(),
        }
    }

    pub fn shape(&self, tensor: TensorId) -> Tensor {
        self.tensors[tensor.0 as usize]
    }

    /// Uniform weights of a variance that keeps the scale of activations.
    fn draw(&mut self, len: u32, fan_in: u32) -> WeightRange {
        let start = self.weights.len() as u32;
        let scale = (3.0 / fan_in as f32).sqrt();
        for _ in 0..len {
            self.weights.push(self.random.signed_unit() * scale);
        }
        WeightRange { start, len }
    }

    /// An operator without weights.
    fn push(&mut self, reads: &[TensorId], kind: impl Into<OperatorKind>) -> TensorId {
        self.push_weighted(reads, kind, &[])
    }

    fn push_weighted(
        &mut self,
        reads: &[TensorId],
        kind: impl Into<OperatorKind>,
        weights: &[WeightRange],
    ) -> TensorId {
        let output = TensorId(self.tensors.len() as u32);
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
        self.tensors.push(shape);
        self.open.push(operator);
        output
    }

    /// A convolution padded by half its kernel.
    pub fn conv(
        &mut self,
        input: TensorId,
        channels: u32,
        kernel: u32,
        stride: u32,
        groups: u32,
        residual: Option<TensorId>,
    ) -> TensorId {
        let window = Window::new(
            Extent::square(kernel),
            Extent::square(stride),
            Padding::uniform(kernel / 2),
        );
        self.conv_over(input, channels, window, groups, residual)
    }

    /// A convolution of 3 x 3 taps, padded by its dilation.
    pub fn dilated(
        &mut self,
        input: TensorId,
        channels: u32,
        dilation: u32,
        groups: u32,
    ) -> TensorId {
        let window = Window {
            dilation: Extent::square(dilation),
            ..Window::new(
                Extent::square(3),
                Extent::square(1),
                Padding::uniform(dilation),
            )
        };
        self.conv_over(input, channels, window, groups, None)
    }

    fn conv_over(
        &mut self,
        input: TensorId,
        channels: u32,
        window: Window,
        groups: u32,
        residual: Option<TensorId>,
    ) -> TensorId {
        let shape = self.shape(input);
        let fan_in = shape.channels / groups * window.kernel.area() as u32;
        let weights = self.draw(channels * fan_in, fan_in);
        let bias = self.draw(channels, 16);
        let conv = Conv2d {
            window,
            groups,
            activation: Activation::Relu,
        };
        let reads: Vec<TensorId> = [input].into_iter().chain(residual).collect();
        self.push_weighted(&reads, conv, &[weights, bias])
    }

    pub fn pool(
        &mut self,
        input: TensorId,
        kind: PoolKind,
        kernel: u32,
        stride: u32,
        padding: u32,
    ) -> TensorId {
        let pool = Pool {
            kind,
            kernel: Extent::square(kernel),
            stride: Extent::square(stride),
            padding: Padding::uniform(padding),
        };
        self.push(&[input], pool)
    }

    /// To rows and columns in the ratio of the sizes.
    pub fn resize(
        &mut self,
        input: TensorId,
        (height, width): (u32, u32),
        coordinates: Coordinates,
        filter: Filter,
    ) -> TensorId {
        let shape = self.shape(input);
        let ratio = |to: u32, from: u32| to as f32 / from as f32;
        let resampling = Resampling {
            size: Extent { height, width },
            scale: [ratio(height, shape.height), ratio(width, shape.width)],
            coordinates,
            filter,
        };
        self.push(&[input], Resize { resampling })
    }

    pub fn mean(&mut self, input: TensorId) -> TensorId {
        let mean = Pool::mean_of_all(self.shape(input).extent());
        self.push(&[input], mean)
    }

    pub fn linear(&mut self, input: TensorId, outputs: u32, activation: Activation) -> TensorId {
        let shape = self.shape(input);
        let inputs = shape.channels * shape.height * shape.width;
        let weights = self.draw(outputs * inputs, inputs);
        let bias = self.draw(outputs, 16);
        self.push_weighted(&[input], Linear { activation }, &[weights, bias])
    }

    pub fn add(&mut self, input: TensorId, other: TensorId) -> TensorId {
        self.binary(BinaryFunction::Add, input, other)
    }

    /// A convolution with one tap, and another activation than the others.
    pub fn mix(&mut self, input: TensorId, channels: u32, activation: Activation) -> TensorId {
        let output = self.conv(input, channels, 1, 1, 1, None);
        self.activate(activation);
        output
    }

    /// Gives the last operator another activation.
    pub fn activate(&mut self, new: Activation) {
        let last = self.open.last_mut().expect("an operator");
        last.kind.set_activation(new);
    }

    /// `other` has the input's shape, or one value a channel.
    pub fn multiply(&mut self, input: TensorId, other: TensorId) -> TensorId {
        self.binary(BinaryFunction::Multiply, input, other)
    }

    /// Runs of channels `(source, first, count)`.
    pub fn gather(&mut self, sources: &[TensorId], runs: &[(u8, u32, u32)]) -> TensorId {
        let run = |&(source, first, count): &(u8, u32, u32)| ChannelRun {
            source,
            first,
            count,
        };
        let runs = runs.iter().map(run).collect();
        self.push(sources, Gather { runs })
    }

    /// All of each source.
    pub fn concat(&mut self, sources: &[TensorId]) -> TensorId {
        let channels = sources.iter().map(|&source| self.shape(source).channels);
        let runs: Vec<_> = (0..).zip(channels).map(|(at, all)| (at, 0, all)).collect();
        self.gather(sources, &runs)
    }

    pub fn slice(&mut self, input: TensorId, first: u32, count: u32) -> TensorId {
        self.gather(&[input], &[(0, first, count)])
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
        let logits = self.linear(input, self.classes as u32, Activation::None);
        self.end(logits);
    }

    /// Ends a stage whose class scores are there.
    pub fn end(&mut self, logits: TensorId) {
        let mut exit = Exit::of_scores(logits, self.classes as u32);
        exit.outputs.append(&mut self.outputs);
        self.stages.push((std::mem::take(&mut self.open), exit));
    }

    /// A vector that comes with the input.
    ///
    /// # Panics
    /// When there are other tensors already: inputs are the first ones.
    pub fn vector(&mut self, length: u32) -> TensorId {
        assert_eq!(
            self.tensors.len(),
            1 + self.vectors.len(),
            "vectors come first"
        );
        let name = format!("vector {}", self.vectors.len());
        self.vectors.push(VectorSpec { name, length });
        self.tensors.push(Tensor::features(length));
        TensorId(self.vectors.len() as u32)
    }

    /// Gives a tensor back at the exit of the open stage.
    pub fn output(&mut self, tensor: TensorId) {
        let shape = self.shape(tensor);
        let sides = [shape.channels, shape.height, shape.width];
        self.outputs.push(Output {
            name: format!("output {}", self.outputs.len()),
            tensor,
            shape: sides.to_vec(),
            view: View::plain(sides),
            element: Element::F32,
        });
    }

    pub fn finish(self) -> Network {
        let reads = |operators: &[Operator]| -> BTreeSet<TensorId> {
            operators.iter().flat_map(Operator::reads).collect()
        };
        let writes = |operators: &[Operator]| -> BTreeSet<TensorId> {
            operators.iter().map(|operator| operator.output).collect()
        };
        let stages = self
            .stages
            .iter()
            .enumerate()
            .map(|(index, (operators, exit))| {
                let later: BTreeSet<TensorId> = self.stages[index + 1..]
                    .iter()
                    .flat_map(|(operators, exit)| reads(operators).into_iter().chain(exit.reads()))
                    .collect();
                let written = writes(operators);
                let mut read = reads(operators);
                read.extend(exit.reads());
                Stage {
                    inputs: read.difference(&written).copied().collect(),
                    outputs: written.intersection(&later).copied().collect(),
                    operators: operators.clone(),
                    exit: Some(exit.clone()),
                }
            });
        let network = Network {
            name: self.name.to_owned(),
            input: InputSpec::rgb(self.size.0, self.size.1, [0.5; 3], [0.25; 3]),
            vectors: self.vectors,
            answer: AnswerKind::Classes,
            classes: (0..self.classes)
                .map(|class| format!("class {class}"))
                .collect(),
            stages: stages.collect(),
            tensors: self.tensors,
            weights: self.weights.into(),
            quantised: self.quantised,
        };
        if let Err(error) = network.validate() {
            panic!("the network `{}` is invalid: {error}", network.name);
        }
        network
    }
}
