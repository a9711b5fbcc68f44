//! What a memory holds, piece by piece, while reads and writes are executed symbolically.

use std::collections::BTreeMap;
use std::ops::Range;

/// The pieces of a memory that somebody wrote, each with a label that says what it is. They never overlap: a write
/// replaces all that it touches, so of a piece that is overwritten in part nothing is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents<T> {
    pieces: BTreeMap<usize, Piece<T>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece<T> {
    end: usize,
    label: T,
}

impl<T> Default for Contents<T> {
    fn default() -> Self {
        let pieces = BTreeMap::new();
        Self { pieces }
    }
}

impl<T> Contents<T> {
    /// Writes a piece. An empty one changes nothing.
    pub fn write(&mut self, range: Range<usize>, label: T) {
        self.erase(range.clone());
        if !range.is_empty() {
            let end = range.end;
            self.pieces.insert(range.start, Piece { end, label });
        }
    }

    /// Forgets every piece that touches the range.
    pub fn erase(&mut self, range: Range<usize>) {
        let touched: Vec<usize> = self.touching(&range).map(|(start, _)| start).collect();
        for start in touched {
            self.pieces.remove(&start);
        }
    }

    /// The label of the piece that was written exactly there.
    pub fn whole(&self, range: &Range<usize>) -> Option<&T> {
        let piece = self.pieces.get(&range.start)?;
        (piece.end == range.end).then_some(&piece.label)
    }

    /// The pieces that touch the range, in order.
    pub fn in_range(&self, range: &Range<usize>) -> impl Iterator<Item = (Range<usize>, &T)> {
        let touching = self.touching(range);
        touching.map(|(start, piece)| (start..piece.end, &piece.label))
    }

    fn touching(&self, range: &Range<usize>) -> impl Iterator<Item = (usize, &Piece<T>)> {
        // Pieces do not overlap: only the last one that starts before the range can reach into it.
        let before = self.pieces.range(..range.start).next_back();
        let before = before.filter(|(_, piece)| piece.end > range.start && !range.is_empty());
        let inside = self.pieces.range(range.start..range.end.max(range.start));
        before
            .into_iter()
            .chain(inside)
            .map(|(&start, piece)| (start, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_found_where_it_was_written_and_nowhere_else() {
        let mut memory = Contents::default();
        memory.write(8..16, 'a');
        memory.write(16..24, 'b');
        assert_eq!(memory.whole(&(8..16)), Some(&'a'));
        assert_eq!(memory.whole(&(8..12)), None);
        assert_eq!(memory.whole(&(8..24)), None);
        assert_eq!(memory.whole(&(9..16)), None);
        let found: Vec<_> = memory.in_range(&(15..17)).collect();
        assert_eq!(found, [(8..16, &'a'), (16..24, &'b')]);
    }

    #[test]
    fn nothing_is_left_of_a_piece_that_is_overwritten_in_part() {
        let mut memory = Contents::default();
        for start in [0, 8, 16] {
            memory.write(start..start + 8, start);
        }
        memory.write(15..17, 99);
        let found: Vec<_> = memory.in_range(&(0..24)).collect();
        assert_eq!(found, [(0..8, &0), (15..17, &99)]);
    }

    #[test]
    fn an_empty_range_touches_nothing() {
        let mut memory = Contents::default();
        memory.write(0..8, 'a');
        memory.write(4..4, 'b');
        memory.erase(4..4);
        assert_eq!(memory.whole(&(0..8)), Some(&'a'));
        assert_eq!(memory.in_range(&(4..4)).count(), 0);
    }
}
