//! An LSTM whose input and state are rounded to bytes of their range, as onnxruntime's dynamic quantisation writes it. The
//! state is rounded before each step, so that each step is a layer of its own.

use std::collections::BTreeMap;

use super::Row;
use crate::graph::{Attribute, Node, ValueId};
use crate::integer::Dim;
use crate::lower::lowering::Lowering;
use crate::lower::value::Value;
use crate::lower::vocabulary::{OnnxOperator, family};
use crate::problem::Problem;

pub(super) const OPERATORS_OF_MICROSOFT: &[OnnxOperator] = family! {
    "DynamicQuantizeLSTM" => compose quantised_lstm(),
};

/// Activations of one direction.
const ACTIVATIONS: usize = 3;

/// One direction of the layer.
struct Direction {
    backwards: bool,
    /// Weights, recurrent weights and the bias.
    constants: [Option<ValueId>; 3],
    state: Option<ValueId>,
    cells: Option<ValueId>,
    /// Those of each step's layer.
    attributes: BTreeMap<String, Attribute>,
}

impl Lowering<'_> {
    fn quantised_lstm(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 12, 3)?;
        row.without(4, "sequence_lens")?;
        row.without(7, "peepholes")?;
        let data = row.operand(0, "data")?;
        let Some(&Dim::Known(steps)) = row.sizes(0, "data")?.first() else {
            return Err(row.wrong(0, "data", "(steps, batch, values)"));
        };
        let data = row.rounded(data)?;
        let directions = row.directions()?;
        let mut results = [vec![], vec![], vec![]];
        for direction in directions {
            let states = row.states(data, steps, direction)?;
            for (result, state) in results.iter_mut().zip(states) {
                result.push(state);
            }
        }
        for ((at, axis), parts) in [(0, 1), (1, 0), (2, 0)].into_iter().zip(results) {
            let all = row.joined(&parts, axis)?;
            row.give(at, all);
        }
        Ok(())
    }
}

impl Row<'_, '_, '_> {
    fn directions(&mut self) -> Result<Vec<Direction>, Problem> {
        let mut attributes = self.node.attributes.clone();
        let backwards = match attributes.remove("direction") {
            None => vec![false],
            Some(Attribute::Text(text)) if text == "forward" => vec![false],
            Some(Attribute::Text(text)) if text == "reverse" => vec![true],
            Some(Attribute::Text(text)) if text == "bidirectional" => vec![false, true],
            Some(other) => {
                let supported = "forward, reverse or bidirectional";
                return Err(Problem::attribute("direction", &other, supported));
            }
        };
        let activations = attributes.remove("activations");
        let weights = [self.of_bytes(1, 8)?, self.of_bytes(2, 10)?];
        let [of_input, of_state] = weights.map(Some);
        let operands = [
            of_input,
            of_state,
            self.optional(3),
            self.optional(5),
            self.optional(6),
        ];
        let count = backwards.len();
        let mut directions = Vec::with_capacity(count);
        for (at, backwards) in backwards.into_iter().enumerate() {
            let mut own = [None; 5];
            for (own, operand) in own.iter_mut().zip(operands) {
                *own = operand
                    .map(|all| self.of_direction(all, at, count))
                    .transpose()?;
            }
            let [of_input, of_state, bias, state, cells] = own;
            let mut attributes = attributes.clone();
            if let Some(Attribute::Texts(all)) = &activations {
                let own = all.iter().skip(at * ACTIVATIONS).cloned().collect();
                attributes.insert("activations".to_owned(), Attribute::Texts(own));
            }
            let constants = [of_input, of_state, bias];
            directions.push(Direction {
                backwards,
                constants,
                state,
                cells,
                attributes,
            });
        }
        Ok(directions)
    }

    fn of_direction(&mut self, all: ValueId, at: usize, count: usize) -> Result<ValueId, Problem> {
        match count {
            1 => Ok(all),
            _ => self.slice(all, 0, [at as i64, at as i64 + 1, 1]),
        }
    }

    /// Weights of bytes, (directions, values, gates), as floats, (directions, gates, values). Scales and zero points are one
    /// for each direction, or one for each gate of it.
    fn of_bytes(&mut self, at: usize, scale: usize) -> Result<ValueId, Problem> {
        let bytes = self.operand(at, "weights")?;
        let mut weights = self.as_floats(bytes)?;
        for (operator, position) in [("Sub", scale + 1), ("Mul", scale)] {
            let Some(list) = self.optional(position) else {
                continue;
            };
            let list = self.as_floats(list)?;
            let to = match self.sizes(position, "scale or zero point")?.len() {
                2 => vec![0, 1, -1],
                _ => vec![-1, 1, 1],
            };
            let list = self.reshape(list, to)?;
            weights = self.of(operator, &[weights, list])?;
        }
        self.transpose(weights, &[0, 2, 1])
    }

    /// The states of all steps in one direction, the last one, and its cells.
    fn states(
        &mut self,
        data: ValueId,
        steps: i64,
        of: Direction,
    ) -> Result<[ValueId; 3], Problem> {
        let layer = Node {
            attributes: of.attributes,
            ..self.node.standing_in("LSTM")
        };
        let (mut state, mut cells) = (of.state, of.cells);
        let mut all = Vec::new();
        for step in 0..steps {
            let at = if of.backwards { steps - 1 - step } else { step };
            let of_step = self.slice(data, 0, [at, at + 1, 1])?;
            let before = state.map(|state| self.rounded(state)).transpose()?;
            let results = [(); 3].map(|()| self.lowering.temporary(Value::Nothing));
            let [weights, recurrent, bias] = of.constants;
            self.lower(Node {
                inputs: vec![Some(of_step), weights, recurrent, bias, None, before, cells],
                outputs: results.map(Some).to_vec(),
                ..layer.clone()
            })?;
            let [of_all, last, last_cells] = results;
            all.push(of_all);
            (state, cells) = (Some(last), Some(last_cells));
        }
        if of.backwards {
            all.reverse();
        }
        let all_states = self.joined(&all, 0)?;
        let missing = || self.wrong(0, "data", "at least one step");
        let last = state.ok_or_else(missing)?;
        let last_cells = cells.ok_or_else(missing)?;
        Ok([all_states, last, last_cells])
    }

    fn joined(&mut self, parts: &[ValueId], axis: i64) -> Result<ValueId, Problem> {
        match parts {
            [only] => Ok(*only),
            parts => self.concat(parts, axis),
        }
    }
}
