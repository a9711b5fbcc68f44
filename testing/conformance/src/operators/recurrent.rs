//! Recurrent layers.

use punctual_model::{Recurrent, Tensor, TensorId};
use punctual_types::Cell;

use super::{Builder, Mutable, Random, Reads, pick};

impl Builder {
    /// A recurrent layer over the columns of `gates`, which has what the inputs add to each gate.
    pub fn recurrent(
        &mut self,
        cell: Cell,
        gates: TensorId,
        initial: Option<TensorId>,
        backwards: bool,
    ) -> TensorId {
        let channels = self.shape(gates).channels;
        let hidden = channels / cell.gates();
        let weights = self.draw(channels * hidden, hidden);
        let bias = self.draw(channels, 16);
        let layer = Recurrent { cell, backwards };
        let reads: Vec<TensorId> = [gates].into_iter().chain(initial).collect();
        self.push_weighted(&reads, layer, &[weights, bias])
    }
}

impl Mutable for Recurrent {
    fn vary(&mut self, random: &mut Random) {
        match random.below(3) {
            0 => self.backwards = !self.backwards,
            _ => self.cell = pick(&Cell::ALL, random),
        }
    }

    /// A first state of another size is left out.
    fn fit(&mut self, reads: &mut Reads<'_>) {
        let hidden = reads.shape.channels / self.cell.gates() * self.cell.values();
        let is_unlike = |state: &Tensor| *state != Tensor::features(hidden);
        if reads.shapes().first().is_some_and(is_unlike) {
            reads.others.clear();
        }
    }
}
