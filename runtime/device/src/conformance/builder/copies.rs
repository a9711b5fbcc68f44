//! Values moved to other places.

use punctual_model::{Copy, TensorId};
use punctual_types::{Axis, Digit, Piece, View};

use super::Builder;

pub fn digit(axis: Axis, step: u32, extent: u32) -> Digit {
    Digit { axis, step, extent }
}

/// Values counted through by these digits from these channel, row and column on.
pub fn view(start: [u32; 3], digits: &[Digit]) -> View {
    let digits = digits.to_vec();
    View { start, digits }
}

impl Builder {
    /// A tensor made of pieces of sources, of which so many constants are the last.
    pub fn copy(&mut self, sources: &[TensorId], constants: u32, pieces: Vec<Piece>) -> TensorId {
        let table = (constants > 0).then(|| self.draw(constants, 3));
        self.push_weighted(sources, Copy { pieces }, table.as_slice())
    }

    /// One tensor that lists all its values in another order.
    pub fn rearranged(&mut self, input: TensorId, digits: &[Digit], sizes: [u32; 3]) -> TensorId {
        let piece = Piece::whole(view([0; 3], digits), sizes);
        self.copy(&[input], 0, vec![piece])
    }
}
