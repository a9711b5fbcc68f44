//! What every part of the product asks of an operator, and what it is asked with.

use punctual_types::{Activation, Quantisation};

use crate::limits::QUANTISED_PRODUCTS_MAX;
use crate::reference::Operation;
use crate::reference::noise::Rounding;
use crate::{Network, Operator, OperatorError, ShapeError, Tensor, TensorId};

/// The meaning of a kind of operator.
pub(crate) trait Meaning {
    /// What a report calls it, e.g. `convolution 3x3`.
    fn label(&self, input: Tensor) -> String;

    /// The shape of the result.
    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError>;

    /// The weights that it must have for a result of that shape. Their number does not depend on shapes, which may be any.
    fn weights(&self, _of: &Operands<'_>, _output: Tensor) -> Vec<Held> {
        Vec::new()
    }

    /// Its figures, and which of its tensors are bytes; its shapes and the sizes of its weights fit.
    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        site.has_floats()
    }

    /// Multiply-accumulates for one image; none if it has neither weights nor products of tensors.
    fn multiplications(&self, _site: Site<'_>) -> u64 {
        0
    }

    /// Rows and columns of zeros that it wants around its input.
    fn border(&self) -> u32 {
        0
    }

    /// Which of its tensors it takes for values one behind the other, with nothing around them.
    fn plain(&self, _input: Tensor) -> Plain {
        Plain::default()
    }

    fn activation(&self) -> Option<Activation> {
        None
    }

    /// The same with another activation, if it has one.
    fn set_activation(&mut self, _activation: Activation) {
        unreachable!("only an operator with an activation gets another")
    }

    /// What it computes of one image, planar.
    fn run(&self, of: &Operation<'_>) -> Vec<f32>;

    /// What the arithmetic of an engine may do to a result of floats.
    fn rounding(&self, of: &Operation<'_>, result: &[f32]) -> Rounding;
}

/// A list of weights that an operator must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub what: &'static str,
    pub elements: u64,
}

impl Held {
    pub fn new(what: &'static str, elements: u64) -> Self {
        Self { what, elements }
    }
}

/// Tensors that an operator takes for plain values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain {
    pub reads: bool,
    pub writes: bool,
}

/// What the shape of an operator's result follows from.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    pub input: Tensor,
    pub others: &'a [Tensor],
    /// Elements of each of its weights.
    pub weights: &'a [u32],
}

impl Operands<'_> {
    /// Elements of its weights number `at`; none if it has no such.
    pub(crate) fn held(&self, at: usize) -> u32 {
        self.weights.get(at).copied().unwrap_or(0)
    }

    /// It reads its input alone.
    pub(crate) fn no_others(&self) -> Result<(), ShapeError> {
        self.at_most(0).map(|_| ())
    }

    /// The one tensor that it reads besides its input.
    pub(crate) fn other(&self) -> Result<Tensor, ShapeError> {
        self.at_most(1)?.ok_or(self.not(1))
    }

    /// The first of at most `most` tensors that it reads besides its input.
    pub(crate) fn at_most(&self, most: usize) -> Result<Option<Tensor>, ShapeError> {
        match self.others.len() {
            found if found > most => Err(self.not(most)),
            _ => Ok(self.others.first().copied()),
        }
    }

    pub(crate) fn not(&self, expected: usize) -> ShapeError {
        let found = self.others.len();
        ShapeError::Operands { found, expected }
    }
}

/// An operator where it stands in its network.
#[derive(Clone, Copy)]
pub(crate) struct Site<'n> {
    pub network: &'n Network,
    pub operator: &'n Operator,
}

impl<'n> Site<'n> {
    fn shape(self, tensor: TensorId) -> Tensor {
        self.network.tensors[tensor.index()]
    }

    pub fn input(self) -> Tensor {
        self.shape(self.operator.input)
    }

    pub fn output(self) -> Tensor {
        self.shape(self.operator.output)
    }

    pub fn others(self) -> impl Iterator<Item = Tensor> + use<'n> {
        let others = self.operator.others.iter();
        others.map(move |&other| self.shape(other))
    }

    pub fn quantisation(self, tensor: TensorId) -> Option<Quantisation> {
        self.network.quantisation(tensor)
    }

    /// What the bytes of its input and its output stand for, if both are of bytes.
    pub fn quantisations(self) -> Option<(Quantisation, Quantisation)> {
        let from = self.quantisation(self.operator.input);
        from.zip(self.quantisation(self.operator.output))
    }

    /// Its weights number `at`, which are floats; none if it has no such.
    pub fn weights(self, at: usize) -> &'n [f32] {
        match self.operator.weights.get(at) {
            Some(range) => &self.network.weights[range.start as usize..][..range.len as usize],
            None => &[],
        }
    }

    /// Its weights number `at`, which are integers.
    pub fn integers(self, at: usize) -> &'n [i8] {
        let range = self.operator.weights[at];
        &self.network.quantised.weights[range.start as usize..][..range.len as usize]
    }

    /// All that it reads and writes is floats.
    pub fn has_floats(self) -> Result<(), OperatorError> {
        match self.has_one_kind() {
            Ok(()) if self.quantisation(self.operator.output).is_none() => Ok(()),
            _ => Err(OperatorError::Elements),
        }
    }

    /// All that it reads and writes is floats, or all is bytes.
    pub fn has_one_kind(self) -> Result<(), OperatorError> {
        let bytes = self.quantisation(self.operator.output).is_some();
        let same = |read| self.quantisation(read).is_some() == bytes;
        if self.operator.reads().all(same) {
            Ok(())
        } else {
            Err(OperatorError::Elements)
        }
    }

    /// All that it reads is kept as the output is.
    pub fn moves(self) -> Result<(), OperatorError> {
        let kept = self.quantisation(self.operator.output);
        {
            if self
                .operator
                .reads()
                .all(|read| self.quantisation(read) == kept)
            {
                Ok(())
            } else {
                Err(OperatorError::Elements)
            }
        }
    }
}

/// A figure of an operator that must be finite, or more.
pub(crate) fn check_figure(
    what: &'static str,
    value: f32,
    is_valid: bool,
) -> Result<(), OperatorError> {
    if is_valid {
        Ok(())
    } else {
        Err(OperatorError::Figure { what, value })
    }
}

pub(crate) fn check_activation(activation: Activation) -> Result<(), OperatorError> {
    match activation {
        Activation::Clip { low, high } if !(low.is_finite() && high.is_finite() && low <= high) => {
            Err(OperatorError::Clip { low, high })
        }
        _ => {
            let mut figures = activation.figures();
            match figures.find(|(_, figure)| !figure.is_finite()) {
                Some((what, value)) => check_figure(what, value, false),
                None => Ok(()),
            }
        }
    }
}

/// Bytes can only be clipped.
pub(crate) fn check_clip(activation: Activation) -> Result<(), OperatorError> {
    match activation {
        Activation::None | Activation::Relu => Ok(()),
        Activation::Clip { .. } => check_activation(activation),
        _ => Err(OperatorError::Curve),
    }
}

/// Sums of bytes stay within 32 bits.
pub(crate) fn check_sum(products: u64) -> Result<(), OperatorError> {
    if products > QUANTISED_PRODUCTS_MAX {
        Err(OperatorError::Products { products })
    } else {
        Ok(())
    }
}
