//! What an operator refers to: tensors that it reads, ranges of weights. The one place that lists them for each kind.

use crate::{Operator, OperatorKind, SecondOperand, TensorId, WeightRange};

impl Operator {
    /// The tensors that it reads: its input, then a residual, a second operand, further sources.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        std::iter::once(self.input).chain(self.kind.others().iter().copied())
    }
}

impl OperatorKind {
    /// The tensors that it reads besides its input.
    #[must_use]
    pub fn others(&self) -> &[TensorId] {
        match self {
            Self::Conv2d { residual, .. } => residual.as_slice(),
            Self::Recurrent { initial, .. } => initial.as_slice(),
            Self::BestScore { objectness, .. } => objectness.as_slice(),
            Self::Detections { others, .. } => others,
            Self::Add { other, .. }
            | Self::Multiply { other, .. }
            | Self::Product { other }
            | Self::GridSample { grid: other, .. }
            | Self::Take { indices: other, .. } => std::slice::from_ref(other),
            Self::Binary {
                second: SecondOperand::Tensor(other),
                ..
            } => std::slice::from_ref(other),
            Self::Gather { others, .. }
            | Self::Attention { others, .. }
            | Self::Copy { others, .. } => others,
            Self::Pool { .. }
            | Self::GlobalAveragePool
            | Self::Linear { .. }
            | Self::LayerNorm { .. }
            | Self::Embedding { .. }
            | Self::Tokens { .. }
            | Self::Token { .. }
            | Self::QuantisedConv2d { .. }
            | Self::Convert
            | Self::Binary { .. }
            | Self::Unary { .. }
            | Self::Softmax { .. }
            | Self::Resize { .. }
            | Self::TopK { .. } => &[],
        }
    }

    /// As [`others`](Self::others), to rename them.
    pub fn others_mut(&mut self) -> &mut [TensorId] {
        match self {
            Self::Conv2d { residual, .. } => residual.as_mut_slice(),
            Self::Recurrent { initial, .. } => initial.as_mut_slice(),
            Self::BestScore { objectness, .. } => objectness.as_mut_slice(),
            Self::Detections { others, .. } => others,
            Self::Add { other, .. }
            | Self::Multiply { other, .. }
            | Self::Product { other }
            | Self::GridSample { grid: other, .. }
            | Self::Take { indices: other, .. } => std::slice::from_mut(other),
            Self::Binary {
                second: SecondOperand::Tensor(other),
                ..
            } => std::slice::from_mut(other),
            Self::Gather { others, .. }
            | Self::Attention { others, .. }
            | Self::Copy { others, .. } => others,
            Self::Pool { .. }
            | Self::GlobalAveragePool
            | Self::Linear { .. }
            | Self::LayerNorm { .. }
            | Self::Embedding { .. }
            | Self::Tokens { .. }
            | Self::Token { .. }
            | Self::QuantisedConv2d { .. }
            | Self::Convert
            | Self::Binary { .. }
            | Self::Unary { .. }
            | Self::Softmax { .. }
            | Self::Resize { .. }
            | Self::TopK { .. } => &mut [],
        }
    }

    /// All its f32 weights, scales and biases.
    pub fn weight_ranges(&self) -> impl Iterator<Item = WeightRange> + use<> {
        let ranges = match self {
            Self::Conv2d { weights, bias, .. } | Self::Linear { weights, bias, .. } => {
                [Some(*weights), Some(*bias)]
            }
            Self::LayerNorm { scale, bias, .. } => [Some(*scale), Some(*bias)],
            Self::Recurrent { weights, bias, .. } => [Some(*weights), Some(*bias)],
            Self::Embedding { table } | Self::Tokens { table, .. } => [Some(*table), None],
            Self::QuantisedConv2d { scales, bias, .. } => [Some(*scales), Some(*bias)],
            Self::Copy { table, .. } => [*table, None],
            Self::Attention { bias, .. } => [bias.map(|bias| bias.values), None],
            Self::Binary {
                second: SecondOperand::Constant { values, .. },
                ..
            } => [Some(*values), None],
            Self::Pool { .. }
            | Self::GlobalAveragePool
            | Self::Add { .. }
            | Self::Multiply { .. }
            | Self::Gather { .. }
            | Self::Token { .. }
            | Self::Product { .. }
            | Self::Convert
            | Self::Binary { .. }
            | Self::Unary { .. }
            | Self::Softmax { .. }
            | Self::Resize { .. }
            | Self::GridSample { .. }
            | Self::TopK { .. }
            | Self::Take { .. }
            | Self::BestScore { .. }
            | Self::Detections { .. } => [None; 2],
        };
        ranges.into_iter().flatten()
    }

    /// As [`weight_ranges`](Self::weight_ranges), to move them.
    pub fn weight_ranges_mut(&mut self) -> impl Iterator<Item = &mut WeightRange> {
        let ranges = match self {
            Self::Conv2d { weights, bias, .. } | Self::Linear { weights, bias, .. } => {
                [Some(weights), Some(bias)]
            }
            Self::LayerNorm { scale, bias, .. } => [Some(scale), Some(bias)],
            Self::Recurrent { weights, bias, .. } => [Some(weights), Some(bias)],
            Self::Embedding { table } | Self::Tokens { table, .. } => [Some(table), None],
            Self::QuantisedConv2d { scales, bias, .. } => [Some(scales), Some(bias)],
            Self::Copy { table, .. } => [table.as_mut(), None],
            Self::Attention { bias, .. } => [bias.as_mut().map(|bias| &mut bias.values), None],
            Self::Binary {
                second: SecondOperand::Constant { values, .. },
                ..
            } => [Some(values), None],
            Self::Pool { .. }
            | Self::GlobalAveragePool
            | Self::Add { .. }
            | Self::Multiply { .. }
            | Self::Gather { .. }
            | Self::Token { .. }
            | Self::Product { .. }
            | Self::Convert
            | Self::Binary { .. }
            | Self::Unary { .. }
            | Self::Softmax { .. }
            | Self::Resize { .. }
            | Self::GridSample { .. }
            | Self::TopK { .. }
            | Self::Take { .. }
            | Self::BestScore { .. }
            | Self::Detections { .. } => [None, None],
        };
        ranges.into_iter().flatten()
    }
}
