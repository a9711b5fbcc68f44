//! Attention: each pixel of a query weighs the pixels of a value by how its key agrees with it.
//!
//! A head at a time, tiles of queries against tiles of keys, with the softmax kept up to date while
//! the tiles go by: besides its tensors a run needs only the fixed scratch on its stack.

mod tile;

use core::ops::Range;
use core::ptr;

use self::tile::{Head, Scratch, attend};
use crate::layout::check_limit;
use crate::simd::compiled_for;
use crate::spec::check_equal;
use crate::{BlockedLayout, Image, Isa, KernelError, Part};

pub use self::tile::HEAD_CHANNELS_MAX;

/// `softmax(scale * query . key [+ f32::MIN where the mask is 0]) * value`, head by head. Tokens are pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// The operator's first input.
    pub query: BlockedLayout,
    /// The second and the third: key and value.
    pub key: BlockedLayout,
    pub value: BlockedLayout,
    /// The fourth, if there is one: one channel, 0 for pixels of the key that do not count.
    pub mask: Option<BlockedLayout>,
    /// As the query. No tensor has a halo.
    pub output: BlockedLayout,
    /// A divisor of the channels; each head takes at most [`HEAD_CHANNELS_MAX`].
    pub heads: usize,
    pub scale: f32,
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
        check_equal("the output's channels", output.channels(), query.channels())?;
        check_equal("the output's height", output.height(), query.height())?;
        check_equal("the output's width", output.width(), query.width())?;
        check_equal("the key's channels", key.channels(), query.channels())?;
        check_equal("the value's channels", value.channels(), key.channels())?;
        let pixels = |layout: &BlockedLayout| layout.height() * layout.width();
        check_equal("the value's pixels", pixels(value), pixels(key))?;
        if let Some(mask) = mask {
            check_equal("the mask's channels", mask.channels(), 1)?;
            check_equal("the mask's pixels", pixels(mask), pixels(key))?;
        }
        if *heads == 0 {
            return Err(KernelError::Zero { what: "heads" });
        }
        check_equal(
            "channels beyond the last whole head",
            query.channels() % heads,
            0,
        )?;
        check_limit(
            "channels of a head",
            query.channels() / heads,
            HEAD_CHANNELS_MAX,
        )?;
        if !scale.is_finite() {
            let (what, index, value) = ("scale", 0, *scale);
            return Err(KernelError::NotFinite { what, index, value });
        }
        Ok(Attention {
            spec: *spec,
            kernel: compiled_for!(isa, attend, Head),
        })
    }

    /// Runs `part` of the operator for each image.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
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
            clear_surplus(output, part, image.output);
            for span in output.spans(part) {
                let channels = span.block * output.lanes()
                    ..((span.block + span.blocks) * output.lanes()).min(output.channels());
                let pixels = span.rows.start * output.width()..span.rows.end * output.width();
                self.heads(channels, pixels, range.start, image, &mut scratch);
            }
        }
    }

    /// Computes these channels of these pixels.
    fn heads(
        &self,
        channels: Range<usize>,
        pixels: Range<usize>,
        part_start: usize,
        image: &mut Image<'_>,
        scratch: &mut Scratch,
    ) {
        let AttentionSpec {
            query,
            key,
            mask,
            heads,
            scale,
            ..
        } = &self.spec;
        let size = query.channels() / heads;
        for head in channels.start / size..channels.end.div_ceil(size) {
            let first = head * size;
            let head = Head {
                query: image.inputs[0].as_ptr(),
                query_block: query.block_stride(),
                key: image.inputs[1].as_ptr(),
                value: image.inputs[2].as_ptr(),
                key_block: key.block_stride(),
                keys: key.height() * key.width(),
                mask: mask.map_or(ptr::null(), |_| image.inputs[3].as_ptr()),
                output: image.output.as_mut_ptr(),
                output_start: part_start,
                first,
                size,
                written: channels.start.max(first)..channels.end.min(first + size),
                pixels: pixels.clone(),
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

/// Writes zeros to the surplus lanes of the last block, which no head writes.
fn clear_surplus(output: &BlockedLayout, part: Part, slice: &mut [f32]) {
    let lanes = output.lanes();
    let used = output.channels() - (output.blocks() - 1) * lanes;
    let start = output.part(part).start;
    for (block, row) in output.block_rows(part) {
        if block + 1 == output.blocks() && used < lanes {
            let from = output.row_start(block, row) - start;
            let pixels = slice[from..][..output.width() * lanes].chunks_exact_mut(lanes);
            pixels.for_each(|pixel| pixel[used..].fill(0.0));
        }
    }
}
