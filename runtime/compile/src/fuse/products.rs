//! Products that are activations: exporters write what has no operator of its own as arithmetic.

use punctual_model::TensorId;
use punctual_types::Activation;

use super::Fusion;
use crate::draft::{DraftKind, DraftOperator};
use crate::lower::curves::is_a_sixth;

impl Fusion {
    /// `x * sigmoid(x)`, and the same with a hard sigmoid; `x * tanh(softplus(x))`.
    pub(super) fn recognise_product(&mut self, at: usize) {
        let Some((x, gate)) = self.factors(at) else {
            self.recognise_mish(at);
            return;
        };
        let DraftKind::Activate {
            activation,
            channels,
        } = self.kind(gate)
        else {
            return;
        };
        let activation = match activation {
            Activation::Sigmoid => Activation::Silu,
            Activation::HardSigmoid => Activation::HardSwish,
            _ => return,
        };
        let kind = DraftKind::Activate {
            activation,
            channels: *channels,
        };
        self.operators[gate] = None;
        self.replace(at, x, kind);
        // The gate read it, too.
        self.readers[x.index()] -= 1;
    }

    fn recognise_mish(&mut self, at: usize) {
        let Some(operator) = &self.operators[at] else {
            return;
        };
        let (
            DraftKind::Multiply {
                activation: Activation::None,
            },
            &[other],
        ) = (&operator.kind, &operator.others[..])
        else {
            return;
        };
        let ways = [(operator.input, other), (other, operator.input)];
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
        let activation = Activation::Mish;
        self.replace(
            at,
            x,
            DraftKind::Activate {
                activation,
                channels,
            },
        );
        self.readers[x.index()] -= 1;
    }

    /// The position and the channels of the activation that writes the tensor, if that has one reader.
    fn lone_activation(&self, tensor: TensorId, wanted: Activation) -> Option<(usize, u32)> {
        let writer = self.exclusive_writer(tensor)?;
        match self.kind(writer) {
            DraftKind::Activate {
                activation,
                channels,
            } if *activation == wanted => Some((writer, *channels)),
            _ => None,
        }
    }

    /// `clip(x + 3, 0, 6) / 6`, and `x * clip(x + 3, 0, 6) / 6` in that order.
    pub(super) fn recognise_quotient(&mut self, at: usize) {
        let Some(operator) = &self.operators[at] else {
            return;
        };
        let DraftKind::Affine { scale, shift } = &operator.kind else {
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
        let activate = |activation| DraftKind::Activate {
            activation,
            channels,
        };
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

    /// Of a product `x * gate(x)`: `x`, and the position of the gate's last operator, whose result has no other reader.
    fn factors(&self, at: usize) -> Option<(TensorId, usize)> {
        let operator = self.operators[at].as_ref()?;
        let DraftKind::Multiply {
            activation: Activation::None,
        } = operator.kind
        else {
            return None;
        };
        let &[other] = &operator.others[..] else {
            return None;
        };
        let ways = [(operator.input, other), (other, operator.input)];
        ways.into_iter().find_map(|(x, gate)| {
            let gate = self.exclusive_writer(gate)?;
            let source = self.operators[gate].as_ref()?.input;
            let is_curve = source == x && matches!(self.kind(gate), DraftKind::Activate { .. });
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
        let operator: &DraftOperator = self.operators[clip].as_ref()?;
        let is_clip =
            matches!(&operator.kind, DraftKind::Activate { activation, .. } if *activation == SIX);
        let line = self.exclusive_writer(operator.input).filter(|_| is_clip)?;
        let DraftKind::Affine { scale, shift } = self.kind(line) else {
            return None;
        };
        let one = scale.iter().all(|&scale| scale == 1.0);
        let three = shift.iter().all(|&shift| shift == 3.0);
        let input = self.operators[line].as_ref()?.input;
        (one && three).then_some((line, input))
    }
}
