//! Rows in memory that others may write to, in pieces that stay in the nearest cache.

use punctual_types::SharedBytes;

/// Bytes of a piece: whole pixels of every format that is taken by pieces.
pub(super) const BYTES: usize = 384;

/// Room for one.
pub(super) type Piece = [u8; BYTES];

/// Where pieces of a row begin.
pub(super) fn starts(row: SharedBytes<'_>) -> impl Iterator<Item = usize> + use<> {
    (0..row.len()).step_by(BYTES)
}

/// The piece that begins at `at`, or what is left of the row. `AVX`: for code that is compiled for AVX2.
#[inline(always)]
pub(super) fn load<'p, const AVX: bool>(
    row: SharedBytes<'_>,
    at: usize,
    piece: &'p mut Piece,
) -> &'p [u8] {
    let len = (row.len() - at).min(BYTES);
    let piece = &mut piece[..len];
    let part = row.part(at, len);
    if AVX {
        // SAFETY: only what `vectorised` compiles for AVX2 is told so, and it runs where the processor has that.
        unsafe { part.copy_to_by_vectors(piece) };
    } else {
        part.copy_to(piece);
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_row() {
        let bytes: Vec<u8> = (0..2000).map(|at| (at % 251) as u8).collect();
        for len in [0, 1, 383, 384, 385, 768, 2000] {
            let row = SharedBytes::from(&bytes[..len]);
            let mut seen = Vec::new();
            for at in starts(row) {
                seen.extend_from_slice(load::<false>(row, at, &mut [0; BYTES]));
            }
            assert_eq!(seen, bytes[..len]);
        }
    }
}
