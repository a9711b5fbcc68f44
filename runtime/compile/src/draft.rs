//! The network between lowering and staging: operators that own their weights and are not fused yet. One list; the passes
//! of [`fuse`](crate::fuse) work on it.
//!
//! A step that normalises, shifts or bends each value alone is a depthwise convolution of one pixel, which is what is left
//! of it where nothing before can take it in.

use std::collections::BTreeMap;
use std::rc::Rc;

use punctual_model::{Binary, Conv2d, Copy, Operator, OperatorKind, Tensor, TensorId};
use punctual_types::{Activation, BinaryFunction, Extent, Quantisation, Window};

/// Operators in order of execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// The first `inputs` tensors are the network's inputs.
    pub inputs: usize,
    pub tensors: Vec<Tensor>,
    pub operators: Vec<DraftOperator>,
    /// The tensors of bytes.
    pub quantised: BTreeMap<TensorId, Quantisation>,
    /// Where an operator's weights are whole numbers of steps, what a step is worth: one value, or
    /// one an output channel. By the tensor that the operator writes.
    pub steps: BTreeMap<TensorId, Rc<[f32]>>,
}

/// An operator with its weights. Integers are floats until the network is staged.
pub(crate) type DraftOperator = Operator<Vec<f32>>;

/// What an operator computes, whatever its tensors are.
#[derive(Clone, Debug)]
pub(crate) struct Computation {
    pub kind: OperatorKind,
    pub weights: Vec<Vec<f32>>,
}

/// `scale * x + shift` a channel: batch normalisation, or a constant added.
#[derive(Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub scale: &'a [f32],
    pub shift: &'a [f32],
}

impl<K: Into<OperatorKind>> From<K> for Computation {
    fn from(kind: K) -> Self {
        Self::new(kind, [])
    }
}

impl Computation {
    pub fn new(kind: impl Into<OperatorKind>, weights: impl IntoIterator<Item = Vec<f32>>) -> Self {
        Self {
            kind: kind.into(),
            weights: weights.into_iter().collect(),
        }
    }

    /// A dense convolution, or one of `groups`, without an activation.
    pub fn convolution(window: Window, groups: u32, weights: Vec<f32>, bias: Vec<f32>) -> Self {
        let conv = Conv2d {
            window,
            groups,
            activation: Activation::None,
        };
        Self::new(conv, [weights, bias])
    }

    /// `activation(scale * x + shift)` a channel.
    fn channelwise(scale: Vec<f32>, shift: Vec<f32>, activation: Activation) -> Self {
        let conv = Conv2d {
            window: Window::whole(Extent::square(1)),
            groups: scale.len() as u32,
            activation,
        };
        Self::new(conv, [scale, shift])
    }

    pub fn affine(scale: Vec<f32>, shift: Vec<f32>) -> Self {
        Self::channelwise(scale, shift, Activation::None)
    }

    /// An activation alone. `1 * x + 0` is exact, so that nothing is lost by it but the time of one pass.
    pub fn activation(activation: Activation, channels: u32) -> Self {
        let channels = channels as usize;
        Self::channelwise(vec![1.0; channels], vec![0.0; channels], activation)
    }

    /// Constants in other places: `pieces` read `table` as the source behind the tensors.
    pub fn copy(pieces: Vec<punctual_types::Piece>, table: Vec<f32>) -> Self {
        let tables = Some(table).filter(|table| !table.is_empty());
        Self::new(Copy { pieces }, tables)
    }

    /// The first weight that is infinite or not a number.
    pub fn not_finite(&self) -> Option<f32> {
        not_finite(&self.weights)
    }
}

/// The first weight that is infinite or not a number.
pub(crate) fn not_finite(weights: &[Vec<f32>]) -> Option<f32> {
    let mut all = weights.iter().flatten();
    all.find(|weight| !weight.is_finite()).copied()
}

/// What passes ask of an operator.
pub(crate) trait Drafted {
    /// The operator as an affine step, if it is no more than that.
    fn affine(&self) -> Option<Affine<'_>>;

    /// The operator as an activation, if it is no more than that.
    fn lone_activation(&self) -> Option<Activation>;

    /// The second of two tensors that it combines by a function, without an activation.
    fn second_of(&self, function: BinaryFunction) -> Option<TensorId>;

    /// Whether each pixel's channels follow from those of the same pixel alone.
    fn is_of_each_pixel(&self) -> bool;

    /// Its convolution, if it is one.
    fn conv(&self) -> Option<&Conv2d>;

    /// The same operator with another computation.
    fn become_of(&mut self, input: TensorId, computation: Computation);
}

impl Drafted for DraftOperator {
    fn affine(&self) -> Option<Affine<'_>> {
        let conv = self.conv()?;
        let [scale, shift] = &self.weights[..] else {
            return None;
        };
        let is_alone = conv.window == Window::whole(Extent::square(1))
            && scale.len() == shift.len()
            && conv.groups as usize == scale.len()
            && conv.activation == Activation::None
            && self.others.is_empty();
        is_alone.then_some(Affine { scale, shift })
    }

    fn lone_activation(&self) -> Option<Activation> {
        let conv = self.conv()?;
        let [scale, shift] = &self.weights[..] else {
            return None;
        };
        let is_alone = conv.activation != Activation::None
            && conv.window == Window::whole(Extent::square(1))
            && conv.groups as usize == shift.len()
            && scale.len() == shift.len()
            && self.others.is_empty()
            && scale.iter().all(|&scale| scale == 1.0)
            && shift.iter().all(|&shift| shift == 0.0);
        is_alone.then_some(conv.activation)
    }

    fn second_of(&self, function: BinaryFunction) -> Option<TensorId> {
        match (&self.kind, &self.others[..]) {
            (OperatorKind::Binary(binary), &[other]) if *binary == Binary::new(function) => {
                Some(other)
            }
            _ => None,
        }
    }

    fn is_of_each_pixel(&self) -> bool {
        match &self.kind {
            OperatorKind::Conv2d(conv) => conv.window == Window::whole(Extent::square(1)),
            OperatorKind::LayerNorm(_) => true,
            _ => false,
        }
    }

    fn conv(&self) -> Option<&Conv2d> {
        match &self.kind {
            OperatorKind::Conv2d(conv) => Some(conv),
            _ => None,
        }
    }

    fn become_of(&mut self, input: TensorId, computation: Computation) {
        self.input = input;
        self.others.clear();
        (self.kind, self.weights) = (computation.kind, computation.weights);
    }
}

impl Draft {
    /// The activation of the operator that writes a tensor.
    pub fn activation_of(&self, tensor: TensorId) -> Option<Activation> {
        let mut operators = self.operators.iter();
        let writer = operators.find(|operator| operator.output == tensor)?;
        writer.kind.activation()
    }

    /// Removes operators that no exit depends on; returns how many.
    pub fn remove_dead(&mut self, exits: &[TensorId]) -> usize {
        let mut needed = vec![false; self.tensors.len()];
        for exit in exits {
            needed[exit.index()] = true;
        }
        for operator in self.operators.iter().rev() {
            if needed[operator.output.index()] {
                operator
                    .reads()
                    .for_each(|read| needed[read.index()] = true);
            }
        }
        let before = self.operators.len();
        self.operators
            .retain(|operator| needed[operator.output.index()]);
        before - self.operators.len()
    }
}
