//! Values moved to other places.

use punctual_model::{Copy, Network, OperatorKind, TensorId};
use punctual_types::{Axis, Digit, Piece, View};

use super::attributes::axis;
use super::{Builder, Bytes, Mutable, Operator, Random, Reads, Site, below, graph, index};

pub fn digit(axis: Axis, step: u32, extent: u32) -> Digit {
    Digit { axis, step, extent }
}

/// Values counted through by these digits from these channel, row and column on.
pub fn view(start: [u32; 3], digits: &[Digit]) -> View {
    let digits = digits.to_vec();
    View { start, digits }
}

impl Builder {
    /// A tensor made of pieces of sources; the last source is `constants` constants, if there are any.
    pub fn copy(&mut self, sources: &[TensorId], constants: u32, pieces: Vec<Piece>) -> TensorId {
        let table = (constants > 0).then(|| self.draw(constants, 3));
        self.push_weighted(sources, Copy { pieces }, table.as_slice())
    }

    /// One tensor that lists all its values in another order.
    pub fn rearranged(&mut self, input: TensorId, digits: &[Digit], sizes: [u32; 3]) -> TensorId {
        let piece = Piece::whole(view([0; 3], digits), sizes);
        self.copy(&[input], 0, vec![piece])
    }

    /// One token of a row.
    pub fn token(&mut self, input: TensorId, column: u32) -> TensorId {
        let token = Copy::of_column(column, self.shape(input).channels);
        self.push(&[input], token)
    }
}

/// Axes in another order, from a start, or the whole and a part of it again.
pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let mut view = View::plain(site.shape.sides());
    let (a, b) = (index(3, random), index(3, random));
    view.digits.swap(a, b);
    if random.one_in(3) {
        let axis = view.digits[a].axis;
        let at = axis.index().unwrap_or(0);
        view.start[at] = below(view.digits[a].extent, random);
        view.digits[a].extent -= view.start[at];
    }
    let sizes = [0, 1, 2].map(|at| view.digits[at].extent);
    let mut pieces = vec![Piece::whole(view, sizes)];
    if random.one_in(3) {
        let mut again = pieces[0].clone();
        let axis = index(3, random);
        again.at[axis] = sizes[axis];
        pieces.push(again);
    }
    site.operator(&[], Copy { pieces })
}

/// One column of a row.
pub(super) fn column(site: &Site<'_>, random: &mut Random) -> Operator {
    let column = below(site.shape.width, random);
    site.operator(&[], Copy::of_column(column, site.shape.channels))
}

/// Pieces of other sources, starts, orders and places.
pub(super) fn reread(network: &mut Network, random: &mut Random) -> Option<String> {
    let is_copy = |each: &Operator| matches!(each.kind, OperatorKind::Copy(_));
    let (stage, at) = graph::find(network, random, is_copy)?;
    let operator = &mut network.stages[stage].operators[at];
    let OperatorKind::Copy(Copy { pieces }) = &mut operator.kind else {
        return None;
    };
    let (at, other) = (index(pieces.len(), random), index(pieces.len(), random));
    let axis = index(3, random);
    let digits = pieces[at].view.digits.len();
    let (a, b) = (index(digits, random), index(digits, random));
    match random.below(7) {
        0 => pieces[at].source = random.below(3) as u8,
        1 => pieces[at].view.start[axis] = below(3, random),
        2 => pieces[at].view.digits.swap(a, b),
        3 => {
            let (first, second) = (pieces[at].at, pieces[other].at);
            (pieces[at].at, pieces[other].at) = (second, first);
        }
        4 => pieces[at].view.digits.get_mut(a)?.step = below(4, random),
        // Of a sample of the values, in their order.
        5 => pieces[at].view.digits.get_mut(a)?.axis = self::axis(random),
        _ => pieces[at].sizes.swap(axis, (axis + 1) % 3),
    }
    Some(format!("{} is {:?}", operator.name, operator.kind))
}

impl Mutable for Copy {
    /// Pieces beyond the one tensor that it reads are this as a whole.
    fn fit(&mut self, reads: &mut Reads<'_>) {
        let sides = reads.shape.sides();
        let reads_one = reads.others.is_empty() && reads.weights.is_empty();
        if reads_one && !self.pieces.iter().all(|piece| piece.view.lies_in(sides)) {
            self.pieces = vec![Piece::whole(View::plain(sides), sides)];
        }
    }

    fn bytes(&self, input: Bytes, _: Bytes) -> Bytes {
        input
    }
}
