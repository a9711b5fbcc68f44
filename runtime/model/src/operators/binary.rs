//! Functions of two tensors, or of one and a constant.

use punctual_types::{Activation, BinaryFunction};
use serde::{Deserialize, Serialize};

use super::meaning::{Held, Meaning, Operands, Site, check_activation, check_clip};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::quantised::{ratio, round};
use crate::reference::{Operation, Planar};
use crate::{OperatorError, ShapeError, Tensor};

/// `activation(function(a, b))`. `a` is the input, unless they are swapped; `b` its other operand or a constant. Where one
/// of the two has one channel, row or column and the other several, it is repeated. Of bytes only sums of two tensors of
/// one shape.
///
/// Weights: the constant, `[channel][row][column]`, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binary {
    pub function: BinaryFunction,
    /// Shape of the constant. None: there is another operand.
    pub constant: Option<Tensor>,
    /// Whether the input is `b`.
    pub swapped: bool,
    /// Applied last.
    pub activation: Activation,
}

impl Binary {
    /// Of two tensors, without an activation.
    #[must_use]
    pub const fn new(function: BinaryFunction) -> Self {
        Self {
            function,
            constant: None,
            swapped: false,
            activation: Activation::None,
        }
    }
}

impl Meaning for Binary {
    fn label(&self, _input: Tensor) -> String {
        let label = match (self.function, self.constant) {
            (BinaryFunction::Add, None) => "add",
            (BinaryFunction::Multiply, None) => "multiply",
            _ => "arithmetic",
        };
        label.to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let first = of.input;
        let second = match self.constant {
            Some(shape) => of.no_others().map(|()| shape)?,
            None => of.other()?,
        };
        let side = |a: u32, b: u32| match (a, b) {
            (a, b) if a == b || b == 1 => Ok(a),
            (1, b) => Ok(b),
            _ => Err(ShapeError::Broadcast { first, second }),
        };
        Ok(Tensor {
            channels: side(first.channels, second.channels)?,
            height: side(first.height, second.height)?,
            width: side(first.width, second.width)?,
        })
    }

    fn weights(&self, _of: &Operands<'_>, _output: Tensor) -> Vec<Held> {
        let constant = self.constant.iter();
        let held = constant.map(|shape| Held::new("constant", shape.elements()));
        held.collect()
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        if site.quantisations().is_none() {
            site.has_floats()?;
            return check_activation(self.activation);
        }
        site.has_one_kind()?;
        let (first, mut others) = (site.input(), site.others());
        match others.next() {
            Some(other) if other != first => Err(ShapeError::Addend { first, other }.into()),
            Some(_) if self.function == BinaryFunction::Add && !self.swapped => {
                check_clip(self.activation)
            }
            _ => Err(OperatorError::Elements),
        }
    }

    fn activation(&self) -> Option<Activation> {
        Some(self.activation)
    }

    fn set_activation(&mut self, activation: Activation) {
        self.activation = activation;
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let input = of.input();
        let other = match self.constant {
            Some(shape) => Planar {
                shape,
                data: of.weights(0),
            },
            None => of.others().next().expect("it has two operands"),
        };
        let (a, b) = if self.swapped {
            (other, input)
        } else {
            (input, other)
        };
        if let Some((from, to)) = of.quantisations() {
            let second = of.quantisation(of.operator.others[0]).expect("bytes, too");
            let steps = |value: f32, of: punctual_types::Quantisation| {
                (value - f32::from(of.zero)) * ratio(of.scale, to)
            };
            let sum = |a, b| round(steps(a, from) + steps(b, second), to, self.activation);
            return repeated(a, b, of.output(), sum);
        }
        repeated(a, b, of.output(), |a, b| {
            self.activation.of(self.function.of(a, b))
        })
    }

    /// A value that is rounded once, unless a curve follows.
    fn rounding(&self, _of: &Operation<'_>, result: &[f32]) -> Rounding {
        let own = typical(result);
        let form = Form::of_curve(!self.activation.is_clip());
        let size = match (self.function, form) {
            (BinaryFunction::Power, _) => own,
            // The error of curves that are made of exponentials is in relation to 1, near 0 as well.
            (_, Form::Curve) => own.max(1.0),
            _ => 0.0,
        };
        Rounding::once(form, size)
    }
}

/// `function` of each pair, the operands repeated where they have one position.
fn repeated(a: Planar, b: Planar, output: Tensor, function: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    let value = |operand: Planar, [channel, row, column]: [u32; 3]| {
        let Tensor {
            channels,
            height,
            width,
        } = operand.shape;
        let row = row.min(height - 1) + channel.min(channels - 1) * height;
        operand.data[(row * width + column.min(width - 1)) as usize]
    };
    let places = output.places();
    places
        .map(|at| function(value(a, at), value(b, at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_repeated_along_every_axis() {
        let shape = |channels, height, width| Tensor {
            channels,
            height,
            width,
        };
        let a = Planar {
            shape: shape(2, 1, 2),
            data: &[1.0, 2.0, 3.0, 4.0],
        };
        let b = Planar {
            shape: shape(1, 2, 1),
            data: &[10.0, 20.0],
        };
        let sums = repeated(a, b, shape(2, 2, 2), |a, b| a + b);
        assert_eq!(sums, [11.0, 12.0, 21.0, 22.0, 13.0, 14.0, 23.0, 24.0]);
    }
}
