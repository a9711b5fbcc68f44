//! Operators on computed positions.

use punctual_model::{OperatorKind, Tensor, TensorId};
use punctual_types::{Axis, Ranking, Sampling};

use super::Builder;

impl Builder {
    /// Pixels at the positions of a grid, which has two channels for each group.
    pub fn grid_sample(&mut self, input: TensorId, grid: TensorId, sampling: Sampling) -> TensorId {
        let of_grid = self.shape(grid);
        let kind = OperatorKind::GridSample {
            grid,
            groups: of_grid.channels / 2,
            sampling,
        };
        let output = Tensor {
            channels: self.shape(input).channels,
            ..of_grid
        };
        self.push(input, kind, output)
    }

    /// The best channel of each pixel.
    pub fn best_channel(&mut self, input: TensorId, ranking: Ranking) -> TensorId {
        let kind = OperatorKind::TopK {
            axis: Axis::Channel,
            count: 1,
            ranking,
        };
        let output = Tensor {
            channels: 1,
            ..self.shape(input)
        };
        self.push(input, kind, output)
    }

    /// The best columns of each row and channel.
    pub fn best_columns(&mut self, input: TensorId, count: u32, ranking: Ranking) -> TensorId {
        let kind = OperatorKind::TopK {
            axis: Axis::Column,
            count,
            ranking,
        };
        let output = Tensor {
            width: count,
            ..self.shape(input)
        };
        self.push(input, kind, output)
    }

    /// The columns at the positions of the indices.
    pub fn take_columns(&mut self, input: TensorId, indices: TensorId) -> TensorId {
        let axis = Axis::Column;
        let output = Tensor {
            width: self.shape(indices).width,
            ..self.shape(input)
        };
        self.push(input, OperatorKind::Take { indices, axis }, output)
    }
}
