//! Products that are activations: exporters write what has no operator of its own as arithmetic.

use punctual_model::TensorId;
use punctual_types::{Activation, BinaryFunction};

use super::Fusion;
use crate::draft::{Affine, Computation, Drafted};
use crate::lower::curves::is_a_sixth;

impl Fusion {
    /// `x * sigmoid(x)`, and the same with a hard sigmoid; `x * tanh(softplus(x))`.
    pub(super) fn recognise_product(&mut self, at: usize) {
        let Some((x, gate)) = self.factors(at) else {
            self.recognise_mish(at);
            return;
        };
        let channels = self.operator(gate).conv().map_or(0, |conv| conv.groups);
        let activation = match self.operator(gate).lone_activation() {
            Some(Activation::Sigmoid) => Activation::Silu,
            Some(Activation::HardSigmoid) => Activation::HardSwish,
            _ => return,
        };
        self.operators[gate] = None;
        self.replace(at, x, Computation::activation(activation, channels));
        // The gate read it, too.
        self.readers[x.index()] -= 1;
    }

    fn recognise_mish(&mut self, at: usize) {
        let Some([first, second]) = self.product(at) else {
            return;
        };
        let ways = [(first, second), (second, first)];
        let found = ways.into_iter().find_map(|(x, gate)| {
            let (tanh, channels) = self.lone_activation(gate, Activation::Tanh)?;
            let inner = self.operators[tanh].as_ref()?.input;
            let (softplus, _) = self.lone_activation(inner, Activation::Softplus)?;
            let source = self.operators[softplus].as_ref()?.input;
            (source == x).then_some((x, tanh, softplus, channels))
        });
        let Some((x, tanh, softplus, channels)) = found else {
            return;
        };
        self.operators[tanh] = None;
        self.operators[softplus] = None;
        self.replace(at, x, Computation::activation(Activation::Mish, channels));
        self.readers[x.index()] -= 1;
    }

    /// The position and the channels of the activation that writes the tensor, if that has one reader.
    fn lone_activation(&self, tensor: TensorId, wanted: Activation) -> Option<(usize, u32)> {
        let writer = self.exclusive_writer(tensor)?;
        let operator = self.operator(writer);
        let is_wanted = operator.lone_activation() == Some(wanted);
        is_wanted.then_some((writer, operator.conv()?.groups))
    }

    /// `clip(x + 3, 0, 6) / 6`, and `x * clip(x + 3, 0, 6) / 6` in that order.
    pub(super) fn recognise_quotient(&mut self, at: usize) {
        let Some(operator) = &self.operators[at] else {
            return;
        };
        let Some(Affine { scale, shift }) = operator.affine() else {
            return;
        };
        let sixth = scale.iter().all(|&scale| is_a_sixth(scale));
        if !sixth || shift.iter().any(|&shift| shift != 0.0) {
            return;
        }
        let channels = scale.len() as u32;
        let Some(numerator) = self.exclusive_writer(operator.input) else {
            return;
        };
        let activate = |activation| Computation::activation(activation, channels);
        if let Some((line, x)) = self.shifted_ramp(numerator) {
            self.operators[line] = None;
            self.operators[numerator] = None;
            self.replace(at, x, activate(Activation::HardSigmoid));
            return;
        }
        let Some((x, ramp)) = self.factors(numerator) else {
            return;
        };
        if let Some((line, of)) = self.shifted_ramp(ramp)
            && of == x
        {
            for gone in [line, ramp, numerator] {
                self.operators[gone] = None;
            }
            self.replace(at, x, activate(Activation::HardSwish));
            self.readers[x.index()] -= 1;
        }
    }

    /// The two tensors that the operator multiplies, if it does no more.
    pub(super) fn product(&self, at: usize) -> Option<[TensorId; 2]> {
        let operator = self.operators[at].as_ref()?;
        let second = operator.second_of(BinaryFunction::Multiply)?;
        Some([operator.input, second])
    }

    /// Of a product `x * gate(x)`: `x`, and the position of the gate's last operator, whose result has no other reader.
    fn factors(&self, at: usize) -> Option<(TensorId, usize)> {
        let [first, second] = self.product(at)?;
        let ways = [(first, second), (second, first)];
        ways.into_iter().find_map(|(x, gate)| {
            let gate = self.exclusive_writer(gate)?;
            let operator = self.operators[gate].as_ref()?;
            let is_curve = operator.input == x && operator.lone_activation().is_some();
            let is_ramp = self.shifted_ramp(gate).is_some_and(|(_, of)| of == x);
            (is_curve || is_ramp).then_some((x, gate))
        })
    }

    /// If the operator is the clip of `clip(x + 3, 0, 6)`: the position of the sum, and `x`.
    fn shifted_ramp(&self, clip: usize) -> Option<(usize, TensorId)> {
        const SIX: Activation = Activation::Clip {
            low: 0.0,
            high: 6.0,
        };
        let operator = self.operators[clip].as_ref()?;
        let is_clip = operator.lone_activation() == Some(SIX);
        let line = self.exclusive_writer(operator.input).filter(|_| is_clip)?;
        let Affine { scale, shift } = self.operator(line).affine()?;
        let one = scale.iter().all(|&scale| scale == 1.0);
        let three = shift.iter().all(|&shift| shift == 3.0);
        let input = self.operators[line].as_ref()?.input;
        (one && three).then_some((line, input))
    }
}
