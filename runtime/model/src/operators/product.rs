//! Products of two tensors' matrices.

use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands, Site};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::{Operation, Planar};
use crate::{ShapeError, Tensor};

/// A product of matrices in each row: `output[n][b][m] = sum_k input[k][b][m] * other[n][b][k]`, as channel, row, column.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Product;

impl Meaning for Product {
    fn label(&self, _input: Tensor) -> String {
        "product of matrices".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let (first, other) = (of.input, of.other()?);
        if other.height != first.height || other.width != first.channels {
            return Err(ShapeError::Product { first, other });
        }
        let channels = other.channels;
        Ok(Tensor { channels, ..first })
    }

    fn multiplications(&self, site: Site<'_>) -> u64 {
        let terms = u64::from(site.input().channels);
        site.output().elements().saturating_mul(terms)
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let other = of.others().next().expect("it has two operands");
        product(of.input(), other, of.output())
    }

    fn rounding(&self, of: &Operation<'_>, _result: &[f32]) -> Rounding {
        let (input, other) = (of.input(), of.others().next().expect("it has two operands"));
        let terms = input.shape.channels as usize;
        let size = terms as f64 * typical(input.data) * typical(other.data);
        Rounding::of_all(Form::Plain, terms, size)
    }
}

fn product(first: Planar, second: Planar, output: Tensor) -> Vec<f32> {
    let sum = |[channel, row, column]: [u32; 3]| {
        let products = (0..first.shape.channels).map(|term| {
            let first = first.value([term, row, column]);
            f64::from(first) * f64::from(second.value([channel, row, term]))
        });
        products.sum::<f64>() as f32
    };
    output.places().map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_a_product_of_its_own() {
        // (1 2) times 3 and 4; (5 6) times 7 and 8.
        let first = Planar {
            shape: Tensor::of_sides([2, 2, 1]),
            data: &[1.0, 5.0, 2.0, 6.0],
        };
        let second = Planar {
            shape: Tensor::of_sides([1, 2, 2]),
            data: &[3.0, 4.0, 7.0, 8.0],
        };
        let found = product(first, second, Tensor::of_sides([1, 2, 1]));
        assert_eq!(found, [11.0, 83.0]);
    }
}
