//! Functions of values, and softmaxes.

use punctual_model::{Binary, Recurrent, Softmax, Tensor, TensorId, Unary};
use punctual_types::{BinaryFunction, Cell, Digit, UnaryFunction};

use super::Builder;

impl Builder {
    /// Of two tensors, each repeated where it has one channel, row or column.
    pub fn binary(&mut self, function: BinaryFunction, a: TensorId, b: TensorId) -> TensorId {
        self.push(&[a, b], Binary::new(function))
    }

    /// Of a tensor and constants of this shape, which come first if they are swapped.
    pub fn with_constant(
        &mut self,
        function: BinaryFunction,
        input: TensorId,
        shape: Tensor,
        swapped: bool,
    ) -> TensorId {
        let values = self.draw(shape.elements() as u32, 3);
        let binary = Binary {
            constant: Some(shape),
            swapped,
            ..Binary::new(function)
        };
        self.push_weighted(&[input], binary, &[values])
    }

    pub fn unary(&mut self, function: UnaryFunction, input: TensorId) -> TensorId {
        self.push(&[input], Unary { function })
    }

    /// A recurrent layer over the columns of `gates`, which has what the inputs add to each gate.
    pub fn recurrent(
        &mut self,
        cell: Cell,
        gates: TensorId,
        initial: Option<TensorId>,
        backwards: bool,
    ) -> TensorId {
        let channels = self.shape(gates).channels;
        let hidden = channels / cell.gates();
        let weights = self.draw(channels * hidden, hidden);
        let bias = self.draw(channels, 16);
        let layer = Recurrent { cell, backwards };
        let reads: Vec<TensorId> = [gates].into_iter().chain(initial).collect();
        self.push_weighted(&reads, layer, &[weights, bias])
    }

    pub fn softmax(&mut self, input: TensorId, digit: Digit, logarithm: bool) -> TensorId {
        self.push(&[input], Softmax { digit, logarithm })
    }
}
