//! Which weights lie in which page.
//!
//! Known without packing anything: it depends on shapes alone. Operators fill pages in order of execution, each into
//! the first page of its stage that has room, so that a stage's weights lie together, and equal first stages of
//! networks fill equal pages. An operator whose weights exceed a page is cut by output channels, if each of its
//! launches can compute some of them. What several operators have is packed once, where the first of them needs it.

use punctual_cuda_kernels::params::{Kept, Pattern};
use punctual_cuda_kernels::{CHANNEL_STEP, padded};
use punctual_model::{Network, Operator, Tensor, WeightRange, with_operator};
use punctual_types::Quantisation;

use super::error::LowerError;
use super::layout::BYTES_STEP;
use super::place::Place;

/// Weights and biases begin at multiples of this many bytes of their page.
const ALIGNMENT: u64 = 256;
/// Largest page: offsets have 32 bits.
const PAGE_BYTES_MAX: u32 = 1 << 30;

/// Where all weights of a network lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    page_bytes: u32,
    /// Bytes used of each page.
    used: Vec<u32>,
    pub(super) entries: Vec<Entry>,
}

/// Where the weights of one operator lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its position in order of execution.
    pub(super) operator: u32,
    pub(super) pieces: Vec<Piece>,
}

/// Consecutive output channels of an operator, whose weights lie in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The first channel, a multiple of 8.
    pub(super) first: u32,
    /// How many, padding included.
    pub(super) count: u32,
    pub(super) page: u32,
    /// Bytes from the page's start to the weights, the table or the rows.
    pub(super) weights: u32,
    pub(super) bias: u32,
}

/// What is packed for an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Matrix(Matrix),
    /// Of a recurrent layer: each launch needs all of it.
    StateMatrix(Matrix),
    Integers(Integers),
    /// Where the channels of a gather or the pixels of a resize come from.
    Table(Vec<u32>),
    Rows(Rows),
}

/// Weights of bytes, biases in quantisation steps of the sums, and the value of such a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Integers {
    pub(super) pattern: Pattern,
    pub(super) outputs: u32,
    /// Channels that an output channel sums.
    pub(super) inputs: u32,
    /// Positions of the window: rows times columns.
    pub(super) taps: u32,
    /// `[outputs][inputs][taps]`, of the network's bytes; scales and biases are `[outputs]`.
    pub(super) weights: WeightRange,
    pub(super) scales: WeightRange,
    pub(super) bias: WeightRange,
    /// What the bytes of the input stand for, and of the output, if that is of bytes.
    pub(super) from: Quantisation,
    pub(super) to: Option<Quantisation>,
}

impl Integers {
    /// Bytes of an output channel's weights.
    pub(super) fn row_bytes(&self) -> u32 {
        match self.pattern {
            Pattern::Dense => self.taps * self.inputs.next_multiple_of(BYTES_STEP),
            Pattern::Depthwise => self.taps,
            Pattern::Grouped => self.taps * self.inputs,
        }
    }
}

/// Constants that lie as a tensor's pixels do: each with its channels side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rows {
    /// The constants of one tensor, and behind them those of another.
    pub(super) ranges: [Option<WeightRange>; 2],
    /// Pixels of each tensor's constants.
    pub(super) pixels: u32,
    pub(super) channels: u32,
    /// Whether the package has them as `[channel][pixel]` instead of `[pixel][channel]`.
    pub(super) is_planar: bool,
    pub(super) kept: Kept,
    /// Whether several launches can share the channels.
    pub(super) is_cut: bool,
}

/// Weights that sum inputs up, and biases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Matrix {
    pub(super) pattern: Pattern,
    pub(super) outputs: u32,
    /// Channels that an output channel sums.
    pub(super) inputs: u32,
    /// Positions of the window; all pixels of the input of a fully connected layer.
    pub(super) taps: u32,
    /// `[outputs][inputs][taps]`; biases are `[outputs]`.
    pub(super) weights: WeightRange,
    pub(super) bias: WeightRange,
}

/// An operator whose weights are packed.
pub(super) struct Packed<'n> {
    pub(super) network: &'n Network,
    pub(super) operator: &'n Operator,
    pub(super) input: Tensor,
    pub(super) output: Tensor,
}

impl Packed<'_> {
    /// Its weights and biases.
    pub(super) fn matrix(&self, pattern: Pattern, inputs: u32, taps: u32) -> Content {
        Content::Matrix(Matrix {
            pattern,
            outputs: self.output.channels,
            inputs,
            taps,
            weights: self.operator.weights[0],
            bias: self.operator.weights[1],
        })
    }

    /// Its first weights as halves, for each pixel its channels.
    pub(super) fn rows(&self, pixels: u32, channels: u32) -> Rows {
        Rows {
            ranges: [Some(self.operator.weights[0]), None],
            pixels,
            channels,
            is_planar: false,
            kept: Kept::Halves,
            is_cut: false,
        }
    }
}

/// How the weights of an operator are packed.
pub(super) trait Pack {
    /// What is packed, if anything.
    fn content(&self, _of: &Packed<'_>) -> Option<Content> {
        None
    }
}

impl Content {
    /// What `operator` has packed, if anything.
    pub(super) fn of(network: &Network, operator: &Operator) -> Option<Self> {
        let of = Packed {
            network,
            operator,
            input: network.tensors[operator.input.index()],
            output: network.tensors[operator.output.index()],
        };
        with_operator!(&operator.kind, kind => kind.content(&of))
    }

    /// Whether the same is packed for it as for another network's `other`, wherever the networks have the values.
    pub(super) fn is_packed_as(&self, network: &Network, other: &Self, others: &Network) -> bool {
        let (mut own, mut theirs) = (self.clone(), other.clone());
        let (floats, other_floats) = (own.take_floats(network), theirs.take_floats(others));
        let (bytes, other_bytes) = (own.take_bytes(network), theirs.take_bytes(others));
        let equal = |(own, theirs): (&[f32], &[f32])| {
            let bits = |values: &[f32], at: usize| values[at].to_bits();
            own.len() == theirs.len() && (0..own.len()).all(|at| bits(own, at) == bits(theirs, at))
        };
        own == theirs && bytes == other_bytes && floats.into_iter().zip(other_floats).all(equal)
    }

    /// The floats that it is packed from; afterwards it does not say where they lie.
    fn take_floats<'n>(&mut self, network: &'n Network) -> Vec<&'n [f32]> {
        let ranges: Vec<&mut WeightRange> = match self {
            Self::Matrix(matrix) | Self::StateMatrix(matrix) => {
                vec![&mut matrix.weights, &mut matrix.bias]
            }
            Self::Integers(integers) => vec![&mut integers.scales, &mut integers.bias],
            Self::Rows(rows) => rows.ranges.iter_mut().flatten().collect(),
            Self::Table(_) => Vec::new(),
        };
        let taken = ranges.into_iter().map(|range| {
            let from = std::mem::take(&mut range.start) as usize;
            &network.weights[from..][..range.len as usize]
        });
        taken.collect()
    }

    /// The same of bytes.
    fn take_bytes<'n>(&mut self, network: &'n Network) -> &'n [i8] {
        let Self::Integers(Integers { weights, .. }) = self else {
            return &[];
        };
        let from = std::mem::take(&mut weights.start) as usize;
        &network.quantised.weights[from..][..weights.len as usize]
    }

    fn outputs(&self) -> u32 {
        match self {
            Self::Matrix(matrix) | Self::StateMatrix(matrix) => matrix.outputs,
            Self::Integers(integers) => integers.outputs,
            Self::Table(words) => words.len() as u32,
            Self::Rows(rows) => rows.channels,
        }
    }

    /// The fewest channels that a launch can compute.
    fn fewest(&self) -> u32 {
        match self {
            Self::Matrix(_) | Self::Integers(_) | Self::Rows(Rows { is_cut: true, .. }) => {
                CHANNEL_STEP
            }
            Self::StateMatrix(_) | Self::Table(_) | Self::Rows(_) => padded(self.outputs()),
        }
    }

    /// Bytes of the weights of `channels` output channels; before their biases, if they have any.
    fn weight_bytes(&self, channels: u32) -> u64 {
        match self {
            Self::Matrix(matrix) | Self::StateMatrix(matrix) => {
                u64::from(channels) * u64::from(matrix.row_halves()) * size_of::<u16>() as u64
            }
            Self::Integers(integers) => u64::from(channels) * u64::from(integers.row_bytes()),
            Self::Table(_) => u64::from(channels) * size_of::<u32>() as u64,
            Self::Rows(rows) => {
                let ranges = rows.ranges.iter().flatten().count() as u64;
                let values = ranges * u64::from(rows.pixels) * u64::from(channels);
                values * u64::from(rows.kept.bytes())
            }
        }
    }

    fn bytes(&self, channels: u32) -> u64 {
        let biases = match self {
            Self::Matrix(_) | Self::StateMatrix(_) => u64::from(channels) * size_of::<f32>() as u64,
            // A bias and a factor for each channel.
            Self::Integers(_) => 2 * u64::from(channels) * size_of::<f32>() as u64,
            Self::Table(_) | Self::Rows(_) => 0,
        };
        self.weight_bytes(channels).next_multiple_of(ALIGNMENT) + biases
    }

    /// How many output channels a piece may have so that it fits a page; none if not even the fewest do.
    fn channels_max(&self, page_bytes: u32) -> Option<u32> {
        let fits = |channels: u32| self.bytes(channels) <= u64::from(page_bytes);
        let all = padded(self.outputs());
        if fits(all) {
            return Some(all);
        }
        if !fits(self.fewest()) {
            return None;
        }
        let (mut low, mut high) = (1, all / CHANNEL_STEP);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if fits(middle * CHANNEL_STEP) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low * CHANNEL_STEP)
    }
}

/// How the weights of a convolution lie.
pub(super) fn pattern(groups: u32, input: Tensor, output: Tensor) -> Pattern {
    match groups {
        1 => Pattern::Dense,
        _ if groups == input.channels && groups == output.channels => Pattern::Depthwise,
        _ => Pattern::Grouped,
    }
}

impl Matrix {
    /// Halves of an output channel's weights.
    pub(super) fn row_halves(&self) -> u32 {
        match self.pattern {
            Pattern::Dense => self.taps * padded(self.inputs),
            Pattern::Depthwise => self.taps,
            Pattern::Grouped => self.taps * self.inputs,
        }
    }
}

/// Channels of each piece but the last, when `all` are cut into pieces of at most `most`: equal
/// shares, in whole tiles of tensor cores where that makes no further piece.
fn share(all: u32, most: u32) -> u32 {
    let even = all.div_ceil(all.div_ceil(most));
    let step = [128, 64, 32].into_iter();
    let whole = step.map(|step| even.next_multiple_of(step));
    let mut whole = whole.filter(|&share| share <= most);
    whole.next().unwrap_or(even.next_multiple_of(CHANNEL_STEP))
}

impl Pages {
    /// Gives all weights of `network` their places in pages of `page_bytes`.
    pub fn plan(network: &Network, page_bytes: u32) -> Result<Self, LowerError> {
        let possible = page_bytes > 0 && u64::from(page_bytes).is_multiple_of(ALIGNMENT);
        if !possible || page_bytes > PAGE_BYTES_MAX {
            return Err(LowerError::PageBytes(page_bytes));
        }
        let mut pages = Self {
            page_bytes,
            used: Vec::new(),
            entries: Vec::new(),
        };
        let mut position = 0;
        let mut known: Vec<(Content, u32)> = Vec::new();
        for stage in &network.stages {
            let open = pages.used.len().saturating_sub(1);
            for operator in &stage.operators {
                if let Some(content) = Content::of(network, operator) {
                    match known.iter().find(|(other, _)| *other == content) {
                        Some(&(_, first)) => pages.share(position, first),
                        None => pages.add(position, &content, open, network, &operator.name)?,
                    }
                    known.push((content, position));
                }
                position += 1;
            }
        }
        if pages.used.len() > Place::PAGES_MAX as usize {
            return Err(LowerError::Pages {
                model: network.name.clone(),
                pages: pages.used.len(),
                page_bytes,
            });
        }
        Ok(pages)
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.used.len()
    }

    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Bytes that are used of all pages.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used.iter().map(|&used| u64::from(used)).sum()
    }

    /// Bytes from the start that are used of a page; none if there is no such page.
    #[must_use]
    pub fn used_of(&self, page: usize) -> Option<u32> {
        self.used.get(page).copied()
    }

    /// The pieces of an operator, by rising channel.
    pub(super) fn pieces(&self, operator: u32) -> &[Piece] {
        let entry = self.entries.iter().find(|entry| entry.operator == operator);
        entry.map_or(&[], |entry| &entry.pieces)
    }

    /// Places a content in the pages from `open` on, and further ones.
    fn add(
        &mut self,
        operator: u32,
        content: &Content,
        open: usize,
        network: &Network,
        name: &str,
    ) -> Result<(), LowerError> {
        let most = content.channels_max(self.page_bytes);
        let most = most.ok_or_else(|| LowerError::Page {
            model: network.name.clone(),
            operator: name.to_owned(),
            bytes: content.bytes(content.fewest()),
            page_bytes: self.page_bytes,
        })?;
        let all = padded(content.outputs());
        let share = share(all, most);
        let mut pieces = Vec::new();
        for first in (0..all).step_by(share as usize) {
            let count = share.min(all - first);
            let (page, weights) = self.room(content.bytes(count), open);
            let bias = u64::from(weights) + content.weight_bytes(count);
            pieces.push(Piece {
                first,
                count,
                page,
                weights,
                bias: bias.next_multiple_of(ALIGNMENT) as u32,
            });
        }
        self.entries.push(Entry { operator, pieces });
        Ok(())
    }

    /// Lets an operator have what is packed for an earlier one.
    fn share(&mut self, operator: u32, with: u32) {
        let pieces = self.pieces(with).to_vec();
        self.entries.push(Entry { operator, pieces });
    }

    /// Takes room for `bytes` in the first page from `open` on that has it.
    fn room(&mut self, bytes: u64, open: usize) -> (u32, u32) {
        let start = |used: u32| u64::from(used).next_multiple_of(ALIGNMENT);
        let fits = |&page: &usize| start(self.used[page]) + bytes <= u64::from(self.page_bytes);
        let page = (open..self.used.len()).find(fits);
        let page = page.unwrap_or_else(|| {
            self.used.push(0);
            self.used.len() - 1
        });
        let at = start(self.used[page]);
        self.used[page] = (at + bytes) as u32;
        (page as u32, at as u32)
    }
}
