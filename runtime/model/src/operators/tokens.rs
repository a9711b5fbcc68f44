//! Pixels as a sequence of tokens.

use serde::{Deserialize, Serialize};

use super::meaning::{Held, Meaning, Operands};
use crate::reference::Operation;
use crate::reference::noise::{Form, Rounding};
use crate::{ShapeError, Tensor};

/// The pixels of an image in one row, behind some that are constant; a table is added to all.
///
/// Weights: the table, `[prefix + pixels][channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// How many constant pixels stand before the others.
    pub prefix: u32,
}

impl Meaning for Tokens {
    fn label(&self, _input: Tensor) -> String {
        "tokens".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others()?;
        // Saturating: a tensor that wide is refused.
        let pixels = u32::try_from(of.input.pixels()).unwrap_or(u32::MAX);
        Ok(Tensor {
            width: pixels.saturating_add(self.prefix),
            height: 1,
            ..of.input
        })
    }

    fn weights(&self, _of: &Operands<'_>, output: Tensor) -> Vec<Held> {
        vec![Held::new("table", output.elements())]
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        tokens(of.input().data, of.weights(0), of.output(), self.prefix)
    }

    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::once(Form::Plain, 0.0)
    }
}

fn tokens(image: &[f32], table: &[f32], output: Tensor, prefix: u32) -> Vec<f32> {
    let (channels, columns) = (output.channels as usize, output.width as usize);
    let prefix = prefix as usize;
    let pixels = columns - prefix;
    let mut result = Vec::with_capacity(channels * columns);
    for channel in 0..channels {
        for column in 0..columns {
            let constant = table[column * channels + channel];
            let pixel = column.checked_sub(prefix);
            let value = pixel.map_or(0.0, |pixel| image[channel * pixels + pixel]);
            result.push(value + constant);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_tokens_stand_before_the_pixels() {
        let output = Tensor::of_sides([2, 1, 3]);
        let table = [10.0, 20.0, 0.5, 0.25, 0.0, 0.0];
        let found = tokens(&[1.0, 2.0, 3.0, 4.0], &table, output, 1);
        assert_eq!(found, [10.0, 1.5, 2.0, 20.0, 3.25, 4.0]);
    }
}
