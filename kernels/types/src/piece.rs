//! A tensor made of others piece by piece: what a concatenation, a transpose or a shuffle of pixels leaves to be moved.

use serde::{Deserialize, Serialize};

use crate::View;

/// Values of a source in a box of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub source: u8,
    /// The source's values, in the order channel, row, column of the box.
    pub view: View,
    /// The box's first channel, row and column.
    pub at: [u32; 3],
    /// Its channels, rows and columns.
    pub sizes: [u32; 3],
}

/// Why pieces do not make a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    #[error("there are {found} pieces; there must be 1 to {PIECES_MAX}")]
    Count { found: usize },
    #[error("piece {piece} is of source {source_number} of {sources}")]
    Source {
        piece: usize,
        source_number: u8,
        sources: usize,
    },
    #[error("piece {piece} reads beyond its source, of size {shape:?}")]
    OutsideSource { piece: usize, shape: [u32; 3] },
    #[error("piece {piece} lies beyond the result, of size {shape:?}")]
    OutsideResult { piece: usize, shape: [u32; 3] },
    #[error("the digits of piece {piece} do not divide into a box of {sizes:?}")]
    Digits { piece: usize, sizes: [u32; 3] },
    #[error("pieces {first} and {second} overlap in the result")]
    Overlap { first: usize, second: usize },
    #[error("the pieces are {found} of the result's {expected} values")]
    Missing { found: u64, expected: u64 },
}

pub const PIECES_MAX: usize = 256;

impl Piece {
    /// All of a tensor that `view` lists, as a tensor of `shape`.
    #[must_use]
    pub const fn whole(view: View, shape: [u32; 3]) -> Self {
        Self {
            source: 0,
            view,
            at: [0; 3],
            sizes: shape,
        }
    }

    /// Checks that the pieces read inside their sources and make each value of a tensor of `shape` once.
    pub fn check(pieces: &[Self], sources: &[[u32; 3]], shape: [u32; 3]) -> Result<(), PieceError> {
        if !(1..=PIECES_MAX).contains(&pieces.len()) {
            let found = pieces.len();
            return Err(PieceError::Count { found });
        }
        for (at, piece) in pieces.iter().enumerate() {
            piece.check_one(at, sources, shape)?;
            let before = pieces[..at].iter().position(|other| piece.meets(other));
            if let Some(first) = before {
                return Err(PieceError::Overlap { first, second: at });
            }
        }
        let volume = |sizes: [u32; 3]| sizes.map(u64::from).iter().product::<u64>();
        let found = pieces.iter().map(|piece| volume(piece.sizes)).sum();
        let expected = volume(shape);
        if found != expected {
            return Err(PieceError::Missing { found, expected });
        }
        Ok(())
    }

    fn check_one(
        &self,
        piece: usize,
        sources: &[[u32; 3]],
        shape: [u32; 3],
    ) -> Result<(), PieceError> {
        let Some(&source) = sources.get(usize::from(self.source)) else {
            return Err(PieceError::Source {
                piece,
                source_number: self.source,
                sources: sources.len(),
            });
        };
        if !self.view.lies_in(source) {
            let shape = source;
            return Err(PieceError::OutsideSource { piece, shape });
        }
        let inside = |axis: usize| {
            let end = u64::from(self.at[axis]) + u64::from(self.sizes[axis]);
            self.sizes[axis] > 0 && end <= u64::from(shape[axis])
        };
        if !(0..3).all(inside) {
            return Err(PieceError::OutsideResult { piece, shape });
        }
        match self.view.split(self.sizes) {
            Some(_) => Ok(()),
            None => Err(PieceError::Digits {
                piece,
                sizes: self.sizes,
            }),
        }
    }

    /// Whether both have a value of the result in common. Both lie in it.
    fn meets(&self, other: &Self) -> bool {
        (0..3).all(|axis| {
            self.at[axis] < other.at[axis] + other.sizes[axis]
                && other.at[axis] < self.at[axis] + self.sizes[axis]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [u32; 3] = [4, 2, 3];

    /// Rows `from` to `to` of a tensor of this shape.
    fn rows(from: u32, to: u32) -> Piece {
        let sizes = [4, to - from, 3];
        Piece {
            at: [0, from, 0],
            ..Piece::whole(View::plain(sizes), sizes)
        }
    }

    #[test]
    fn pieces_make_each_value_once() {
        let check = |pieces: &[Piece]| Piece::check(pieces, &[SHAPE], SHAPE);
        assert_eq!(check(&[rows(0, 1), rows(1, 2)]), Ok(()));
        assert_eq!(check(&[]), Err(PieceError::Count { found: 0 }));
        let (found, expected) = (12, 24);
        assert_eq!(
            check(&[rows(1, 2)]),
            Err(PieceError::Missing { found, expected })
        );
        let (first, second) = (0, 1);
        assert_eq!(
            check(&[rows(0, 2), rows(1, 2)]),
            Err(PieceError::Overlap { first, second })
        );
    }

    #[test]
    fn a_piece_stays_inside_its_source_and_the_result() {
        let check = |piece: Piece| Piece::check(&[piece], &[SHAPE], SHAPE);
        let whole = rows(0, 2);
        let (piece, sources) = (0, 1);
        let elsewhere = Piece {
            source: 1,
            ..whole.clone()
        };
        assert_eq!(
            check(elsewhere),
            Err(PieceError::Source {
                piece,
                source_number: 1,
                sources
            })
        );
        let shape = SHAPE;
        let mut beyond = whole.clone();
        beyond.view.start[0] = 1;
        assert_eq!(
            check(beyond),
            Err(PieceError::OutsideSource { piece, shape })
        );
        let mut behind = whole.clone();
        behind.at[2] = u32::MAX;
        assert_eq!(
            check(behind),
            Err(PieceError::OutsideResult { piece, shape })
        );
        let mut other = whole.clone();
        other.sizes = [3, 2, 3];
        let sizes = other.sizes;
        assert_eq!(check(other), Err(PieceError::Digits { piece, sizes }));
    }
}
