//! Operators on computed positions.

use punctual_types::{Axis, Ranking, Sampling, position};

use super::windows::Planar;
use crate::Tensor;

/// Pixels of the input at the grid's positions.
pub(super) fn grid_sample(
    input: Planar,
    grid: Planar,
    groups: u32,
    sampling: Sampling,
) -> Vec<f32> {
    let each = (input.shape.channels / groups) as usize;
    let value = |[channel, row, column]: [u32; 3]| {
        let group = channel as usize / each;
        let position = |at| value(grid, [2 * group + at, row as usize, column as usize]);
        let columns = sampling.taps(position(0), input.shape.width);
        let rows = sampling.taps(position(1), input.shape.height);
        let mut sum = 0.0;
        for (row, down) in [rows.first, rows.second].into_iter().zip(rows.weights) {
            for (column, along) in [columns.first, columns.second]
                .into_iter()
                .zip(columns.weights)
            {
                let pixel = self::value(input, [channel, row, column].map(|at| at as usize));
                sum += f64::from(down) * f64::from(along) * f64::from(pixel);
            }
        }
        sum as f32
    };
    let output = Tensor {
        channels: input.shape.channels,
        ..grid.shape
    };
    places(output).map(value).collect()
}

/// The positions of the values that come first in each line along the axis.
pub(super) fn top_k(input: Planar, output: Tensor, axis: Axis, ranking: Ranking) -> Vec<f32> {
    let along = axis.index().expect("an axis of the tensor");
    let chosen = |place: [u32; 3]| {
        let mut keys: Vec<i64> = (0..input.shape.sides()[along])
            .map(|number| {
                let mut at = place.map(|at| at as usize);
                at[along] = number as usize;
                ranking.key(value(input, at), number)
            })
            .collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        ranking.number(keys[place[along] as usize]) as f32
    };
    places(output).map(chosen).collect()
}

/// Values at the indices' positions along the axis.
pub(super) fn take(input: Planar, indices: Planar, output: Tensor, axis: Axis) -> Vec<f32> {
    let along = axis.index().expect("an axis of the tensor");
    let taken = |place: [u32; 3]| {
        let mut at = place.map(|at| at as usize);
        let sides = indices.shape.sides().map(|side| side as usize);
        let index = value(indices, [0, 1, 2].map(|axis| at[axis].min(sides[axis] - 1)));
        at[along] = position(index, input.shape.sides()[along]) as usize;
        value(input, at)
    };
    places(output).map(taken).collect()
}

fn places(shape: Tensor) -> impl Iterator<Item = [u32; 3]> {
    let [channels, height, width] = shape.sides();
    let rows = (0..channels).flat_map(move |channel| (0..height).map(move |row| (channel, row)));
    rows.flat_map(move |(channel, row)| (0..width).map(move |column| [channel, row, column]))
}

fn value(tensor: Planar, [channel, row, column]: [usize; 3]) -> f32 {
    let value = tensor.at(channel, row as i64, column as i64);
    value.expect("a place in the tensor")
}

#[cfg(test)]
mod tests {
    use punctual_types::{Interpolation, Outside};

    use super::*;

    fn tensor<'a>(channels: u32, height: u32, width: u32, data: &'a [f32]) -> Planar<'a> {
        let shape = Tensor {
            channels,
            height,
            width,
        };
        Planar { shape, data }
    }

    #[test]
    fn a_grid_names_columns_first_and_each_group_has_its_own() {
        let input = tensor(2, 2, 2, &[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]);
        // The upper right corner; the middle for the second channel.
        let grid = tensor(4, 1, 1, &[1.0, -1.0, 0.0, 0.0]);
        let sampling = Sampling {
            interpolation: Interpolation::Linear,
            outside: Outside::Zeros,
            align_corners: true,
        };
        assert_eq!(grid_sample(input, grid, 2, sampling), [2.0, 25.0]);
        let one = tensor(2, 1, 1, &[0.0, 1.0]);
        assert_eq!(grid_sample(input, one, 1, sampling), [3.5, 35.0]);
    }

    #[test]
    fn the_first_of_equals_comes_first() {
        let input = tensor(1, 2, 3, &[1.0, 5.0, 5.0, 7.0, 2.0, f32::NAN]);
        let ranking = Ranking {
            largest: true,
            last: false,
        };
        let two = Tensor {
            width: 2,
            ..input.shape
        };
        assert_eq!(
            top_k(input, two, Axis::Column, ranking),
            [1.0, 2.0, 0.0, 1.0]
        );
        let channels = tensor(3, 1, 2, &[1.0, 5.0, 5.0, 7.0, 5.0, 1.0]);
        let one = Tensor {
            channels: 1,
            ..channels.shape
        };
        assert_eq!(top_k(channels, one, Axis::Channel, ranking), [1.0, 1.0]);
    }

    #[test]
    fn one_index_serves_all_lines() {
        let input = tensor(2, 1, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let output = Tensor {
            width: 2,
            ..input.shape
        };
        let indices = tensor(1, 1, 2, &[-1.0, 0.0]);
        assert_eq!(
            take(input, indices, output, Axis::Column),
            [3.0, 1.0, 6.0, 4.0]
        );
        let of_each = tensor(2, 1, 2, &[0.0, 1.0, 2.0, 9.0]);
        assert_eq!(
            take(input, of_each, output, Axis::Column),
            [1.0, 2.0, 6.0, 6.0]
        );
    }
}
