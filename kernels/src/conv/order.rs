//! In which pieces a convolution goes through its images.
//!
//! A strip's kernel reads its input once for each few output blocks. An input that stays in the second-level cache
//! meanwhile is as good as read once; a larger one is better taken in pieces that stay there, all output blocks for one
//! piece, as long as the weights, which are then read once a piece, are not larger still. A row that does not stay,
//! such as one of many tokens, is cut into runs of columns. No sum's order depends on this.

use super::clip::Run;
use super::packed::Packing;
use super::spec::{Conv2dSpec, ConvInput};
use super::strip::{Strip, StripKernel, depthwise_strip};
use super::tiles::{self, BLOCKS_MAX, COLUMNS_MAX, Choices};
use crate::Isa;
use crate::layout::Span;
use crate::simd::compiled_for;
use crate::tiles::{Tile, least_cost};

/// What may be expected to stay in the second-level cache from one reading to the next, in floats:
/// 384 KiB, of the 512 KiB to 2 MiB that cores have, in addition to weights and outputs that pass by.
const STAYS: usize = 96 << 10;

#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub run: Run,
    kernels: Kernels,
}

#[derive(Clone, Copy, Debug)]
enum Kernels {
    /// For one, two, ... output blocks at once.
    Dense([Choices; BLOCKS_MAX]),
    Depthwise(StripKernel),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pieces {
    pub images: usize,
    pub rows: usize,
    /// The most columns of one run that are computed before the next output blocks.
    pub columns: usize,
}

/// What decides about the order, in floats.
struct Sizes {
    /// The span's weights.
    weights: usize,
    /// The input under one of the span's rows, of one image.
    row: usize,
    rows: usize,
    columns: usize,
    /// Output rows of a tile: pieces have whole tiles.
    tile_rows: usize,
    images: usize,
    /// How often the input is read if the span is one piece.
    readings: usize,
}

/// The pieces in which to compute a span.
pub(super) fn pieces(
    columns: &[Columns],
    spec: &Conv2dSpec,
    packing: &Packing,
    span: &Span,
    images: usize,
) -> Pieces {
    let whole = Pieces {
        images,
        rows: span.rows.len(),
        columns: usize::MAX,
    };
    // Where there are several runs, the one with the most columns takes the most time.
    let widest = columns.iter().max_by_key(|all| all.run.outputs.len());
    let Some(Kernels::Dense(choices)) = widest.map(|widest| &widest.kernels) else {
        return whole;
    };
    if spec.groups > 1 {
        return whole;
    }
    let sources = packing.sources[span.block];
    let blocks = span.blocks.min(2);
    let sizes = Sizes {
        weights: span.blocks * packing.block_stride(0),
        row: row(spec, sources.count),
        rows: span.rows.len(),
        columns: spec.output.width(),
        tile_rows: choices[blocks - 1].best().rows,
        images,
        readings: span.blocks.div_ceil(2),
    };
    sizes.pieces()
}

/// Floats of the input that one output row reads, in `sources` input blocks or planes.
fn row(spec: &Conv2dSpec, sources: usize) -> usize {
    let (input_row, _) = spec.input.strides();
    sources * input_row * spec.window.stride.height as usize
}

/// How many columns of one run to compute for all output blocks before the next columns, if rows do not stay in the
/// cache: whole tiles, about as many in each piece.
fn stay(spec: &Conv2dSpec, choices: &Choices, columns: usize) -> Option<usize> {
    if spec.groups > 1 {
        return None;
    }
    let channels = spec.input.sizes().channels;
    let sources = channels.div_ceil(spec.inner_lanes());
    let most = columns_that_stay(
        row(spec, sources) * choices.best().rows,
        spec.output.width(),
    );
    let tiles = most / choices.best().columns;
    if most >= columns || tiles == 0 {
        return None;
    }
    let pieces = columns.div_ceil(tiles * choices.best().columns);
    Some(
        columns
            .div_ceil(pieces)
            .next_multiple_of(choices.best().columns),
    )
}

/// How many of `columns` columns, which read `input` floats together, stay in the cache.
fn columns_that_stay(input: usize, columns: usize) -> usize {
    STAYS * columns / input
}

/// The columns in pieces of at most `most`, each within one run.
pub(super) fn column_pieces(columns: &[Columns], most: usize) -> impl Iterator<Item = &[Columns]> {
    let mut left = columns;
    core::iter::from_fn(move || {
        let mut width = left.first()?.run.outputs.len();
        let mut count = 1;
        while let Some(next) = left.get(count) {
            width += next.run.outputs.len();
            if width > most {
                break;
            }
            count += 1;
        }
        let (piece, rest) = left.split_at(count);
        left = rest;
        Some(piece)
    })
}

impl Sizes {
    fn pieces(&self) -> Pieces {
        let whole = Pieces {
            images: self.images,
            rows: self.rows,
            columns: usize::MAX,
        };
        let image = self.row * self.rows;
        if image * self.images <= STAYS || self.readings == 1 {
            return whole;
        }
        let tiles = self.row * self.tile_rows;
        let pieces = if image <= STAYS {
            Pieces {
                images: STAYS / image,
                ..whole
            }
        } else if tiles <= STAYS {
            Pieces {
                images: 1,
                rows: STAYS / tiles * self.tile_rows,
                ..whole
            }
        } else {
            Pieces {
                images: 1,
                rows: self.tile_rows,
                columns: columns_that_stay(tiles, self.columns).max(1),
            }
        };
        let count = self.images.div_ceil(pieces.images)
            * self.rows.div_ceil(pieces.rows)
            * self.columns.div_ceil(pieces.columns);
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

/// The tiles of `blocks` blocks.
fn fitting(isa: Isa, spec: &Conv2dSpec, blocks: usize) -> &'static [Tile<StripKernel>] {
    tiles::fitting(
        isa,
        matches!(spec.input, ConvInput::Blocked(_)),
        spec.window.is_dilated(),
        spec.window.stride.width as usize,
        blocks,
    )
}

impl Columns {
    pub fn new(isa: Isa, spec: &Conv2dSpec, run: Run) -> Columns {
        let kernels = if spec.is_depthwise() {
            Kernels::Depthwise(compiled_for!(isa, depthwise_strip, Strip))
        } else {
            let width = run.outputs.len();
            let height = spec.output.height();
            Kernels::Dense(core::array::from_fn(|i| {
                tiles::choices(fitting(isa, spec, i + 1), height, width)
            }))
        };
        Columns { run, kernels }
    }

    /// Splits a run of columns. 197 tokens take less time as 13 tiles of 14 and 2 of 8 than as tiles of one width, and
    /// a run too wide to stay in a cache is cut.
    pub fn split(isa: Isa, spec: &Conv2dSpec, run: Run) -> Vec<Run> {
        if spec.is_depthwise() {
            return vec![run];
        }
        let (width, height) = (run.outputs.len(), spec.output.height());
        let fitting = fitting(isa, spec, spec.output.blocks().min(2));
        let least = |width| least_cost(fitting, height, width);
        let cost = |left| least(left) + least(width - left);
        let multiples = (1..=COLUMNS_MAX.min(width - 1)).map(|tile| (width - 1) / tile * tile);
        let best = multiples.min_by_key(|&left| cost(left));
        let best = best.filter(|&left| cost(left) < least(width));
        let left = best.unwrap_or(width);
        let choices = tiles::choices(fitting, height, left);
        let piece = stay(spec, &choices, left).unwrap_or(left);
        let cuts = (0..left).step_by(piece).chain(best);
        let ends = (0..left).step_by(piece).skip(1).chain([left, width]);
        let start = run.outputs.start;
        cuts.zip(ends)
            .map(|(from, to)| run.part(start + from..start + to))
            .collect()
    }

    /// Relative time of `blocks` blocks.
    pub fn cost(&self, blocks: usize) -> usize {
        match &self.kernels {
            Kernels::Depthwise(_) => 0,
            Kernels::Dense(choices) => choices[blocks - 1].cost(),
        }
    }

    /// The kernel for `blocks` blocks and `rows` rows.
    pub fn kernel(&self, blocks: usize, rows: usize) -> StripKernel {
        match &self.kernels {
            Kernels::Depthwise(kernel) => *kernel,
            Kernels::Dense(choices) => choices[blocks - 1].kernel(rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::direct::Conv2d;
    use crate::conv::direct::tests::{check_meaning, pattern};
    use crate::{BlockedLayout, ConvInput, Isa, Part};
    use punctual_types::{Activation, Extent, Padding, Window};

    /// Of a convolution of one tap on a square image, by tiles of two rows.
    fn sizes(inputs: usize, outputs: usize, side: usize, images: usize) -> Sizes {
        Sizes {
            weights: inputs * outputs,
            row: inputs * side,
            rows: side,
            columns: side,
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
            columns: usize::MAX,
        };
        assert_eq!(sizes(256, 1024, 14, 1).pieces(), whole);
    }

    #[test]
    fn a_large_image_is_taken_in_rows_of_whole_tiles() {
        let pieces = sizes(256, 64, 56, 8).pieces();
        let rows = Pieces {
            images: 1,
            rows: 6,
            columns: usize::MAX,
        };
        assert_eq!(pieces, rows);
    }

    #[test]
    fn small_images_of_a_large_batch_are_taken_in_groups() {
        let pieces = sizes(512, 512, 7, 8).pieces();
        let images = Pieces {
            images: 3,
            rows: 7,
            columns: usize::MAX,
        };
        assert_eq!(pieces, images);
    }

    #[test]
    fn a_row_of_many_tokens_is_taken_in_columns() {
        let tokens = Sizes {
            weights: 384 * 1536,
            row: 384 * 1370,
            rows: 1,
            columns: 1370,
            tile_rows: 1,
            images: 1,
            readings: 48,
        };
        let columns = Pieces {
            images: 1,
            rows: 1,
            columns: 256,
        };
        assert_eq!(tokens.pieces(), columns);
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
            columns: usize::MAX,
        };
        assert_eq!(sizes.pieces(), whole);
    }

    #[test]
    fn tokens_in_pieces_equal_the_reference() {
        const INPUTS: usize = 520;
        const OUTPUTS: usize = 64;
        const TOKENS: usize = 201;
        let (image, weights) = (pattern(INPUTS * TOKENS, 61), pattern(OUTPUTS * INPUTS, 53));
        let bias = pattern(OUTPUTS, 11);
        let window = Window::new(Extent::square(1), Extent::square(1), Padding::uniform(0));
        for isa in Isa::available() {
            let input = BlockedLayout::new(isa, INPUTS, 1, TOKENS, 0).unwrap();
            let output = BlockedLayout::new(isa, OUTPUTS, 1, TOKENS, 0).unwrap();
            let spec = Conv2dSpec {
                input: ConvInput::Blocked(input),
                output,
                residual: None,
                window,
                groups: 1,
                activation: Activation::Gelu,
            };
            let conv = Conv2d::new(isa, &spec).unwrap();
            let span = output.spans(Part::WHOLE).next().unwrap();
            let pieces = column_pieces(
                &conv.columns,
                pieces(&conv.columns, &spec, &conv.packing, &span, 1).columns,
            );
            assert!(pieces.count() > 1, "{isa}: the row stays");
            let mut memory = vec![0.0; input.len()];
            input.pack(&image, &mut memory);
            check_meaning(&conv, &memory, [&image, &weights, &bias], 1e-4);
        }
    }
}
