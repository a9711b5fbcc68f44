//! Recurrent layers.

use punctual_types::{Cell, HIDDEN_UNITS_MAX};
use serde::{Deserialize, Serialize};

use super::meaning::{Held, Meaning, Operands, Site};
use crate::reference::Operation;
use crate::reference::noise::{Form, Rounding, typical};
use crate::{ShapeError, Tensor};

/// A recurrent layer over the columns of one row. The input has what its steps add to each gate, with channels (gate,
/// hidden unit); the result has the state after each step, with channels (value, hidden unit). At most
/// [`HIDDEN_UNITS_MAX`] hidden units. Its other operand is the state before the first step, one pixel; zeros without it.
///
/// Weights: `[gate][hidden unit][hidden unit before]`, then biases, `[gate][hidden unit]`, added to the state's product.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recurrent {
    pub cell: Cell,
    /// Whether the last column is the first step.
    pub backwards: bool,
}

impl Meaning for Recurrent {
    fn label(&self, _input: Tensor) -> String {
        "recurrent layer".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let (input, cell) = (of.input, self.cell);
        let hidden = input.channels / cell.gates();
        let fits = input.height == 1
            && (1..=HIDDEN_UNITS_MAX).contains(&hidden)
            && hidden * cell.gates() == input.channels;
        if !fits {
            return Err(ShapeError::Gates { cell, input });
        }
        let channels = hidden * cell.values();
        let output = Tensor { channels, ..input };
        let expected = Tensor::features(channels);
        match of.at_most(1)? {
            Some(found) if found != expected => Err(ShapeError::State { found, expected }),
            _ => Ok(output),
        }
    }

    fn weights(&self, of: &Operands<'_>, _output: Tensor) -> Vec<Held> {
        let gates = u64::from(of.input.channels);
        let hidden = u64::from(of.input.channels / self.cell.gates());
        vec![
            Held::new("weights", gates * hidden),
            Held::new("bias", gates),
        ]
    }

    /// The state is multiplied once for each step.
    fn multiplications(&self, site: Site<'_>) -> u64 {
        let weights = u64::from(site.operator.weights[0].len);
        weights.saturating_mul(u64::from(site.output().width))
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let initial = of.others().next().map(|initial| initial.data);
        let (weights, bias) = (of.weights(0), of.weights(1));
        self.cell
            .run(of.input().data, weights, bias, initial, self.backwards)
    }

    fn rounding(&self, of: &Operation<'_>, result: &[f32]) -> Rounding {
        let steps = of.output().width as usize;
        let terms = of.output().channels as usize * steps;
        // Its curves are as wrong as others.
        let size = 4.0 * (steps as f64).sqrt() * typical(result).max(1.0);
        Rounding::of_all(Form::Curve, terms, size)
    }
}
