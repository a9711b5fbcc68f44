//! Rows of a table.

use serde::{Deserialize, Serialize};

use super::meaning::{Held, Meaning, Operands};
use crate::reference::Operation;
use crate::reference::noise::{Form, Rounding};
use crate::{ShapeError, Tensor};

/// Most rows: f32 tells their numbers apart.
const ROWS_MAX: u32 = 1 << 24;

/// A row of a table for each pixel, whose only channel holds the row's number; what is no row's number takes the nearest.
///
/// Weights: the table, `[rows][channels]`, at most 2^24 rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Embedding {
    /// Of the result.
    pub channels: u32,
}

impl Meaning for Embedding {
    fn label(&self, _input: Tensor) -> String {
        "embedding".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others()?;
        let (input, channels) = (of.input, self.channels);
        match input.channels {
            1 => Ok(Tensor { channels, ..input }),
            _ => Err(ShapeError::Lookup { input }),
        }
    }

    fn weights(&self, of: &Operands<'_>, output: Tensor) -> Vec<Held> {
        let rows = of
            .held(0)
            .div_ceil(output.channels.max(1))
            .clamp(1, ROWS_MAX);
        let elements = u64::from(rows) * u64::from(output.channels);
        vec![Held::new("table", elements)]
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        looked_up(of.input().data, of.weights(0), self.channels as usize)
    }

    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::once(Form::Plain, 0.0)
    }
}

fn looked_up(numbers: &[f32], table: &[f32], channels: usize) -> Vec<f32> {
    let rows = table.len() / channels;
    let row = |number: f32| (number as usize).min(rows - 1);
    let column = |channel: usize| {
        let numbers = numbers.iter().copied();
        numbers.map(move |number| table[row(number) * channels + channel])
    };
    (0..channels).flat_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_row_takes_the_nearest() {
        let table = [1.0, 2.0, 3.0, 4.0];
        let found = looked_up(&[1.0, -3.0, 9.0, f32::NAN], &table, 2);
        assert_eq!(found, [3.0, 1.0, 3.0, 1.0, 4.0, 2.0, 4.0, 2.0]);
    }
}
