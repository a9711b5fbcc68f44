//! The kernel of each kind of operator.

use punctual_kernels::{
    Attention, AttentionBias, AttentionSpec, BestScore, BestScoreSpec, Binary, BinaryOperand,
    BinarySpec, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Copy, CopySpec, Detections,
    DetectionsSpec, Embedding, GlobalAveragePool, GridSample, GridSampleSpec, KernelError,
    LayerNorm, LayerNormSpec, Linear, LinearSpec, Pool, PoolSpec, Product, ProductSpec, Recurrent,
    RecurrentSpec, Resize, ResizeSpec, Softmax, SoftmaxSpec, Take, TakeSpec, Token, Tokens, TopK,
    TopKSpec, Unary,
};
use punctual_model::{OperatorKind, SecondOperand};
use punctual_types::{Activation, BinaryFunction, Window};

use super::Lowering;
use crate::executable::{Kernel, Value};

impl Lowering<'_> {
    /// The kernel of an operator that is neither a convolution nor a gather.
    pub(super) fn kernel(
        &self,
        kind: &OperatorKind,
        input: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<Kernel, KernelError> {
        let isa = self.isa;
        match kind {
            OperatorKind::Conv2d { .. } => unreachable!("not called for convolutions"),
            OperatorKind::QuantisedConv2d { .. } | OperatorKind::Convert => {
                unreachable!("not called for operators on bytes")
            }
            OperatorKind::Gather { .. } => unreachable!("gathers have steps of their own"),
            OperatorKind::Pool {
                kind,
                kernel,
                stride,
                padding,
            } => {
                let spec = PoolSpec {
                    input,
                    output,
                    window: Window::new(*kernel, *stride, *padding),
                    kind: *kind,
                };
                Pool::new(isa, &spec).map(Kernel::Pool)
            }
            OperatorKind::GlobalAveragePool => {
                GlobalAveragePool::new(isa, input, output).map(Kernel::GlobalAveragePool)
            }
            OperatorKind::Linear { activation, .. } => {
                let spec = LinearSpec {
                    input,
                    output,
                    activation: *activation,
                };
                Linear::new(isa, &spec).map(Kernel::Linear)
            }
            &OperatorKind::Resize { resampling } => {
                let spec = ResizeSpec {
                    input,
                    output,
                    resampling,
                };
                Resize::new(isa, &spec).map(Kernel::Resize)
            }
            OperatorKind::Copy {
                others,
                table,
                pieces,
            } => {
                let others = others.iter().map(|&id| self.layout(self.value(id)));
                let spec = CopySpec {
                    inputs: [input].into_iter().chain(others).collect(),
                    table: table.map_or(0, |table| table.len as usize),
                    output,
                    pieces: pieces.clone(),
                };
                Copy::new(isa, &spec).map(Kernel::Copy)
            }
            OperatorKind::Add { .. }
            | OperatorKind::Multiply { .. }
            | OperatorKind::Binary { .. }
            | OperatorKind::Unary { .. }
            | OperatorKind::Softmax { .. } => self.elementwise(kind, input, output),
            OperatorKind::LayerNorm { .. }
            | OperatorKind::Product { .. }
            | OperatorKind::Embedding { .. }
            | OperatorKind::Tokens { .. }
            | OperatorKind::Token { .. }
            | OperatorKind::Recurrent { .. } => self.sequence(kind, input, output),
            OperatorKind::GridSample { .. }
            | OperatorKind::TopK { .. }
            | OperatorKind::Take { .. } => self.computed(kind, input, output),
            OperatorKind::Attention { .. } => self.attention(kind, input, output),
            OperatorKind::BestScore { .. } | OperatorKind::Detections { .. } => {
                self.detected(kind, input, output)
            }
        }
    }

    /// Functions of each value, and softmaxes.
    fn elementwise(
        &self,
        kind: &OperatorKind,
        input: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<Kernel, KernelError> {
        let isa = self.isa;
        match kind {
            OperatorKind::Add { other, activation } => {
                let other = BinaryOperand::Tensor(self.layout(self.value(*other)));
                let operands = [BinaryOperand::Tensor(input), other];
                self.binary(BinaryFunction::Add, (operands, false), output, *activation)
            }
            OperatorKind::Multiply { other, activation } => {
                let other = BinaryOperand::Tensor(self.layout(self.value(*other)));
                let operands = [BinaryOperand::Tensor(input), other];
                self.binary(
                    BinaryFunction::Multiply,
                    (operands, false),
                    output,
                    *activation,
                )
            }
            OperatorKind::Binary {
                function,
                second,
                swapped,
                activation,
            } => {
                let second = match second {
                    SecondOperand::Tensor(other) => {
                        BinaryOperand::Tensor(self.layout(self.value(*other)))
                    }
                    SecondOperand::Constant { shape, .. } => {
                        let sides = [shape.channels, shape.height, shape.width];
                        let [channels, height, width] = sides.map(|side| side as usize);
                        let layout = BlockedLayout::new(isa, channels, height, width, 0)?;
                        BinaryOperand::Constant(layout)
                    }
                };
                let operands = [BinaryOperand::Tensor(input), second];
                self.binary(*function, (operands, *swapped), output, *activation)
            }
            OperatorKind::Unary { function } => {
                Unary::new(isa, *function, input, output).map(Kernel::Unary)
            }
            OperatorKind::Softmax { digit, logarithm } => {
                let (digit, logarithm) = (*digit, *logarithm);
                let spec = SoftmaxSpec {
                    input,
                    output,
                    digit,
                    logarithm,
                };
                Softmax::new(isa, &spec).map(Kernel::Softmax)
            }
            _ => unreachable!("`kernel` knows the families"),
        }
    }

    /// Sequences of tokens, but for attention.
    fn sequence(
        &self,
        kind: &OperatorKind,
        input: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<Kernel, KernelError> {
        let isa = self.isa;
        match kind {
            OperatorKind::LayerNorm { epsilon, .. } => {
                let epsilon = *epsilon;
                let spec = LayerNormSpec {
                    input,
                    output,
                    epsilon,
                };
                LayerNorm::new(isa, &spec).map(Kernel::LayerNorm)
            }
            OperatorKind::Product { other } => {
                let spec = ProductSpec {
                    first: input,
                    second: self.layout(self.value(*other)),
                    output,
                };
                Product::new(isa, &spec).map(Kernel::Product)
            }
            OperatorKind::Embedding { table } => {
                let rows = table.len as usize / output.channels();
                Embedding::new(isa, input, output, rows).map(Kernel::Embedding)
            }
            OperatorKind::Tokens { prefix, .. } => {
                Tokens::new(isa, input, output, *prefix as usize).map(Kernel::Tokens)
            }
            OperatorKind::Token { column } => {
                Token::new(isa, input, output, *column as usize).map(Kernel::Token)
            }
            &OperatorKind::Recurrent {
                cell,
                initial,
                backwards,
                ..
            } => {
                let spec = RecurrentSpec {
                    cell,
                    gates: input,
                    initial: initial.map(|id| self.layout(self.value(id))),
                    output,
                    backwards,
                };
                Recurrent::new(isa, &spec).map(Kernel::Recurrent)
            }
            _ => unreachable!("`kernel` knows the families"),
        }
    }

    /// Operators on computed positions.
    fn computed(
        &self,
        kind: &OperatorKind,
        input: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<Kernel, KernelError> {
        let isa = self.isa;
        match *kind {
            OperatorKind::GridSample {
                grid,
                groups,
                sampling,
            } => {
                let spec = GridSampleSpec {
                    input,
                    grid: self.layout(self.value(grid)),
                    output,
                    groups: groups as usize,
                    sampling,
                };
                GridSample::new(isa, &spec).map(Kernel::GridSample)
            }
            OperatorKind::TopK { axis, ranking, .. } => {
                let spec = TopKSpec {
                    input,
                    output,
                    axis,
                    ranking,
                };
                TopK::new(isa, &spec).map(Kernel::TopK)
            }
            OperatorKind::Take { indices, axis } => {
                let spec = TakeSpec {
                    input,
                    indices: self.layout(self.value(indices)),
                    output,
                    axis,
                };
                Take::new(isa, &spec).map(Kernel::Take)
            }
            _ => unreachable!("`kernel` knows the families"),
        }
    }

    /// What a detector's places become.
    fn detected(
        &self,
        kind: &OperatorKind,
        input: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<Kernel, KernelError> {
        match *kind {
            OperatorKind::BestScore {
                objectness,
                scoring,
            } => {
                let spec = BestScoreSpec {
                    scores: input,
                    objectness: objectness.map(|id| self.layout(self.value(id))),
                    output,
                    scoring,
                };
                BestScore::new(self.isa, &spec).map(Kernel::BestScore)
            }
            OperatorKind::Detections {
                others,
                scoring,
                decoder,
            } => {
                let [boxes, scores] = others.map(|id| self.layout(self.value(id)));
                let spec = DetectionsSpec {
                    best: input,
                    boxes,
                    scores,
                    output,
                    scoring,
                    decoder,
                };
                Detections::new(self.isa, &spec).map(Kernel::Detections)
            }
            _ => unreachable!("`kernel` knows the families"),
        }
    }

    fn binary(
        &self,
        function: BinaryFunction,
        (operands, swapped): ([BinaryOperand; 2], bool),
        output: BlockedLayout,
        activation: Activation,
    ) -> Result<Kernel, KernelError> {
        let spec = BinarySpec {
            function,
            operands,
            swapped,
            output,
            activation,
        };
        Binary::new(self.isa, &spec).map(Kernel::Binary)
    }

    fn attention(
        &self,
        kind: &OperatorKind,
        query: BlockedLayout,
        output: BlockedLayout,
    ) -> Result<Kernel, KernelError> {
        let OperatorKind::Attention {
            others,
            heads,
            scale,
            by_row,
            bias,
        } = kind
        else {
            unreachable!("called for attentions")
        };
        let layout = |at: usize| self.layout(self.value(others[at]));
        let spec = AttentionSpec {
            query,
            key: layout(0),
            value: layout(1),
            mask: others.get(2).map(|_| layout(2)),
            output,
            heads: *heads as usize,
            scale: *scale,
            by_row: *by_row,
            bias: bias.map(|bias| AttentionBias {
                by_row: bias.by_row,
                by_head: bias.by_head,
            }),
        };
        Attention::new(self.isa, &spec).map(Kernel::Attention)
    }

    pub(super) fn conv2d(
        &self,
        kind: &OperatorKind,
        input: ConvInput,
        output: BlockedLayout,
        residual: Option<Value>,
    ) -> Result<Conv2d, KernelError> {
        let OperatorKind::Conv2d {
            window,
            groups,
            activation,
            ..
        } = kind
        else {
            unreachable!("called for convolutions")
        };
        let spec = Conv2dSpec {
            input,
            output,
            residual: residual.map(|value| self.layout(value)),
            window: *window,
            groups: *groups as usize,
            activation: *activation,
        };
        Conv2d::new(self.isa, &spec)
    }
}
