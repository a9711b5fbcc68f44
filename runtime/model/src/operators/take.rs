//! Values at computed positions.

use punctual_types::{Axis, position};
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands};
use crate::reference::noise::Rounding;
use crate::reference::{Operation, Planar};
use crate::{ShapeError, Tensor};

/// The values at the indices' positions along an axis; [`position`] defines these. Its other operand are the indices:
/// positions for each line of the input along the axis. Along the other axes they may have one position that all lines
/// share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Take {
    pub axis: Axis,
}

impl Meaning for Take {
    fn label(&self, _input: Tensor) -> String {
        "values at computed positions".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        let (input, indices, axis) = (of.input, of.other()?, self.axis);
        let mut sides = input.sides();
        let along = axis.index();
        let fits = (0..3).all(|at| match indices.sides()[at] {
            _ if along == Some(at) => true,
            size => size == 1 || size == sides[at],
        });
        let Some(along) = along.filter(|_| fits) else {
            return Err(ShapeError::Indices {
                input,
                indices,
                axis,
            });
        };
        sides[along] = indices.sides()[along];
        Ok(Tensor::of_sides(sides))
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let indices = of.others().next().expect("it reads indices");
        self.taken(of.input(), indices, of.output())
    }

    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::exact()
    }
}

impl Take {
    fn taken(&self, input: Planar, indices: Planar, output: Tensor) -> Vec<f32> {
        let along = self.axis.index().expect("an axis of the tensor");
        let taken = |mut at: [u32; 3]| {
            let sides = indices.shape.sides();
            let index = indices.value([0, 1, 2].map(|axis| at[axis].min(sides[axis] - 1)));
            at[along] = position(index, input.shape.sides()[along]);
            input.value(at)
        };
        output.places().map(taken).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_index_serves_all_lines() {
        let planar = |sides, data| Planar {
            shape: Tensor::of_sides(sides),
            data,
        };
        let input = planar([2, 1, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let output = Tensor::of_sides([2, 1, 2]);
        let take = Take { axis: Axis::Column };
        let indices = planar([1, 1, 2], &[-1.0, 0.0]);
        assert_eq!(take.taken(input, indices, output), [3.0, 1.0, 6.0, 4.0]);
        let of_each = planar([2, 1, 2], &[0.0, 1.0, 2.0, 9.0]);
        assert_eq!(take.taken(input, of_each, output), [1.0, 2.0, 6.0, 6.0]);
    }
}
