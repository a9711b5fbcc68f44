//! What operators read and write: which value, in whose memory, and how it lies there.

use punctual_kernels::{BlockedLayout, ConvInput};
use punctual_model::{Operator, TensorId, with_operator};

use super::Lower;
use super::lowering::{Action, Lowering};
use super::places::Places;
use crate::executable::Value;
use crate::shared::{Operand, Space, Span};

impl<'n> Lowering<'n> {
    /// The values of a vector, one behind the other, in the memory that it has.
    pub(super) fn plain(&self, tensor: TensorId, span: Span) -> Span {
        let layout = self.layout(self.value(tensor));
        let features = layout.features();
        let features = features.expect("vectors and answers have plain borders");
        Span {
            start: span.start + features.start,
            len: features.len(),
            ..span
        }
    }

    /// A tensor as operators read it that do not care what is around it.
    pub(super) fn value(&self, tensor: TensorId) -> Value {
        if tensor == self.network.input_tensor() {
            Value::Copy(tensor)
        } else {
            Value::Tensor(tensor)
        }
    }

    /// What an operator reads, its input first; none for planes of the network's input.
    pub(super) fn operands<'o>(
        &self,
        operator: &'o Operator,
    ) -> impl Iterator<Item = Option<Value>> + use<'_, 'n, 'o> {
        let others = operator.others.iter();
        std::iter::once(self.first_operand(operator)).chain(others.map(|&id| Some(self.value(id))))
    }

    pub(super) fn first_operand(&self, operator: &Operator) -> Option<Value> {
        let tensor = operator.input;
        if self.homes.first_plane(tensor).is_some() {
            let channels = self.network.tensors[tensor.index()].channels as usize;
            let reads_planes = with_operator!(&operator.kind, kind => kind.reads_planes(channels));
            return (!reads_planes).then_some(Value::Copy(tensor));
        }
        let wants_zeros = operator.kind.border() > 0;
        if wants_zeros && self.copies.contains_key(&tensor) {
            return Some(Value::Copy(tensor));
        }
        Some(Value::Tensor(tensor))
    }

    /// What an action reads but for the planes of the network's input.
    pub(super) fn reads<'a>(
        &self,
        action: &'a Action<'_>,
    ) -> impl Iterator<Item = Value> + use<'_, 'n, 'a> {
        let (copied, operator) = match *action {
            Action::Copy(tensor) if tensor == self.network.input_tensor() => (None, None),
            Action::Copy(tensor) => (Some(Value::Tensor(tensor)), None),
            Action::Operator { operator, .. } => (None, Some(operator)),
        };
        let operands = operator
            .into_iter()
            .flat_map(|operator| self.operands(operator).flatten());
        copied.into_iter().chain(operands)
    }

    pub(super) fn layout(&self, value: Value) -> BlockedLayout {
        match value {
            Value::Tensor(tensor) => self.layouts[tensor.index()],
            Value::Copy(tensor) => self.copies[&tensor],
        }
    }

    /// The value whose memory it is that the value lies in.
    pub(super) fn memory(&self, value: Value) -> Value {
        match value {
            Value::Tensor(tensor) => Value::Tensor(self.homes.root(tensor).tensor),
            Value::Copy(_) => value,
        }
    }

    /// The first of the value's blocks in its memory.
    pub(super) fn block(&self, value: Value) -> usize {
        match value {
            Value::Tensor(tensor) => self.homes.root(tensor).block,
            Value::Copy(_) => 0,
        }
    }

    /// Where a memory lies in the request buffer, if it does.
    pub(super) fn carried_at(&self, memory: Value) -> Option<Span> {
        match memory {
            Value::Tensor(tensor) => self.carried[tensor.index()],
            Value::Copy(_) => None,
        }
    }

    pub(super) fn operand(&self, value: Value, places: &Places<'_>) -> Operand {
        Operand {
            span: places.of(value),
            layout: ConvInput::Blocked(self.layout(value)),
        }
    }

    /// The planes of the network's input that the tensor is.
    pub(super) fn planes(&self, tensor: TensorId) -> Operand {
        let first = self.homes.first_plane(tensor).expect("it is planes");
        let channels = self.network.tensors[tensor.index()].channels;
        let layout = self.input.of_channels(channels as usize);
        Operand {
            span: Span {
                space: Space::Request,
                start: first * layout.plane_stride(),
                len: layout.len(),
            },
            layout: ConvInput::Planar(layout),
        }
    }
}
