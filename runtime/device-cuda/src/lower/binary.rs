//! Functions of two tensors, or of one and a constant.

use punctual_cuda_kernels::params::{AddBytes, Elementwise, Function, Kept, Operand, Rounding};
use punctual_cuda_kernels::{TensorView, padded};
use punctual_model::{Binary, Operator, OperatorKind, TensorId};
use punctual_types::{Activation, Axis};

use super::convert::ratio;
use super::digits::step_of;
use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed, Rows};
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Span, Traffic};

impl Pack for Binary {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let shape = self.constant?;
        Some(Content::Rows(Rows {
            is_planar: true,
            kept: Kept::Floats,
            ..of.rows(shape.pixels() as u32, shape.channels)
        }))
    }
}

impl Lower for Binary {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        if launches.kept(operator.output) == Kept::Bytes {
            launches.add_bytes(of, operator, self.activation);
            return Ok(());
        }
        let second = match self.constant {
            None => launches.operand(operator.others[0]),
            Some(shape) => {
                let view = TensorView {
                    address: launches.constant(of).encode(),
                    height: shape.height,
                    width: shape.width,
                    channels: shape.channels,
                    pitch: padded(shape.channels),
                };
                Operand {
                    image: 0,
                    ..operand(&view, Kept::Floats)
                }
            }
        };
        launches.elementwise(of, operator, self.function, second, self.activation);
        Ok(())
    }
}

impl Launches<'_> {
    fn add_bytes(&mut self, of: Of<'_>, operator: &Operator, activation: Activation) {
        let to = self.bytes(operator.output);
        let (a, b) = (self.bytes(operator.input), self.bytes(operator.others[0]));
        let add = AddBytes {
            first: self.read(operator.input).address,
            second: self.read(operator.others[0]).address,
            output: self.write(operator.output),
            images: u32::from(self.batch),
            first_zero: a.zero.into(),
            second_zero: b.zero.into(),
            first_ratio: ratio(a, to),
            second_ratio: ratio(b, to),
            gap: 0,
            rounding: Rounding::of(to, activation),
        };
        self.push(of, "add_bytes", add);
    }

    /// As floats if the tensor is in the workspace as floats: halves may be inexact for positions.
    fn operand(&mut self, tensor: TensorId) -> Operand {
        match self.floats_here(tensor) {
            Some(floats) => operand(&floats, Kept::Floats),
            None => operand(&self.read(tensor), Kept::Halves),
        }
    }

    pub(super) fn elementwise(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        function: impl Into<Function>,
        second: Operand,
        activation: Activation,
    ) {
        let input = self.operand(operator.input);
        let swapped = matches!(
            operator.kind,
            OperatorKind::Binary(Binary { swapped: true, .. })
        );
        let (first, second) = if swapped {
            (second, input)
        } else {
            (input, second)
        };
        let function = function.into();
        let both = Elementwise {
            output: self.write(operator.output),
            first,
            second,
            images: u32::from(self.batch),
            function: function as u32,
            epilogue: activation.into(),
        };
        self.push(of, function.kernel(), both);
    }
}

/// A tensor as an operand, which is repeated along axes of one position.
fn operand(view: &TensorView, kept: Kept) -> Operand {
    let step = |positions: u32, axis: Axis| match positions {
        1 => 0,
        _ => step_of(view, axis),
    };
    Operand {
        address: view.address,
        image: view.image() as u32,
        row: step(view.height, Axis::Row),
        column: step(view.width, Axis::Column),
        channel: step(view.channels, Axis::Channel),
        kept: kept as u32,
        gap: 0,
    }
}

impl Launch for Elementwise {
    fn traffic(&self) -> Traffic {
        Traffic::new(
            [
                Span::operand(0, &self.first, self.images),
                Span::operand(1, &self.second, self.images),
            ],
            [Span::tensor(Made, &self.output, self.images)],
        )
    }
}

impl Launch for AddBytes {
    fn traffic(&self) -> Traffic {
        let output = Span::kept(Made, &self.output, self.images, Kept::Bytes as u32);
        let operand = |at, address| Span::at(Read(at), address, output.bytes);
        Traffic::new([operand(0, self.first), operand(1, self.second)], [output])
    }
}
