//! Fully connected layers.

use punctual_types::Activation;
use serde::{Deserialize, Serialize};

use super::meaning::{Held, Meaning, Operands, Plain, Site, check_activation};
use crate::reference::Operation;
use crate::reference::noise::{Form, Rounding};
use crate::{OperatorError, ShapeError, Tensor};

/// `activation(weights * input + bias)`; the input's order of elements is channel, row, column.
///
/// Weights: `[output features][input features]`, then biases, `[output features]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    /// Applied last.
    pub activation: Activation,
}

impl Meaning for Linear {
    fn label(&self, _input: Tensor) -> String {
        "linear".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others()?;
        Ok(Tensor::features(of.held(1)))
    }

    fn weights(&self, of: &Operands<'_>, output: Tensor) -> Vec<Held> {
        let outputs = u64::from(output.channels);
        vec![
            Held::new("weights", of.input.elements().saturating_mul(outputs)),
            Held::new("bias", outputs),
        ]
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        site.has_floats()?;
        check_activation(self.activation)
    }

    fn multiplications(&self, site: Site<'_>) -> u64 {
        let (input, output) = (site.input(), site.output());
        input.elements().saturating_mul(output.elements())
    }

    fn plain(&self, _input: Tensor) -> Plain {
        Plain {
            reads: false,
            writes: true,
        }
    }

    fn activation(&self) -> Option<Activation> {
        Some(self.activation)
    }

    fn set_activation(&mut self, activation: Activation) {
        self.activation = activation;
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let input = of.input().data;
        let rows = of.weights(0).chunks_exact(input.len()).zip(of.weights(1));
        rows.map(|(row, &bias)| {
            let products = row.iter().zip(input);
            let sum: f64 = products.map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
            self.activation.of((sum + f64::from(bias)) as f32)
        })
        .collect()
    }

    fn rounding(&self, of: &Operation<'_>, _result: &[f32]) -> Rounding {
        let terms = of.input().data.len();
        of.weighted_sums(terms, 1, Form::of_weighted(of, self.activation))
    }
}
