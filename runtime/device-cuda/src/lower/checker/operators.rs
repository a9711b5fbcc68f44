//! The launches of operators: operands by their places, parts in order.

use std::ops::Range;

use punctual_cuda_kernels::{Arguments, padded, with_arguments};
use punctual_model::{Operator, OperatorKind, TensorId, with_operator};

use super::super::place::Place;
use super::super::program::Step;
use super::super::stage::Lower as _;
use super::super::traffic::{Launch, Part, Role, Span, Traffic};
use super::{Fault, Run, Value};

/// In [`Run::seen`]: the operator's weights.
const WEIGHTS: u32 = 1 << 31;
/// In [`Run::seen`]: the first operand, and what a recurrent layer starts from, its second.
const INPUT: u32 = 1;
const STATE: u32 = 1 << 1;

impl Run<'_> {
    /// A launch of an operator that computes, not only moves.
    pub(super) fn operator(&mut self, step: &Step, traffic: &Traffic) -> Result<(), Fault> {
        let found = self.operator_at(step.operator);
        let (position, operator) = found.ok_or(Fault::NoOperator)?;
        if self.seen.0 != position {
            self.seen = (position, 0);
        }
        let (part, all) = self.part(step.arguments(), operator);
        for span in &traffic.reads {
            self.read(position, operator, span, part.start)?;
        }
        for span in &traffic.writes {
            match span.role {
                Role::Result => {
                    self.check_seen(position, operator, part.start)?;
                    self.make(span, operator.output, part.clone(), all)?;
                    if let Some(kept) = self.form(span.bytes, operator.output) {
                        self.check_shape(span, operator.output, kept)?;
                    }
                }
                _ if has_state(operator) => {
                    let (operator, steps) = (position, part.end);
                    self.put(span, Value::State { operator, steps });
                }
                _ => {
                    self.check_seen_of(position, operator, INPUT | WEIGHTS)?;
                    let (operator, first) = (position, part.start);
                    self.put(span, Value::Sums { operator, first });
                }
            }
        }
        // Sums stand for the input and the weights only where they are read.
        self.seen.1 = 0;
        Ok(())
    }

    fn read(
        &mut self,
        position: u32,
        operator: &Operator,
        span: &Span,
        first: u32,
    ) -> Result<(), Fault> {
        match span.role {
            Role::Operand(operand) => {
                let at = place_of(operator, operand);
                let tensor = operator.reads().nth(at.into());
                let tensor = tensor.ok_or(Fault::NoOperand { operand })?;
                self.read_operand(span, operator, tensor)?;
                self.seen.1 |= 1 << at;
            }
            Role::Weights => {
                self.check_weights(position, span, first)?;
                self.seen.1 |= WEIGHTS;
            }
            _ if has_state(operator) => {
                let (operator, steps) = (position, first);
                self.expect(span, Value::State { operator, steps })?;
                self.seen.1 |= STATE;
            }
            _ => {
                let operator = position;
                self.expect(span, Value::Sums { operator, first })?;
                self.seen.1 |= INPUT | WEIGHTS;
            }
        }
        Ok(())
    }

    fn read_operand(
        &self,
        span: &Span,
        operator: &Operator,
        tensor: TensorId,
    ) -> Result<(), Fault> {
        // A fully connected layer takes its input as a vector of all values, as they lie.
        let is_flat = matches!(operator.kind, OperatorKind::Linear(_));
        let shape = span.shape.filter(|_| !is_flat);
        self.expect_tensor(&Span { shape, ..*span }, tensor)?;
        Ok(())
    }

    /// That the launches since the last result have read all that the operator computes from.
    fn check_seen(&self, position: u32, operator: &Operator, first: u32) -> Result<(), Fault> {
        if has_state(operator) && first > 0 && self.seen.1 & STATE == 0 {
            let what = Value::State {
                operator: position,
                steps: first,
            };
            return Err(Fault::NotRead { what });
        }
        let operands = (1 << operator.reads().count()) - 1;
        self.check_seen_of(position, operator, operands | WEIGHTS)
    }

    fn check_seen_of(&self, position: u32, operator: &Operator, wanted: u32) -> Result<(), Fault> {
        let missing = wanted & !self.seen.1;
        let mut owners = self.checker.weights.values().flatten();
        if missing & WEIGHTS != 0 && owners.any(|&(owner, _)| owner == position) {
            let what = Value::Weights { operator: position };
            return Err(Fault::NotRead { what });
        }
        let at = (missing & !WEIGHTS).trailing_zeros();
        let network = self.checker.network;
        match operator.reads().nth(at as usize) {
            Some(tensor) => Err(Fault::NotRead {
                what: Value::Tensor {
                    tensor,
                    kept: super::kept(network, tensor),
                },
            }),
            None => Ok(()),
        }
    }

    /// That weights are the operator's, for the channels that the launch computes.
    pub(super) fn check_weights(
        &self,
        position: u32,
        span: &Span,
        first: u32,
    ) -> Result<(), Fault> {
        let Place::Weights { page, offset } = span.place else {
            return Err(Fault::Weights { page: 0, offset: 0 });
        };
        let before = self.checker.weights.range(..=(page, offset)).next_back();
        let (&(of_page, _), owners) = before.ok_or(Fault::Weights { page, offset })?;
        let first = if self.is_cut(position) { first } else { 0 };
        if of_page == page && owners.contains(&(position, first)) {
            Ok(())
        } else {
            Err(Fault::Weights { page, offset })
        }
    }

    /// Whether the operator's parts are channels, whose weights may lie in several pages. Those of a recurrent layer
    /// are steps.
    fn is_cut(&self, position: u32) -> bool {
        let operator = self.operator_at(Some(position));
        operator.is_some_and(|(_, operator)| !has_state(operator))
    }

    /// Which part of its operator's result a launch makes, and where the last one ends.
    fn part(&self, arguments: &Arguments, operator: &Operator) -> (Range<u32>, u32) {
        let shape = self.checker.network.tensors[operator.output.index()];
        match with_arguments!(arguments, launch => launch.part()) {
            Some(Part::Channels(channels)) => (channels, padded(shape.channels)),
            Some(Part::Steps(steps)) => (steps, shape.width),
            None => (0..1, 1),
        }
    }
}

fn has_state(operator: &Operator) -> bool {
    with_operator!(&operator.kind, kind => kind.has_state())
}

/// The place among an operator's reads of what a launch has as an operand.
fn place_of(operator: &Operator, operand: u8) -> u8 {
    match &operator.kind {
        OperatorKind::Binary(binary) if binary.swapped => operand ^ 1,
        _ => operand,
    }
}
