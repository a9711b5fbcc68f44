//! A network in the making.

use std::collections::BTreeSet;

use punctual_model::{
    AnswerKind, Attention, ChannelRun, Conv2d, Copy, Exit, Gather, InputSpec, LayerNorm, Linear,
    Network, Operands, Operator, OperatorKind, Output, Pool, Quantised, Resize, Stage, Tensor,
    TensorId, Tokens, WeightRange,
};
use punctual_types::{
    Activation, Coordinates, Element, Extent, Filter, Padding, PoolKind, Resampling, Rounding,
    View, Window,
};

use super::CLASSES;

/// Operators so far, and where their weights will be.
pub(super) struct Outline {
    name: &'static str,
    side: u32,
    tensors: Vec<Tensor>,
    weights: u32,
    open: Vec<Operator>,
    stages: Vec<(Vec<Operator>, Exit)>,
}

/// A convolution, padded by half its kernel if at all.
#[derive(Clone, Copy)]
pub(super) struct Conv {
    pub(super) channels: u32,
    pub(super) kernel: u32,
    pub(super) stride: u32,
    pub(super) groups: u32,
    pub(super) activation: Activation,
    pub(super) residual: Option<TensorId>,
    pub(super) pad: bool,
}

impl Conv {
    /// A dense one with a kernel of one pixel.
    pub(super) fn new(channels: u32, activation: Activation) -> Self {
        Self {
            channels,
            kernel: 1,
            stride: 1,
            groups: 1,
            activation,
            residual: None,
            pad: true,
        }
    }

    /// Without padding.
    pub(super) fn bare(self) -> Self {
        Self { pad: false, ..self }
    }

    pub(super) fn kernel(self, kernel: u32) -> Self {
        Self { kernel, ..self }
    }

    pub(super) fn stride(self, stride: u32) -> Self {
        Self { stride, ..self }
    }

    pub(super) fn groups(self, groups: u32) -> Self {
        Self { groups, ..self }
    }

    pub(super) fn residual(self, residual: Option<TensorId>) -> Self {
        Self { residual, ..self }
    }
}

impl Outline {
    /// Of images of `side` rows and columns, which are tensor 0.
    pub(super) fn new(name: &'static str, side: u32) -> Self {
        let image = Tensor {
            channels: 3,
            height: side,
            width: side,
        };
        Self {
            name,
            side,
            tensors: vec![image],
            weights: 0,
            open: Vec::new(),
            stages: Vec::new(),
        }
    }

    pub(super) const IMAGE: TensorId = TensorId(0);

    pub(super) fn shape(&self, tensor: TensorId) -> Tensor {
        self.tensors[tensor.0 as usize]
    }

    fn range(&mut self, len: u32) -> WeightRange {
        let start = self.weights;
        self.weights += len;
        WeightRange { start, len }
    }

    fn push(
        &mut self,
        reads: &[TensorId],
        kind: impl Into<OperatorKind>,
        weights: &[u32],
    ) -> TensorId {
        let output = TensorId(self.tensors.len() as u32);
        let name = format!("{}.{}", self.stages.len(), self.open.len());
        let ranges: Vec<WeightRange> = weights.iter().map(|&len| self.range(len)).collect();
        let operator = Operator::new(name, reads, output, kind).with_weights(ranges);
        let others: Vec<Tensor> = operator.others.iter().map(|&id| self.shape(id)).collect();
        let of = Operands {
            input: self.shape(operator.input),
            others: &others,
            weights,
        };
        let shape = operator.kind.output_shape(&of).expect("the operands fit");
        self.tensors.push(shape);
        self.open.push(operator);
        output
    }

    pub(super) fn conv(&mut self, input: TensorId, conv: Conv) -> TensorId {
        let shape = self.shape(input);
        let pad = if conv.pad { conv.kernel / 2 } else { 0 };
        let fan_in = shape.channels / conv.groups * conv.kernel * conv.kernel;
        let kind = Conv2d {
            window: Window::new(
                Extent::square(conv.kernel),
                Extent::square(conv.stride),
                Padding::uniform(pad),
            ),
            groups: conv.groups,
            activation: conv.activation,
        };
        let reads: Vec<TensorId> = [input].into_iter().chain(conv.residual).collect();
        self.push(&reads, kind, &[conv.channels * fan_in, conv.channels])
    }

    pub(super) fn max_pool(
        &mut self,
        input: TensorId,
        kernel: u32,
        stride: u32,
        pad: u32,
    ) -> TensorId {
        let pool = Pool {
            kind: PoolKind::Max,
            kernel: Extent::square(kernel),
            stride: Extent::square(stride),
            padding: Padding::uniform(pad),
        };
        self.push(&[input], pool, &[])
    }

    fn mean(&mut self, input: TensorId) -> TensorId {
        let mean = Pool::mean_of_all(self.shape(input).extent());
        self.push(&[input], mean, &[])
    }

    pub(super) fn linear(
        &mut self,
        input: TensorId,
        features: u32,
        activation: Activation,
    ) -> TensorId {
        let depth = self.shape(input).elements() as u32;
        self.push(
            &[input],
            Linear { activation },
            &[features * depth, features],
        )
    }

    /// Channels `(source, first, count)` of tensors, in this order.
    pub(super) fn gather(&mut self, sources: &[TensorId], runs: &[(u8, u32, u32)]) -> TensorId {
        let run = |&(source, first, count): &(u8, u32, u32)| ChannelRun {
            source,
            first,
            count,
        };
        let runs = runs.iter().map(run).collect();
        self.push(sources, Gather { runs }, &[])
    }

    /// Ends a stage with the head that SEEB-GPU attaches: a convolution, the mean, two layers.
    pub(super) fn early_exit(&mut self, features: TensorId) {
        let conv = Conv::new(64, Activation::Relu).kernel(3).stride(2);
        let narrow = self.conv(features, conv);
        let mean = self.mean(narrow);
        let hidden = self.linear(mean, 128, Activation::Relu);
        self.classify(hidden);
    }

    /// Ends a stage with the mean and one layer.
    pub(super) fn mean_exit(&mut self, features: TensorId) {
        let mean = self.mean(features);
        self.classify(mean);
    }

    /// Ends a stage with one layer.
    pub(super) fn classify(&mut self, features: TensorId) {
        let scores = self.linear(features, CLASSES, Activation::None);
        self.end(Exit::of_scores(scores, CLASSES));
    }

    fn end(&mut self, exit: Exit) {
        self.stages.push((std::mem::take(&mut self.open), exit));
    }

    /// Ends a stage with a tensor as it is: a map.
    pub(super) fn answer_with(&mut self, name: &str, map: TensorId) {
        let Tensor {
            channels,
            height,
            width,
        } = self.shape(map);
        let output = Output {
            name: name.to_owned(),
            tensor: map,
            shape: vec![channels, height, width],
            view: View::plain([channels, height, width]),
            element: Element::F32,
        };
        self.end(Exit {
            outputs: vec![output],
            scores: None,
            confidence: None,
        });
    }

    /// Twice the rows and columns, each pixel four times.
    pub(super) fn double(&mut self, input: TensorId) -> TensorId {
        let shape = self.shape(input);
        let resampling = Resampling {
            size: Extent {
                height: 2 * shape.height,
                width: 2 * shape.width,
            },
            scale: [2.0; 2],
            coordinates: Coordinates::Asymmetric,
            filter: Filter::Nearest(Rounding::Floor),
        };
        self.push(&[input], Resize { resampling }, &[])
    }

    /// All pixels in a row behind one constant token.
    pub(super) fn tokens(&mut self, input: TensorId) -> TensorId {
        let shape = self.shape(input);
        let table = shape.channels * (shape.pixels() as u32 + 1);
        self.push(&[input], Tokens { prefix: 1 }, &[table])
    }

    pub(super) fn layer_norm(&mut self, input: TensorId) -> TensorId {
        let channels = self.shape(input).channels;
        self.push(&[input], LayerNorm { epsilon: 1e-6 }, &[channels; 2])
    }

    /// Attention of queries to keys and values, which have as many channels.
    pub(super) fn attention(&mut self, [query, key, value]: [TensorId; 3], heads: u32) -> TensorId {
        let shape = self.shape(query);
        let attention = Attention {
            heads,
            scale: 1.0 / ((shape.channels / heads) as f32).sqrt(),
            by_row: false,
            bias: None,
        };
        self.push(&[query, key, value], attention, &[])
    }

    /// The first token of a row.
    pub(super) fn first_token(&mut self, input: TensorId) -> TensorId {
        let token = Copy::of_column(0, self.shape(input).channels);
        self.push(&[input], token, &[])
    }

    /// The network, without weights.
    pub(super) fn finish(self) -> Network {
        let mut later = BTreeSet::new();
        let mut stages = Vec::with_capacity(self.stages.len());
        let classifies = self.stages.iter().any(|(_, exit)| exit.scores.is_some());
        for (operators, exit) in self.stages.into_iter().rev() {
            let read: BTreeSet<TensorId> = operators.iter().flat_map(Operator::reads).collect();
            let written: BTreeSet<TensorId> = operators.iter().map(|o| o.output).collect();
            let inputs: Vec<TensorId> = read.difference(&written).copied().collect();
            let outputs = written.intersection(&later).copied().collect();
            later.extend(&inputs);
            stages.push(Stage {
                inputs,
                outputs,
                operators,
                exit: Some(exit),
            });
        }
        stages.reverse();
        Network {
            name: self.name.to_owned(),
            // Of the pictures that torchvision's networks are trained on.
            input: InputSpec::rgb(
                self.side,
                self.side,
                [0.485, 0.456, 0.406],
                [0.229, 0.224, 0.225],
            ),
            vectors: Vec::new(),
            answer: if classifies {
                AnswerKind::Classes
            } else {
                AnswerKind::None
            },
            classes: if classifies {
                (0..CLASSES).map(|class| format!("class {class}")).collect()
            } else {
                Vec::new()
            },
            tensors: self.tensors,
            stages,
            weights: Vec::new().into(),
            quantised: Quantised::default(),
        }
    }
}
