//! Fusing: what a convolution, a linear layer or an addition can do in passing is taken into it.
//!
//! Each pass walks the operators once, in order. A step is taken into the operator before it only when that
//! operator's result has no other reader (an exit counts as one), so no value that another operator needs disappears.

mod gelu;
mod hoist;
mod normalisation;
mod products;

use punctual_model::{InputForm, OperatorKind, Tensor, TensorId};
use punctual_types::{Activation, BinaryFunction};

use crate::draft::{Affine, Computation, Draft, DraftOperator, Drafted};
use crate::gather;

/// How many steps were taken in, and what was left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fused {
    /// Steps on a picture that became a part of its normalisation.
    pub prepared: usize,
    /// Batch normalisations and constant additions folded into weights.
    pub affine: usize,
    /// Additions that became the residual of a convolution.
    pub residual: usize,
    /// Activations taken into the operator before.
    pub activation: usize,
    /// Affine steps and activations that became a convolution of one pixel of their own.
    pub standalone: usize,
}

/// Fuses everything that can be in a draft without dead operators, and whose input is of this form.
pub(crate) fn fuse(draft: &mut Draft, exits: &[TensorId], form: &mut InputForm) -> Fused {
    let mut fused = Fused::default();
    let mut fusion = Fusion::new(draft, exits);
    for at in 0..fusion.operators.len() {
        fusion.recognise_product(at);
        fusion.recognise_quotient(at);
        fusion.recognise_gelu(at);
        fusion.hoist_affine(at, &mut draft.tensors);
    }
    draft.operators = fusion.operators.into_iter().flatten().collect();
    gather::compose(draft, exits);
    draft.remove_dead(exits);
    fused.prepared = normalisation::take_in(draft, exits, form);
    let mut fusion = Fusion::new(draft, exits);
    for at in 0..fusion.operators.len() {
        fusion.fold_affine(at, &mut fused);
    }
    for at in 0..fusion.operators.len() {
        fusion.take_in_addition(at, &draft.tensors, &mut fused);
    }
    for at in 0..fusion.operators.len() {
        fusion.take_in_activation(at, &mut fused);
    }
    draft.operators = fusion.operators.into_iter().flatten().collect();
    fused
}

struct Fusion {
    /// `None` where an operator was taken into another.
    operators: Vec<Option<DraftOperator>>,
    /// Readers of each tensor, an exit being one. Fusing removes a tensor together with its only
    /// reader, so the others' counts do not change. `products` subtracts the readers that it removes.
    readers: Vec<u32>,
    /// Position of the operator that writes each tensor.
    writer: Vec<Option<usize>>,
}

impl Fusion {
    fn new(draft: &mut Draft, exits: &[TensorId]) -> Self {
        let mut readers = vec![0; draft.tensors.len()];
        let mut writer = vec![None; draft.tensors.len()];
        exits.iter().for_each(|exit| readers[exit.index()] += 1);
        for (at, operator) in draft.operators.iter().enumerate() {
            operator.reads().for_each(|read| readers[read.index()] += 1);
            writer[operator.output.index()] = Some(at);
        }
        let operators = std::mem::take(&mut draft.operators)
            .into_iter()
            .map(Some)
            .collect();
        Self {
            operators,
            readers,
            writer,
        }
    }

    /// Position of the operator that writes `tensor`, if that has one reader only.
    fn exclusive_writer(&self, tensor: TensorId) -> Option<usize> {
        self.writer[tensor.index()].filter(|_| self.readers[tensor.index()] == 1)
    }

    fn operator(&self, at: usize) -> &DraftOperator {
        let operator = self.operators[at].as_ref();
        operator.expect("a writer is never a removed operator")
    }

    fn operator_mut(&mut self, at: usize) -> &mut DraftOperator {
        let operator = self.operators[at].as_mut();
        operator.expect("a writer is never a removed operator")
    }

    /// Moves the result of operator `from` to its writer `into`, and removes `from`.
    fn merge(&mut self, into: usize, from: usize) {
        let removed = self.operators[from]
            .take()
            .expect("each operator is merged once");
        self.writer[removed.output.index()] = Some(into);
        self.operator_mut(into).output = removed.output;
    }

    /// Makes the operator at `at` another one, of `input` alone, with the same result.
    fn replace(&mut self, at: usize, input: TensorId, computation: Computation) {
        self.operator_mut(at).become_of(input, computation);
    }

    /// `scale * (W x + b) + shift = (scale W) x + (scale b + shift)`.
    fn fold_affine(&mut self, at: usize, fused: &mut Fused) {
        let Some(operator) = &self.operators[at] else {
            return;
        };
        let Some(Affine { scale, shift }) = operator.affine() else {
            return;
        };
        let writer = self.exclusive_writer(operator.input);
        let foldable = writer.filter(|&into| {
            let kind = &self.operator(into).kind;
            let is_weighted = matches!(kind, OperatorKind::Conv2d(_) | OperatorKind::Linear(_));
            is_weighted && kind.activation() == Some(Activation::None)
        });
        let Some(into) = foldable else {
            fused.standalone += 1;
            return;
        };
        let (scale, shift) = (scale.to_vec(), shift.to_vec());
        let [weights, bias] = &mut self.operator_mut(into).weights[..] else {
            unreachable!("only operators with weights are foldable")
        };
        let row = weights.len() / bias.len();
        for (weights, scale) in weights.chunks_exact_mut(row).zip(&scale) {
            weights.iter_mut().for_each(|weight| *weight *= scale);
        }
        for ((bias, scale), shift) in bias.iter_mut().zip(&scale).zip(&shift) {
            *bias = (f64::from(*bias) * f64::from(*scale) + f64::from(*shift)) as f32;
        }
        self.merge(into, at);
        fused.affine += 1;
    }

    /// `conv(x) + y` becomes a convolution with residual `y`, at the place of the addition, where
    /// both are there. Of two convolutions the later one takes the other's result.
    fn take_in_addition(&mut self, at: usize, tensors: &[Tensor], fused: &mut Fused) {
        let Some(operator) = &self.operators[at] else {
            return;
        };
        let (OperatorKind::Binary(sum), &[second]) = (&operator.kind, &operator.others[..]) else {
            return;
        };
        let (first, output, activation) = (operator.input, operator.output, sum.activation);
        let is_of_equals = tensors[first.index()] == tensors[second.index()];
        if sum.function != BinaryFunction::Add || !is_of_equals {
            return;
        }
        let candidate = |conv: TensorId, other: TensorId| {
            let writer = self.exclusive_writer(conv)?;
            let operator = self.operator(writer);
            let is_free =
                operator.others.is_empty() && operator.conv()?.activation == Activation::None;
            is_free.then_some((writer, other))
        };
        let candidates = [candidate(first, second), candidate(second, first)];
        let Some((writer, other)) = candidates.into_iter().flatten().max() else {
            return;
        };
        let mut conv = self.operators[writer]
            .take()
            .expect("a writer is never removed");
        conv.others = vec![other];
        conv.output = output;
        conv.kind.set_activation(activation);
        self.operators[at] = Some(conv);
        self.writer[output.index()] = Some(at);
        fused.residual += 1;
    }

    /// The operator whose values the one at `at` has, by way of copies of them that nothing else reads.
    fn before_copies(&self, mut at: usize) -> Option<usize> {
        while let copy = self.operator(at)
            && matches!(copy.kind, OperatorKind::Copy(_))
        {
            if !copy.weights.is_empty() || !copy.others.is_empty() {
                return None;
            }
            at = self.exclusive_writer(copy.input)?;
        }
        Some(at)
    }

    fn take_in_activation(&mut self, at: usize, fused: &mut Fused) {
        let Some(operator) = &self.operators[at] else {
            return;
        };
        let Some(outer) = operator.lone_activation() else {
            return;
        };
        let writer = self.exclusive_writer(operator.input);
        let composed = writer.and_then(|last| {
            let into = self.before_copies(last)?;
            let inner = self.operator(into).kind.activation()?;
            Some((into, last, compose(inner, outer)?))
        });
        match composed {
            Some((into, last, composed)) => {
                self.operator_mut(into).kind.set_activation(composed);
                self.merge(last, at);
                fused.activation += 1;
            }
            None => fused.standalone += 1,
        }
    }
}

/// `outer(inner(x))`, where that is one activation. Clamping twice is clamping once to the inner
/// bounds clamped by the outer.
pub(crate) fn compose(inner: Activation, outer: Activation) -> Option<Activation> {
    let bounds = |activation| match activation {
        Activation::Relu => Some((0.0, f32::MAX)),
        Activation::Clip { low, high } => Some((low, high)),
        _ => None,
    };
    if let (Activation::None, only) | (only, Activation::None) = (inner, outer) {
        return Some(only);
    }
    let ((low, high), outer_bounds) = (bounds(inner)?, bounds(outer)?);
    let clamp = |bound: f32| bound.clamp(outer_bounds.0, outer_bounds.1);
    Some(match () {
        () if clamp(low) == 0.0 && clamp(high) == f32::MAX => Activation::Relu,
        () => Activation::Clip {
            low: clamp(low),
            high: clamp(high),
        },
    })
}
