//! Which weights lie in which page.
//!
//! Known without packing anything: it depends on shapes alone. Operators fill pages in order of
//! execution, each into the first page of its stage that has room, so that what a stage needs lies
//! together and what networks have in common at the beginning fills equal pages. An operator whose
//! weights exceed a page is cut by output channels.

use punctual_kernels::cuda::{CHANNEL_STEP, padded, params::Pattern};
use punctual_model::{Network, Operator, OperatorKind, Stage, WeightRange};

use super::error::LowerError;
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
    pub(super) owner: Owner,
    pub(super) pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Of the operator at this position in order of execution.
    Operator(u32),
    /// Of the step that converts this stage's class scores to `f32`, where no fully connected layer
    /// writes them: the identity.
    Exit(u32),
}

/// Consecutive output channels of an operator, whose weights lie in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The first channel, a multiple of 8.
    pub(super) first: u32,
    /// How many, padding included.
    pub(super) count: u32,
    pub(super) page: u32,
    /// Bytes from the page's start to the weights, or to the table of a gather.
    pub(super) weights: u32,
    pub(super) bias: u32,
}

/// What is packed for an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Content {
    Matrix(Matrix),
    /// Of a gather: one `u32` for each of so many output channels.
    Table(u32),
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
    /// `[outputs][inputs][taps]`, and `[outputs]`; none for the identity.
    pub(super) ranges: Option<(WeightRange, WeightRange)>,
}

impl Content {
    /// What `operator` has packed, if anything.
    pub(super) fn of(network: &Network, operator: &Operator) -> Option<Self> {
        let input = network.tensors[operator.input.0 as usize];
        let output = network.tensors[operator.output.0 as usize];
        let matrix = |pattern, inputs, taps, ranges| {
            Some(Self::Matrix(Matrix {
                pattern,
                outputs: output.channels,
                inputs,
                taps,
                ranges: Some(ranges),
            }))
        };
        match &operator.kind {
            &OperatorKind::Conv2d {
                weights,
                bias,
                window,
                groups,
                ..
            } => {
                let pattern = match groups {
                    1 => Pattern::Dense,
                    _ if groups == input.channels && groups == output.channels => {
                        Pattern::Depthwise
                    }
                    _ => Pattern::Grouped,
                };
                let taps = window.kernel.height * window.kernel.width;
                matrix(pattern, input.channels / groups, taps, (weights, bias))
            }
            &OperatorKind::Linear { weights, bias, .. } => {
                let taps = input.height * input.width;
                matrix(Pattern::Dense, input.channels, taps, (weights, bias))
            }
            OperatorKind::Gather { .. } => Some(Self::Table(output.channels)),
            _ => None,
        }
    }

    /// The step that converts the scores of this many classes to `f32`.
    pub(super) fn identity(classes: u32) -> Self {
        Self::Matrix(Matrix {
            pattern: Pattern::Dense,
            outputs: classes,
            inputs: classes,
            taps: 1,
            ranges: None,
        })
    }

    fn outputs(self) -> u32 {
        match self {
            Self::Matrix(matrix) => matrix.outputs,
            Self::Table(channels) => channels,
        }
    }

    /// Bytes of the weights of so many output channels; before their biases, if they have any.
    fn weight_bytes(self, channels: u32) -> u64 {
        match self {
            Self::Matrix(matrix) => {
                u64::from(channels) * u64::from(matrix.row_halves()) * size_of::<u16>() as u64
            }
            Self::Table(_) => u64::from(channels) * size_of::<u32>() as u64,
        }
    }

    fn bytes(self, channels: u32) -> u64 {
        let biases = match self {
            Self::Matrix(_) => u64::from(channels) * size_of::<f32>() as u64,
            Self::Table(_) => 0,
        };
        self.weight_bytes(channels).next_multiple_of(ALIGNMENT) + biases
    }

    /// How many output channels a piece may have so that it fits a page; none if not even the fewest do.
    fn channels_max(self, page_bytes: u32) -> Option<u32> {
        let fits = |channels: u32| self.bytes(channels) <= u64::from(page_bytes);
        let all = padded(self.outputs());
        if fits(all) {
            return Some(all);
        }
        // A table is never cut: a gather's other launches would read it whole.
        if matches!(self, Self::Table(_)) || !fits(CHANNEL_STEP) {
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
        for (number, stage) in (0..).zip(&network.stages) {
            let open = pages.used.len().saturating_sub(1);
            for operator in &stage.operators {
                if let Some(content) = Content::of(network, operator) {
                    let name = (network, operator.name.as_str());
                    pages.add(Owner::Operator(position), content, open, name)?;
                }
                position += 1;
            }
            if let Some(classes) = unconnected_exit(network, stage) {
                let content = Content::identity(classes);
                pages.add(Owner::Exit(number), content, open, (network, "scores"))?;
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
    pub(super) fn pieces(&self, owner: Owner) -> &[Piece] {
        let entry = self.entries.iter().find(|entry| entry.owner == owner);
        entry.map_or(&[], |entry| &entry.pieces)
    }

    /// Places a content in the pages from `open` on, and further ones.
    fn add(
        &mut self,
        owner: Owner,
        content: Content,
        open: usize,
        (network, operator): (&Network, &str),
    ) -> Result<(), LowerError> {
        let most = content.channels_max(self.page_bytes);
        let most = most.ok_or_else(|| LowerError::Page {
            model: network.name.clone(),
            operator: operator.to_owned(),
            bytes: match content {
                Content::Matrix(_) => content.bytes(CHANNEL_STEP),
                Content::Table(channels) => content.bytes(channels),
            },
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
        self.entries.push(Entry { owner, pieces });
        Ok(())
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

/// Classes of a stage whose class scores are no fully connected layer's, so that they exist in halves only.
pub(super) fn unconnected_exit(network: &Network, stage: &Stage) -> Option<u32> {
    let logits = stage.scores()?;
    let writer = stage.operators.iter().find(|each| each.output == logits);
    let connected = writer.is_some_and(|each| matches!(each.kind, OperatorKind::Linear { .. }));
    (!connected).then_some(network.tensors[logits.0 as usize].channels)
}
