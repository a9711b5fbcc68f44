//! Tensors in blocks of channels.

use core::ops::Range;

use punctual_types::Quantisation;

use crate::quantised::{bytes, bytes_mut};
use crate::shape::Shape;
use crate::spec::{check_dimensions, check_elements, check_equal, check_step};
use crate::{Isa, KernelError};

/// Activations `[block of channels][row][column][lane]` with a border of zeros, the halo.
///
/// A block is as many channels as the instruction set has lanes; missing channels of the last
/// block are *surplus lanes*. Every kernel writes all of its output slice: the image, zeros in the
/// halo, and finite values in surplus lanes, so that memory may be reused for tensors of other
/// layouts without being cleared. Kernels read the halo as zeros and give surplus lanes no weight.
/// Those of a slice that is read in place are other channels and may be infinite: only convolutions and fully
/// connected layers multiply them, by zeros, and then have NaN where infinities are.
///
/// A vector of features is a tensor of one row and one column with no halo: its first `channels`
/// elements are the features.
///
/// A tensor of bytes ([`BlockedLayout::quantised`]) lies the same way in the same memory of floats:
/// a pixel of a block takes `lanes` bytes, a whole number of floats, and the halo is filled with the
/// byte that means zero. Lengths, strides and places count floats for every layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedLayout {
    channels: usize,
    height: usize,
    width: usize,
    halo: usize,
    lanes: usize,
    element: Element,
}

// The scale of its bytes, if it has one, is checked to be a number.
impl Eq for BlockedLayout {}

/// What a value of a tensor is kept as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    F32,
    /// A byte.
    U8(Quantisation),
}

impl BlockedLayout {
    /// A layout of `channels` x `height` x `width` for `isa`, with `halo` zeros on all four sides:
    /// at least the [largest padding](punctual_types::Padding::largest) with which the tensor is convolved.
    pub fn new(
        isa: Isa,
        channels: usize,
        height: usize,
        width: usize,
        halo: usize,
    ) -> Result<BlockedLayout, KernelError> {
        let lanes = isa.lanes();
        check_dimensions(channels, height, width, halo)?;
        let blocked = channels.div_ceil(lanes) * lanes;
        check_elements(blocked, height + 2 * halo, width + 2 * halo)?;
        Ok(BlockedLayout {
            channels,
            height,
            width,
            halo,
            lanes,
            element: Element::F32,
        })
    }

    /// The same of bytes.
    pub fn quantised(self, quantisation: Quantisation) -> Result<BlockedLayout, KernelError> {
        check_step(quantisation.scale)?;
        Ok(BlockedLayout {
            element: Element::U8(quantisation),
            ..self
        })
    }

    /// The same memory as images of one row.
    ///
    /// # Panics
    /// If there are zeros around the rows.
    pub(crate) fn in_one_row(self) -> BlockedLayout {
        assert_eq!(self.halo, 0, "rows with zeros between them");
        BlockedLayout {
            height: 1,
            width: self.height * self.width,
            ..self
        }
    }

    /// What its values are kept as.
    pub fn element(&self) -> Element {
        self.element
    }

    /// A vector of `features`.
    pub fn vector(isa: Isa, features: usize) -> Result<BlockedLayout, KernelError> {
        BlockedLayout::new(isa, features, 1, 1, 0)
    }

    /// Channels, without surplus lanes.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Rows, without halo.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns, without halo.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows or columns of zeros on each side.
    pub fn halo(&self) -> usize {
        self.halo
    }

    pub fn lanes(&self) -> usize {
        self.lanes
    }

    pub fn blocks(&self) -> usize {
        self.channels.div_ceil(self.lanes)
    }

    /// Floats of memory that a block's pixel takes.
    pub(crate) fn pixel(&self) -> usize {
        match self.element {
            Element::F32 => self.lanes,
            Element::U8(_) => self.lanes / size_of::<f32>(),
        }
    }

    /// Floats between a pixel and the one below.
    pub fn row_stride(&self) -> usize {
        (self.width + 2 * self.halo) * self.pixel()
    }

    /// Floats between a block and the next.
    pub fn block_stride(&self) -> usize {
        (self.height + 2 * self.halo) * self.row_stride()
    }

    /// Floats of the whole tensor, halo and surplus lanes included.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.blocks() * self.block_stride()
    }

    /// Where the features of a vector lie, one behind the other; none if this is no vector of floats, or has a halo.
    pub fn features(&self) -> Option<Range<usize>> {
        let is_vector = (self.height, self.width, self.halo) == (1, 1, 0);
        (is_vector && self.element == Element::F32).then_some(0..self.channels)
    }

    /// Where a value of the image lies, in floats; in bytes if it is a byte.
    pub fn index(&self, channel: usize, row: usize, column: usize) -> usize {
        assert!(channel < self.channels && row < self.height && column < self.width);
        let floats = self.row_start(channel / self.lanes, row) + column * self.pixel();
        floats * (self.lanes / self.pixel()) + channel % self.lanes
    }

    /// The floats that a kernel writes for `part`. May be empty for tiny tensors.
    ///
    /// A caller that owns the tensor gets the disjoint `&mut` pieces of several parts by
    /// `split_at_mut` at these ranges' ends.
    pub fn part(&self, part: Part) -> Range<usize> {
        if part.of == 1 {
            // Without the divisions, which count where an operator takes 200 ns.
            return 0..self.len();
        }
        let rows = self.rows(part);
        self.row_boundary(rows.start)..self.row_boundary(rows.end)
    }

    /// The part's rows, counted through all blocks: row `r` of block `b` is `b * height + r`.
    pub(crate) fn rows(&self, part: Part) -> Range<usize> {
        part.share(self.blocks() * self.height)
    }

    /// The part's rows in runs of whole blocks and pieces of a block.
    pub(crate) fn spans(&self, part: Part) -> impl Iterator<Item = Span> + use<> {
        let Range { mut start, end } = self.rows(part);
        let height = self.height;
        core::iter::from_fn(move || {
            if start == end {
                return None;
            }
            let (block, row, left) = (start / height, start % height, end - start);
            let span = if row == 0 && left >= height {
                Span {
                    block,
                    blocks: left / height,
                    rows: 0..height,
                }
            } else {
                Span {
                    block,
                    blocks: 1,
                    rows: row..height.min(row + left),
                }
            };
            start += span.blocks * span.rows.len();
            Some(span)
        })
    }

    /// The part's rows one by one, as block and row.
    pub(crate) fn block_rows(&self, part: Part) -> impl Iterator<Item = (usize, usize)> + use<> {
        let height = self.height;
        self.rows(part).map(move |row| (row / height, row % height))
    }

    /// Where a block's row starts, behind the halo.
    pub(crate) fn row_start(&self, block: usize, row: usize) -> usize {
        block * self.block_stride()
            + (row + self.halo) * self.row_stride()
            + self.halo * self.pixel()
    }

    /// Writes zeros to the halo in the part's slice, or the bytes that mean zero.
    pub(crate) fn clear_halo(&self, part: Part, output: &mut [f32]) {
        if self.halo == 0 {
            return;
        }
        let zero = match self.element {
            Element::F32 => 0.0,
            Element::U8(Quantisation { zero, .. }) => f32::from_ne_bytes([zero; 4]),
        };
        let part_start = self.part(part).start;
        let side = self.halo * self.pixel();
        let edge = self.halo * self.row_stride();
        for span in self.spans(part) {
            for block in span.block..span.block + span.blocks {
                for row in span.rows.clone() {
                    let start = block * self.block_stride() + (row + self.halo) * self.row_stride()
                        - part_start;
                    let end = start + self.row_stride();
                    output[start..start + side].fill(zero);
                    output[end - side..end].fill(zero);
                    if row == 0 {
                        output[start - edge..start].fill(zero);
                    }
                    if row == self.height - 1 {
                        output[end..end + edge].fill(zero);
                    }
                }
            }
        }
    }

    /// Writes zeros to the surplus lanes of the last block in the part's slice of a tensor of floats.
    pub(crate) fn clear_surplus(&self, part: Part, output: &mut [f32]) {
        let used = self.channels - (self.blocks() - 1) * self.lanes;
        let start = self.part(part).start;
        for (block, row) in self.block_rows(part) {
            if block + 1 == self.blocks() && used < self.lanes {
                let from = self.row_start(block, row) - start;
                let pixels = output[from..][..self.width * self.lanes].chunks_exact_mut(self.lanes);
                pixels.for_each(|pixel| pixel[used..].fill(0.0));
            }
        }
    }

    /// Where the part that starts with this row starts: a block's first row brings the halo above
    /// it along, its last row the halo below.
    fn row_boundary(&self, row: usize) -> usize {
        let (block, row) = (row / self.height, row % self.height);
        let above = if row == 0 { 0 } else { self.halo };
        block * self.block_stride() + (above + row) * self.row_stride()
    }

    /// Writes an image given as `[channel][row][column]` into this layout: for tests and tools.
    pub fn pack(&self, image: &[f32], blocked: &mut [f32]) {
        assert_eq!(image.len(), self.channels * self.height * self.width);
        assert_eq!(blocked.len(), self.len());
        assert_eq!(self.element, Element::F32, "bytes are packed as bytes");
        blocked.fill(0.0);
        self.for_each(|at, i| blocked[at] = image[i]);
    }

    /// Reads an image as `[channel][row][column]` out of this layout: for tests and tools.
    pub fn unpack(&self, blocked: &[f32], image: &mut [f32]) {
        assert_eq!(image.len(), self.channels * self.height * self.width);
        assert_eq!(blocked.len(), self.len());
        assert_eq!(self.element, Element::F32, "bytes are unpacked as bytes");
        self.for_each(|at, i| image[i] = blocked[at]);
    }

    /// As [`pack`](Self::pack), for an image of bytes.
    pub fn pack_bytes(&self, image: &[u8], blocked: &mut [f32]) {
        assert_eq!(image.len(), self.channels * self.height * self.width);
        assert_eq!(blocked.len(), self.len());
        self.clear_halo(Part::WHOLE, blocked);
        let blocked = bytes_mut(blocked);
        self.for_each(|at, i| blocked[at] = image[i]);
    }

    /// As [`unpack`](Self::unpack), for an image of bytes.
    pub fn unpack_bytes(&self, blocked: &[f32], image: &mut [u8]) {
        assert_eq!(image.len(), self.channels * self.height * self.width);
        assert_eq!(blocked.len(), self.len());
        let blocked = bytes(blocked);
        self.for_each(|at, i| image[i] = blocked[at]);
    }

    /// The image's shape.
    pub fn shape(&self) -> Shape {
        Shape {
            channels: self.channels,
            height: self.height,
            width: self.width,
        }
    }

    /// Whether it is a tensor of floats for `isa`.
    pub(crate) fn check_lanes(&self, tensor: &'static str, isa: Isa) -> Result<(), KernelError> {
        self.check_blocks(tensor, isa)?;
        match self.element {
            Element::F32 => Ok(()),
            Element::U8(_) => Err(KernelError::Element {
                tensor,
                expected: "floats",
            }),
        }
    }

    /// Whether it is a tensor of bytes for `isa`.
    pub(crate) fn check_bytes(
        &self,
        tensor: &'static str,
        isa: Isa,
    ) -> Result<Quantisation, KernelError> {
        self.check_blocks(tensor, isa)?;
        match self.element {
            Element::U8(quantisation) => Ok(quantisation),
            Element::F32 => Err(KernelError::Element {
                tensor,
                expected: "bytes",
            }),
        }
    }

    /// Whether its blocks are those of `isa`.
    pub(crate) fn check_blocks(&self, tensor: &'static str, isa: Isa) -> Result<(), KernelError> {
        if self.lanes == isa.lanes() {
            Ok(())
        } else {
            Err(KernelError::LanesDiffer {
                tensor,
                found: self.lanes,
                isa,
            })
        }
    }

    /// Whether this is a vector of `features`.
    pub(crate) fn check_vector(
        &self,
        tensor: &'static str,
        isa: Isa,
        features: usize,
    ) -> Result<(), KernelError> {
        self.check_lanes(tensor, isa)?;
        check_equal("the vector's features", self.channels, features)?;
        check_equal("the vector's height", self.height, 1)?;
        check_equal("the vector's width", self.width, 1)?;
        check_equal("the vector's halo", self.halo, 0)
    }

    /// Whether the image is as large as `other`'s.
    pub(crate) fn check_same_image(&self, other: &BlockedLayout) -> Result<(), KernelError> {
        check_equal("the addend's channels", self.channels, other.channels)?;
        check_equal("the addend's height", self.height, other.height)?;
        check_equal("the addend's width", self.width, other.width)
    }

    fn for_each(&self, mut each: impl FnMut(usize, usize)) {
        let mut i = 0;
        for channel in 0..self.channels {
            for row in 0..self.height {
                for column in 0..self.width {
                    each(self.index(channel, row, column), i);
                    i += 1;
                }
            }
        }
    }
}

/// Rows of consecutive blocks: all rows of them, or some rows of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first block.
    pub block: usize,
    pub blocks: usize,
    pub rows: Range<usize>,
}

/// One share of an operator's work: `index` of `of`, for `of` cores that work side by side.
///
/// Each core runs the same kernel with its own part on its own slice of the output; the slices
/// ([`BlockedLayout::part`]) are contiguous, disjoint, in order, and together the whole tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: usize,
    of: usize,
}

impl Part {
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// Share `index` of `of`. Panics unless `index < of`.
    pub const fn new(index: usize, of: usize) -> Part {
        assert!(
            index < of,
            "a part's index is less than the number of parts"
        );
        Part { index, of }
    }

    /// How many parts the work has.
    pub const fn of(self) -> usize {
        self.of
    }

    /// This part's share of `units`, as equal as whole units allow.
    pub(crate) fn share(self, units: usize) -> Range<usize> {
        units * self.index / self.of..units * (self.index + 1) / self.of
    }
}
