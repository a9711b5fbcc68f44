//! Attention: each pixel of a query weighs the pixels of a value by how its key agrees with it.
//!
//! A head at a time, tiles of queries against tiles of keys, with the softmax kept up to date while
//! the tiles go by: besides its tensors a run needs only the fixed scratch on its stack.

mod tile;

use core::ops::Range;
use core::ptr;

use self::tile::{Head, Scratch, attend};
use crate::simd::compiled_for;
use crate::spec::{check_equal, check_finite, check_limit};
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part, Weights};

pub use self::tile::HEAD_CHANNELS_MAX;

/// `softmax(scale * query . key [+ bias] [+ f32::MIN where the mask is 0]) * value`, for each head. Tokens are pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// The operator's first input.
    pub query: BlockedLayout,
    /// The second and third operand are key and value, which have equally many pixels.
    pub key: BlockedLayout,
    pub value: BlockedLayout,
    /// The fourth, if there is one: one channel, 0 for pixels of the key that do not count.
    pub mask: Option<BlockedLayout>,
    /// The query's pixels, the value's channels. No tensor has a halo.
    pub output: BlockedLayout,
    /// A divisor of the channels; each head takes at most [`HEAD_CHANNELS_MAX`] of the query's, and of the value's.
    pub heads: usize,
    pub scale: f32,
    /// Whether each row is an attention of its own, such as a window.
    pub by_row: bool,
    pub bias: Option<AttentionBias>,
}

/// The bias added to products, `[row][head][query][key]`: one for all rows, or heads, unless `by_row`, or `by_head`, is
/// set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionBias {
    pub by_row: bool,
    pub by_head: bool,
}

impl AttentionSpec {
    /// The number of independent attentions, and of the queries and keys of each.
    #[must_use]
    pub fn sizes(&self) -> [usize; 3] {
        let rows = if self.by_row { self.query.height() } else { 1 };
        let pixels = |layout: &BlockedLayout| layout.height() * layout.width() / rows;
        [rows, pixels(&self.query), pixels(&self.key)]
    }
}

/// A part of the output: some channels of some pixels, all of one attention.
struct Piece<'a> {
    channels: Range<usize>,
    /// The attention that it belongs to, if each row is one.
    row: usize,
    pixels: Range<usize>,
    /// As [`Attention::pack`] writes it.
    bias: &'a [f32],
}

/// An attention for one instruction set.
#[derive(Clone, Debug)]
pub struct Attention {
    spec: AttentionSpec,
    kernel: unsafe fn(&Head),
}

impl Attention {
    pub fn new(isa: Isa, spec: &AttentionSpec) -> Result<Attention, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let AttentionSpec {
            query,
            key,
            value,
            mask,
            output,
            heads,
            scale,
            by_row,
            ..
        } = spec;
        let tensors = [
            ("query", query),
            ("key", key),
            ("value", value),
            ("output", output),
        ];
        for (tensor, layout) in tensors
            .into_iter()
            .chain(mask.iter().map(|mask| ("mask", mask)))
        {
            layout.check_lanes(tensor, isa)?;
            check_equal("the halo of an attention's tensor", layout.halo(), 0)?;
        }
        check_equal("the output's channels", output.channels(), value.channels())?;
        check_equal("the output's height", output.height(), query.height())?;
        check_equal("the output's width", output.width(), query.width())?;
        check_equal("the key's channels", key.channels(), query.channels())?;
        let pixels = |layout: &BlockedLayout| layout.height() * layout.width();
        check_equal("the value's pixels", pixels(value), pixels(key))?;
        if *by_row {
            check_equal("the key's height", key.height(), query.height())?;
            check_equal("the value's height", value.height(), query.height())?;
        }
        if let Some(mask) = mask {
            check_equal("the mask's channels", mask.channels(), 1)?;
            check_equal("the mask's pixels", pixels(mask), pixels(key))?;
        }
        if *heads == 0 {
            return Err(KernelError::Zero { what: "heads" });
        }
        for channels in [query.channels(), value.channels()] {
            check_equal("channels beyond the last whole head", channels % heads, 0)?;
            check_limit("channels of a head", channels / heads, HEAD_CHANNELS_MAX)?;
        }
        if !scale.is_finite() {
            let (what, index, value) = ("scale", 0, *scale);
            return Err(KernelError::NotFinite { what, index, value });
        }
        Ok(Attention {
            spec: *spec,
            kernel: compiled_for!(isa, attend, Head),
        })
    }

    pub fn spec(&self) -> &AttentionSpec {
        &self.spec
    }

    /// The offset in the packed bias of the table of a row and a head.
    fn bias_start(&self, bias: AttentionBias, row: usize, head: usize) -> usize {
        let [_, queries, keys] = self.spec.sizes();
        let row = if bias.by_row { row } else { 0 };
        let (head, heads) = if bias.by_head {
            (head, self.spec.heads)
        } else {
            (0, 1)
        };
        (row * heads + head) * queries * keys
    }

    /// Computes a piece of the output.
    fn heads(
        &self,
        piece: &Piece<'_>,
        part_start: usize,
        image: &mut Image<'_>,
        scratch: &mut Scratch,
    ) {
        let AttentionSpec {
            query,
            key,
            value,
            mask,
            heads,
            scale,
            bias,
            ..
        } = &self.spec;
        let Piece { channels, row, .. } = piece;
        let [_, queries, keys] = self.spec.sizes();
        let [size, value_size] = [query, value].map(|layout| layout.channels() / heads);
        for head in channels.start / value_size..channels.end.div_ceil(value_size) {
            let value_first = head * value_size;
            let start = row * keys * key.lanes();
            let bias = bias.map(|bias| &piece.bias[self.bias_start(bias, *row, head)..]);
            let head = Head {
                query: image.inputs[0].as_ptr(),
                query_block: query.block_stride(),
                key: image.inputs[1][start..].as_ptr(),
                value: image.inputs[2][start..].as_ptr(),
                key_block: key.block_stride(),
                keys,
                mask: mask.map_or(ptr::null(), |_| image.inputs[3][start..].as_ptr()),
                bias: bias.map_or(ptr::null(), <[f32]>::as_ptr),
                bias_first: row * queries,
                bias_queries: queries,
                output: image.output.as_mut_ptr(),
                output_start: part_start,
                first: head * size,
                size,
                value_first,
                value_size,
                written: channels.start.max(value_first)
                    ..channels.end.min(value_first + value_size),
                pixels: piece.pixels.clone(),
                scale: *scale,
                scratch: &raw mut *scratch,
            };
            // SAFETY: the constructor saw that the instruction set is available, and that a head is
            // not larger than the scratch's tiles; the tensors are as long as their layouts say;
            // what is written lies in the part's slice, which is borrowed for us alone, as is the
            // scratch.
            unsafe { (self.kernel)(&head) };
        }
    }
}

impl Kernel for Attention {
    fn packed_len(&self) -> usize {
        let [rows, queries, keys] = self.spec.sizes();
        self.spec.bias.map_or(0, |bias| {
            let rows = if bias.by_row { rows } else { 1 };
            let heads = if bias.by_head { self.spec.heads } else { 1 };
            rows * heads * queries * keys
        })
    }

    /// The bias, `[row][head][query][key]`, if there is one, as `[row][head][key][query]`.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let bias = weights.floats.first().copied().unwrap_or_default();
        check_equal("the bias's values", bias.len(), self.packed_len())?;
        check_equal("the packed bias", packed.len(), self.packed_len())?;
        check_finite("bias", bias)?;
        let [_, queries, keys] = self.spec.sizes();
        let tables = bias.chunks_exact(queries * keys);
        for (table, packed) in tables.zip(packed.chunks_exact_mut(queries * keys)) {
            for (query, row) in table.chunks_exact(keys).enumerate() {
                for (key, value) in row.iter().enumerate() {
                    packed[key * queries + query] = *value;
                }
            }
        }
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed bias");
        let AttentionSpec {
            query,
            key,
            value,
            mask,
            output,
            ..
        } = &self.spec;
        let range = output.part(part);
        let mut scratch = Scratch::new();
        for image in images {
            let lengths = [query.len(), key.len(), value.len()];
            let lengths = lengths.into_iter().chain(mask.map(|mask| mask.len()));
            image.prepare(lengths, output, part);
            output.clear_surplus(part, image.output);
            for span in output.spans(part) {
                let channels = span.block * output.lanes()
                    ..((span.block + span.blocks) * output.lanes()).min(output.channels());
                // A piece has as many rows as one attention has.
                let step = if self.spec.by_row { 1 } else { span.rows.len() };
                for row in span.rows.clone().step_by(step.max(1)) {
                    let piece = Piece {
                        channels: channels.clone(),
                        row: if self.spec.by_row { row } else { 0 },
                        pixels: row * output.width()..(row + step) * output.width(),
                        bias: packed,
                    };
                    self.heads(&piece, range.start, image, &mut scratch);
                }
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(self.spec.sizes().to_vec())
    }
}
