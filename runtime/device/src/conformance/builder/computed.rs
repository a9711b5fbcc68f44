//! Operators on computed positions.

use punctual_model::{GridSample, Take, TensorId, TopK};
use punctual_types::{Axis, Ranking, Sampling};

use super::Builder;

impl Builder {
    /// Pixels at the positions of a grid, which has two channels for each group.
    pub fn grid_sample(&mut self, input: TensorId, grid: TensorId, sampling: Sampling) -> TensorId {
        let groups = self.shape(grid).channels / 2;
        self.push(&[input, grid], GridSample { groups, sampling })
    }

    /// The best channel of each pixel.
    pub fn best_channel(&mut self, input: TensorId, ranking: Ranking) -> TensorId {
        self.best(input, Axis::Channel, 1, ranking)
    }

    /// The best columns of each row and channel.
    pub fn best_columns(&mut self, input: TensorId, count: u32, ranking: Ranking) -> TensorId {
        self.best(input, Axis::Column, count, ranking)
    }

    fn best(&mut self, input: TensorId, axis: Axis, count: u32, ranking: Ranking) -> TensorId {
        let top = TopK {
            axis,
            count,
            ranking,
        };
        self.push(&[input], top)
    }

    /// The columns at the positions of the indices.
    pub fn take_columns(&mut self, input: TensorId, indices: TensorId) -> TensorId {
        let axis = Axis::Column;
        self.push(&[input, indices], Take { axis })
    }
}
