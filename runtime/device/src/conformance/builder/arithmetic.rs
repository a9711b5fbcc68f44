//! Functions of values, and softmaxes.

use punctual_model::{OperatorKind, SecondOperand, Tensor, TensorId};
use punctual_types::{Activation, BinaryFunction, Cell, Digit, UnaryFunction};

use super::Builder;

impl Builder {
    /// Of two tensors, each repeated where it has one channel, row or column.
    pub fn binary(&mut self, function: BinaryFunction, a: TensorId, b: TensorId) -> TensorId {
        let output = larger(self.shape(a), self.shape(b));
        let kind = OperatorKind::Binary {
            function,
            second: SecondOperand::Tensor(b),
            swapped: false,
            activation: Activation::None,
        };
        self.push(a, kind, output)
    }

    /// Of a tensor and constants of this shape, which come first if they are swapped.
    pub fn with_constant(
        &mut self,
        function: BinaryFunction,
        input: TensorId,
        shape: Tensor,
        swapped: bool,
    ) -> TensorId {
        let output = larger(self.shape(input), shape);
        let values = self.draw(shape.elements() as u32, 3);
        let kind = OperatorKind::Binary {
            function,
            second: SecondOperand::Constant { values, shape },
            swapped,
            activation: Activation::None,
        };
        self.push(input, kind, output)
    }

    pub fn unary(&mut self, function: UnaryFunction, input: TensorId) -> TensorId {
        self.push(input, OperatorKind::Unary { function }, self.shape(input))
    }

    /// A recurrent layer over the columns of `gates`, which has what the inputs add to each gate.
    pub fn recurrent(
        &mut self,
        cell: Cell,
        gates: TensorId,
        initial: Option<TensorId>,
        backwards: bool,
    ) -> TensorId {
        let shape = self.shape(gates);
        let hidden = shape.channels / cell.gates();
        let weights = self.draw(shape.channels * hidden, hidden);
        let bias = self.draw(shape.channels, 16);
        let kind = OperatorKind::Recurrent {
            cell,
            weights,
            bias,
            initial,
            backwards,
        };
        let channels = hidden * cell.values();
        self.push(gates, kind, Tensor { channels, ..shape })
    }

    pub fn softmax(&mut self, input: TensorId, digit: Digit, logarithm: bool) -> TensorId {
        let kind = OperatorKind::Softmax { digit, logarithm };
        self.push(input, kind, self.shape(input))
    }
}

fn larger(a: Tensor, b: Tensor) -> Tensor {
    Tensor {
        channels: a.channels.max(b.channels),
        height: a.height.max(b.height),
        width: a.width.max(b.width),
    }
}
