//! What pages of weights contain.

use std::collections::BTreeSet;

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
    network: &'n Network,
    pages: &'n Pages,
    operators: Vec<&'n Operator>,
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
        let operators = network.stages.iter().flat_map(|stage| &stage.operators);
        Self {
            network,
            pages,
            operators: operators.collect(),
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
        let mut packed = BTreeSet::new();
        for entry in &self.pages.entries {
            for piece in entry.pieces.iter().filter(|p| p.page as usize == page) {
                // Several operators may have the same.
                if packed.insert(piece.weights) {
                    self.pack_piece(entry.operator, *piece, target)?;
                }
            }
        }
        Ok(())
    }

    fn pack_piece(&self, position: u32, piece: Piece, page: &mut [u8]) -> Result<(), PackError> {
        let operator = self.operators[position as usize];
        let job = Job {
            network: self.network,
            name: &operator.name,
            piece,
        };
        match Content::of(self.network, operator) {
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
