//! What pages of weights contain.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use punctual_cuda_kernels::padded;
use punctual_cuda_kernels::params::{Kept, Pattern};
use punctual_model::{Network, Operator, WeightRange};
use punctual_types::half;
use thiserror::Error;

use super::layout::BYTES_STEP;
use super::pages::{Content, Integers, Matrix, Pages, Piece, Rows};

/// A weight that no half is near to.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "operator `{operator}` of `{model}` has the weight {value}: halves reach to 65504; scale the \
     layer down, or run the model on the CPU device"
)]
pub struct PackError {
    /// The network's name.
    pub model: String,
    /// The operator's name.
    pub operator: String,
    pub value: f32,
}

/// Of halves.
const LARGEST: f32 = 65_504.0;

/// Packs the weights of one network, page by page, in any order.
pub struct Packer<'n> {
    network: Cow<'n, Network>,
    pages: Cow<'n, Pages>,
}

/// One piece, to be packed.
struct Job<'j> {
    network: &'j Network,
    name: &'j str,
    piece: Piece,
}

impl<'n> Packer<'n> {
    /// `pages` are those of [`Pages::plan`] for `network`.
    #[must_use]
    pub fn new(network: &'n Network, pages: &'n Pages) -> Self {
        Self {
            network: Cow::Borrowed(network),
            pages: Cow::Borrowed(pages),
        }
    }

    /// One that can pack after the network is gone: mapped weights are shared, others copied.
    #[must_use]
    pub fn into_owned(self) -> Packer<'static> {
        Packer {
            network: Cow::Owned(self.network.into_owned()),
            pages: Cow::Owned(self.pages.into_owned()),
        }
    }

    /// Writes all bytes of a page. The same network gives the same bytes.
    ///
    /// # Panics
    /// If there is no such page, or `target` is not a page long.
    pub fn pack(&self, page: usize, target: &mut [u8]) -> Result<(), PackError> {
        assert!(page < self.pages.count(), "page {page}");
        assert_eq!(target.len(), self.pages.page_bytes() as usize, "a page");
        target.fill(0);
        let mut packed = self.pieces_of(page);
        packed.try_for_each(|(operator, piece)| self.pack_piece(operator, piece, target))
    }

    /// The bytes of a page that are used.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn packed(&self, page: usize) -> Result<Box<[u8]>, PackError> {
        let mut bytes = vec![0; self.pages.page_bytes() as usize];
        self.pack(page, &mut bytes)?;
        bytes.truncate(self.pages.used_of(page).unwrap_or(0) as usize);
        Ok(bytes.into_boxed_slice())
    }

    /// How many pages there are.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.count()
    }

    /// Whether two pages are packed from the same values, in the same places. Nothing is packed for it.
    #[must_use]
    pub fn is_same(&self, page: usize, other: &Packer<'_>, others: usize) -> bool {
        // Where in its page a piece lies, whichever page that is.
        let unpaged = |piece| Piece { page: 0, ..piece };
        let (mut own, mut theirs) = (self.pieces_of(page), other.pieces_of(others));
        loop {
            match (own.next(), theirs.next()) {
                (None, None) => return true,
                (Some((own, piece)), Some((theirs, at)))
                    if unpaged(piece) == unpaged(at) && self.packs_as(own, other, theirs) => {}
                _ => return false,
            }
        }
    }

    /// Whether an operator's weights are packed as those of another network's operator.
    fn packs_as(&self, operator: &Operator, other: &Packer<'_>, others: &Operator) -> bool {
        let own = Content::of(&self.network, operator);
        let theirs = Content::of(&other.network, others);
        own.zip(theirs)
            .is_some_and(|(own, theirs)| own.is_packed_as(&self.network, &theirs, &other.network))
    }

    /// A number that pages have in common which are the [same](Self::is_same), and few others: what is used of it, and the
    /// first value of each piece.
    #[must_use]
    pub fn fingerprint(&self, page: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.pages.used_of(page).hash(&mut hasher);
        for (operator, piece) in self.pieces_of(page) {
            piece.first.hash(&mut hasher);
            let first = operator.weights.first();
            let first = first.and_then(|range| self.network.weights.get(range.start as usize));
            first.map(|value| value.to_bits()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// What lies in a page: each piece once, with an operator that has it.
    fn pieces_of(&self, page: usize) -> impl Iterator<Item = (&Operator, Piece)> {
        let operators = self
            .network
            .stages
            .iter()
            .flat_map(|stage| &stage.operators);
        // By position, as entries are.
        let operators: Vec<&Operator> = operators.collect();
        let mut known = BTreeSet::new();
        let entries = self.pages.entries.iter();
        let pieces = entries.flat_map(|entry| entry.pieces.iter().map(|p| (entry.operator, *p)));
        // Several operators may have the same.
        let of_page =
            pieces.filter(move |(_, p)| p.page as usize == page && known.insert(p.weights));
        of_page.map(move |(position, piece)| (operators[position as usize], piece))
    }

    fn pack_piece(
        &self,
        operator: &Operator,
        piece: Piece,
        page: &mut [u8],
    ) -> Result<(), PackError> {
        let job = Job {
            network: &self.network,
            name: &operator.name,
            piece,
        };
        match Content::of(&self.network, operator) {
            Some(Content::Matrix(matrix) | Content::StateMatrix(matrix)) => {
                job.matrix(&matrix, page)
            }
            Some(Content::Integers(integers)) => {
                job.integers(&integers, page);
                Ok(())
            }
            Some(Content::Rows(rows)) => job.rows(&rows, page),
            Some(Content::Table(words)) => {
                job.table(&words, page);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Job<'_> {
    fn matrix(&self, matrix: &Matrix, page: &mut [u8]) -> Result<(), PackError> {
        let (weights, biases) = (self.slice(matrix.weights), self.slice(matrix.bias));
        let row = (matrix.inputs * matrix.taps) as usize;
        let halves = &mut page[self.piece.weights as usize..];
        let channels = self.piece.first..(self.piece.first + self.piece.count).min(matrix.outputs);
        for channel in channels.clone() {
            let own = &weights[channel as usize * row..][..row];
            let at = |input: usize, tap: usize| self.place(matrix, channel, input, tap);
            for (index, &value) in own.iter().enumerate() {
                let bits = self.half(value)?;
                let (input, tap) = (index / matrix.taps as usize, index % matrix.taps as usize);
                halves[2 * at(input, tap)..][..2].copy_from_slice(&bits.to_le_bytes());
            }
        }
        let target = page[self.piece.bias as usize..].chunks_exact_mut(4);
        let own = &biases[channels.start as usize..channels.end as usize];
        for (target, bias) in target.zip(own) {
            target.copy_from_slice(&bias.to_le_bytes());
        }
        Ok(())
    }

    fn slice(&self, range: WeightRange) -> &[f32] {
        &self.network.weights[range.start as usize..][..range.len as usize]
    }

    fn half(&self, value: f32) -> Result<u16, PackError> {
        // What stands for an infinity, in masks, is the least or the largest number here, too.
        let value = if value.abs() == f32::MAX {
            value.signum() * LARGEST
        } else {
            value
        };
        let bits = half::from_f32(value);
        if bits & 0x7c00 == 0x7c00 {
            return Err(PackError {
                model: self.network.name.clone(),
                operator: self.name.to_owned(),
                value,
            });
        }
        Ok(bits)
    }

    /// Packs weights, biases that compensate for the input's byte of zero, and the value of a step of each sum.
    fn integers(&self, integers: &Integers, page: &mut [u8]) {
        let (from, to) = (integers.from, integers.to);
        let row = (integers.inputs * integers.taps) as usize;
        let all = &self.network.quantised.weights[integers.weights.start as usize..];
        let (scales, biases) = (self.slice(integers.scales), self.slice(integers.bias));
        let (first, count) = (self.piece.first, self.piece.count);
        for channel in first..(first + count).min(integers.outputs) {
            let own = (channel - first) as usize;
            let weights = &all[channel as usize * row..][..row];
            let mut zeros = 0_i32;
            for (index, &weight) in weights.iter().enumerate() {
                let taps = integers.taps as usize;
                let (input, tap) = (index / taps, index % taps);
                let place = match integers.pattern {
                    Pattern::Dense => {
                        let pitch = integers.inputs.next_multiple_of(BYTES_STEP) as usize;
                        (own * taps + tap) * pitch + input
                    }
                    Pattern::Depthwise => tap * count as usize + own,
                    Pattern::Grouped => (own * taps + tap) * integers.inputs as usize + input,
                };
                page[self.piece.weights as usize + place] = weight.to_ne_bytes()[0];
                zeros = zeros.wrapping_add(i32::from(from.zero).wrapping_mul(weight.into()));
            }
            let step = scales[channel as usize] * from.scale;
            let bias = f64::from(biases[channel as usize]) / f64::from(step);
            let mut bias = bias.round_ties_even() as i32;
            if integers.pattern == Pattern::Dense {
                bias = bias.wrapping_sub(zeros);
            }
            let factor = to.map_or(step, |to| (f64::from(step) / f64::from(to.scale)) as f32);
            let places = &mut page[self.piece.bias as usize..];
            places[4 * own..][..4].copy_from_slice(&bias.to_le_bytes());
            places[4 * (own + count as usize)..][..4].copy_from_slice(&factor.to_le_bytes());
        }
    }

    fn rows(&self, rows: &Rows, page: &mut [u8]) -> Result<(), PackError> {
        let (pixels, all) = (rows.pixels as usize, rows.channels as usize);
        let (first, pitch) = (self.piece.first as usize, self.piece.count as usize);
        let target = &mut page[self.piece.weights as usize..];
        for (at, range) in rows.ranges.iter().flatten().enumerate() {
            let values = self.slice(*range);
            for pixel in 0..pixels {
                for channel in first..(first + pitch).min(all) {
                    let value = if rows.is_planar {
                        values[channel * pixels + pixel]
                    } else {
                        values[pixel * all + channel]
                    };
                    let place = (at * pixels + pixel) * pitch + channel - first;
                    if rows.kept == Kept::Floats {
                        target[4 * place..][..4].copy_from_slice(&value.to_le_bytes());
                    } else {
                        let bits = self.half(value)?;
                        target[2 * place..][..2].copy_from_slice(&bits.to_le_bytes());
                    }
                }
            }
        }
        Ok(())
    }

    /// Halves from the piece's start to a weight.
    fn place(&self, matrix: &Matrix, channel: u32, input: usize, tap: usize) -> usize {
        let own = (channel - self.piece.first) as usize;
        let taps = matrix.taps as usize;
        match matrix.pattern {
            Pattern::Dense => (own * taps + tap) * padded(matrix.inputs) as usize + input,
            Pattern::Depthwise => tap * self.piece.count as usize + own,
            Pattern::Grouped => (own * taps + tap) * matrix.inputs as usize + input,
        }
    }

    fn table(&self, words: &[u32], page: &mut [u8]) {
        let target = page[self.piece.weights as usize..].chunks_exact_mut(4);
        for (target, word) in target.zip(words) {
            target.copy_from_slice(&word.to_le_bytes());
        }
    }
}
