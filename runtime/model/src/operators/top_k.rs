//! Positions of the values that come first.

use punctual_types::{Axis, Ranking};
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands};
use crate::reference::noise::Rounding;
use crate::reference::{Operation, Planar};
use crate::{ShapeError, Tensor};

/// The positions of the values that come first along an axis, in their order: one of the channels of each pixel, or
/// `count` of the columns of each row and channel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopK {
    pub axis: Axis,
    pub count: u32,
    pub ranking: Ranking,
}

impl Meaning for TopK {
    fn label(&self, _input: Tensor) -> String {
        "top k".to_owned()
    }

    /// That of the best channel, or of `count` columns.
    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others()?;
        let &Self { axis, count, .. } = self;
        let input = of.input;
        match axis {
            Axis::Channel if count == 1 => Ok(Tensor {
                channels: 1,
                ..input
            }),
            Axis::Column if (1..=input.width).contains(&count) => Ok(Tensor {
                width: count,
                ..input
            }),
            _ => Err(ShapeError::Choice { axis, count, input }),
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        self.chosen(of.input(), of.output())
    }

    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::exact()
    }
}

impl TopK {
    fn chosen(&self, input: Planar, output: Tensor) -> Vec<f32> {
        let along = self.axis.index().expect("an axis of the tensor");
        let chosen = |place: [u32; 3]| {
            let key = |number: u32| {
                let mut at = place;
                at[along] = number;
                self.ranking.key(input.value(at), number)
            };
            let mut keys: Vec<i64> = (0..input.shape.sides()[along]).map(key).collect();
            keys.sort_unstable_by(|a, b| b.cmp(a));
            self.ranking.number(keys[place[along] as usize]) as f32
        };
        output.places().map(chosen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_comes_first() {
        let ranking = Ranking {
            largest: true,
            last: false,
        };
        let chosen = |axis, sides, data: &[f32], count| {
            let shape = Tensor::of_sides(sides);
            let top = TopK {
                axis,
                count,
                ranking,
            };
            let of = Operands {
                input: shape,
                others: &[],
                weights: &[],
            };
            top.chosen(Planar { shape, data }, top.shape(&of).expect("fits"))
        };
        let rows = [1.0, 5.0, 5.0, 7.0, 2.0, f32::NAN];
        assert_eq!(
            chosen(Axis::Column, [1, 2, 3], &rows, 2),
            [1.0, 2.0, 0.0, 1.0]
        );
        let channels = [1.0, 5.0, 5.0, 7.0, 5.0, 1.0];
        assert_eq!(chosen(Axis::Channel, [3, 1, 2], &channels, 1), [1.0, 1.0]);
    }
}
