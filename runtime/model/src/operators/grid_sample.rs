//! Pixels at computed positions.

use punctual_types::Sampling;
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::{Operation, Planar};
use crate::{ShapeError, Tensor};

/// The pixels of the image at a grid of computed positions; the result has the grid's rows and columns. Its other operand
/// is the grid: for each group of channels one with the columns' positions and one with the rows'.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridSample {
    /// Groups of channels, each with positions of its own; a divisor of the channels.
    pub groups: u32,
    pub sampling: Sampling,
}

impl Meaning for GridSample {
    fn label(&self, _input: Tensor) -> String {
        "grid sample".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let (input, grid, groups) = (of.input, of.other()?, self.groups);
        let fits = groups > 0
            && input.channels.is_multiple_of(groups)
            && u64::from(grid.channels) == 2 * u64::from(groups);
        if fits {
            Ok(Tensor {
                channels: input.channels,
                ..grid
            })
        } else {
            Err(ShapeError::Grid {
                input,
                grid,
                groups,
            })
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let grid = of.others().next().expect("it reads a grid");
        self.sampled(of.input(), grid)
    }

    fn rounding(&self, of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::of_all(Form::Average, 4, typical(of.input().data))
    }
}

impl GridSample {
    fn sampled(&self, input: Planar, grid: Planar) -> Vec<f32> {
        let each = input.shape.channels / self.groups;
        let value = |[channel, row, column]: [u32; 3]| {
            let group = channel / each;
            let position = |at| grid.value([2 * group + at, row, column]);
            let columns = self.sampling.taps(position(0), input.shape.width);
            let rows = self.sampling.taps(position(1), input.shape.height);
            let mut sum = 0.0;
            for (row, down) in [rows.first, rows.second].into_iter().zip(rows.weights) {
                for (column, along) in [columns.first, columns.second]
                    .into_iter()
                    .zip(columns.weights)
                {
                    let pixel = input.value([channel, row, column]);
                    sum += f64::from(down) * f64::from(along) * f64::from(pixel);
                }
            }
            sum as f32
        };
        let output = Tensor {
            channels: input.shape.channels,
            ..grid.shape
        };
        output.places().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use punctual_types::{Interpolation, Outside};

    use super::*;

    fn tensor(sides: [u32; 3], data: &[f32]) -> Planar<'_> {
        let shape = Tensor::of_sides(sides);
        Planar { shape, data }
    }

    #[test]
    fn a_grid_names_columns_first_and_each_group_has_its_own() {
        let input = [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0];
        let input = tensor([2, 2, 2], &input);
        let sampling = Sampling {
            interpolation: Interpolation::Linear,
            outside: Outside::Zeros,
            align_corners: true,
        };
        let sampled = |groups, grid| GridSample { groups, sampling }.sampled(input, grid);
        // The upper right corner; the middle for the second channel.
        let grid = tensor([4, 1, 1], &[1.0, -1.0, 0.0, 0.0]);
        assert_eq!(sampled(2, grid), [2.0, 25.0]);
        let one = tensor([2, 1, 1], &[0.0, 1.0]);
        assert_eq!(sampled(1, one), [3.5, 35.0]);
    }
}
