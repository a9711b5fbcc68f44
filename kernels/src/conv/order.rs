//! In which pieces a convolution goes through its images.
//!
//! A strip's kernel reads its input once for each few output blocks. An input that stays in the
//! second-level cache meanwhile is as good as read once; a larger one is better taken in pieces
//! that stay there, all output blocks for one piece, as long as the weights, which are then read
//! once a piece, are not larger still. The order of no sum depends on it.

use super::{Conv2d, Kernels};
use crate::layout::Span;

/// What may be expected to stay in the second-level cache from one reading to the next, in floats:
/// 384 KiB, of the 512 KiB to 2 MiB that cores have, beside weights and outputs that pass by.
const STAYS: usize = 96 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pieces {
    pub images: usize,
    pub rows: usize,
}

/// What decides about the order, in floats.
struct Sizes {
    /// The span's weights.
    weights: usize,
    /// The input under one of the span's rows, of one image.
    row: usize,
    rows: usize,
    /// Output rows of a tile: pieces have whole tiles.
    tile_rows: usize,
    images: usize,
    /// How often the input is read if the span is one piece.
    readings: usize,
}

impl Conv2d {
    /// The pieces in which to compute a span.
    pub(super) fn pieces(&self, span: &Span, images: usize) -> Pieces {
        let whole = Pieces {
            images,
            rows: span.rows.len(),
        };
        // Where there are several runs, the one with the most columns takes the most time.
        let widest = self.columns.iter().max_by_key(|all| all.run.outputs.len());
        let Some(Kernels::Dense(choices)) = widest.map(|widest| &widest.kernels) else {
            return whole;
        };
        if self.spec.groups > 1 {
            return whole;
        }
        let sources = self.packing.sources[span.block];
        let (input_row, _) = self.spec.input.strides();
        let blocks = span.blocks.min(2);
        let sizes = Sizes {
            weights: span.blocks * self.packing.block_stride(0),
            row: sources.count * input_row * self.spec.window.stride.height as usize,
            rows: span.rows.len(),
            tile_rows: choices[blocks - 1].rows(),
            images,
            readings: span.blocks.div_ceil(2),
        };
        sizes.pieces()
    }
}

impl Sizes {
    fn pieces(&self) -> Pieces {
        let whole = Pieces {
            images: self.images,
            rows: self.rows,
        };
        let image = self.row * self.rows;
        if image * self.images <= STAYS || self.readings == 1 {
            return whole;
        }
        let pieces = if image <= STAYS {
            Pieces {
                images: STAYS / image,
                rows: self.rows,
            }
        } else {
            let tiles = STAYS / (self.row * self.tile_rows);
            Pieces {
                images: 1,
                rows: tiles.max(1) * self.tile_rows,
            }
        };
        let count = self.images.div_ceil(pieces.images) * self.rows.div_ceil(pieces.rows);
        let weights = if self.weights <= STAYS {
            self.weights
        } else {
            self.weights * count
        };
        let input = image * self.images;
        if weights + input < self.weights + input * self.readings {
            pieces
        } else {
            whole
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a convolution of one tap on a square image, by tiles of two rows.
    fn sizes(inputs: usize, outputs: usize, side: usize, images: usize) -> Sizes {
        Sizes {
            weights: inputs * outputs,
            row: inputs * side,
            rows: side,
            tile_rows: 2,
            images,
            readings: outputs / 32,
        }
    }

    #[test]
    fn a_small_input_stays_and_is_taken_whole() {
        let whole = Pieces {
            images: 1,
            rows: 14,
        };
        assert_eq!(sizes(256, 1024, 14, 1).pieces(), whole);
    }

    #[test]
    fn a_large_image_is_taken_in_rows_of_whole_tiles() {
        let pieces = sizes(256, 64, 56, 8).pieces();
        assert_eq!(pieces, Pieces { images: 1, rows: 6 });
    }

    #[test]
    fn small_images_of_a_large_batch_are_taken_in_groups() {
        let pieces = sizes(512, 512, 7, 8).pieces();
        assert_eq!(pieces, Pieces { images: 3, rows: 7 });
    }

    #[test]
    fn weights_far_larger_than_the_input_are_read_once() {
        let sizes = Sizes {
            weights: 9 * 512 * 512,
            ..sizes(512, 512, 14, 1)
        };
        let whole = Pieces {
            images: 1,
            rows: 14,
        };
        assert_eq!(sizes.pieces(), whole);
    }
}
