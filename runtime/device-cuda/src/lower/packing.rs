//! What pages of weights contain.

use punctual_kernels::cuda::{half, padded, params::Pattern};
use punctual_model::{ChannelRun, Network, Operator, OperatorKind};
use thiserror::Error;

use super::pages::{Content, Matrix, Owner, Pages, Piece};

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
        for entry in &self.pages.entries {
            for piece in entry.pieces.iter().filter(|p| p.page as usize == page) {
                self.pack_piece(entry.owner, *piece, target)?;
            }
        }
        Ok(())
    }

    fn pack_piece(&self, owner: Owner, piece: Piece, page: &mut [u8]) -> Result<(), PackError> {
        let job = |name| Job {
            network: self.network,
            name,
            piece,
        };
        match owner {
            Owner::Operator(position) => {
                let operator = self.operators[position as usize];
                match (Content::of(self.network, operator), &operator.kind) {
                    (Some(Content::Matrix(matrix)), _) => job(&operator.name).matrix(&matrix, page),
                    (_, OperatorKind::Gather { runs, .. }) => {
                        job(&operator.name).table(runs, page);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
            Owner::Exit(stage) => {
                let scores = self.network.stages[stage as usize].scores();
                let classes = scores.map_or(0, |id| self.network.tensors[id.0 as usize].channels);
                job("scores").identity(classes, page);
                Ok(())
            }
        }
    }
}

impl Job<'_> {
    fn matrix(&self, matrix: &Matrix, page: &mut [u8]) -> Result<(), PackError> {
        let Some((weights, bias)) = matrix.ranges else {
            return Ok(());
        };
        let slice = |range: punctual_model::WeightRange| {
            &self.network.weights[range.start as usize..][..range.len as usize]
        };
        let (weights, biases) = (slice(weights), slice(bias));
        let row = (matrix.inputs * matrix.taps) as usize;
        let halves = &mut page[self.piece.weights as usize..];
        let channels = self.piece.first..(self.piece.first + self.piece.count).min(matrix.outputs);
        for channel in channels.clone() {
            let own = &weights[channel as usize * row..][..row];
            let at = |input: usize, tap: usize| self.place(matrix, channel, input, tap);
            for (index, &value) in own.iter().enumerate() {
                let bits = half::from_f32(value);
                if bits & 0x7c00 == 0x7c00 {
                    return Err(PackError {
                        model: self.network.name.clone(),
                        operator: self.name.to_owned(),
                        value,
                    });
                }
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

    /// Where each of a gather's channels comes from.
    fn table(&self, runs: &[ChannelRun], page: &mut [u8]) {
        let channels = runs.iter().flat_map(|run| {
            let channels = run.first..run.first + run.count;
            channels.map(|channel| u32::from(run.source) << 24 | channel)
        });
        let target = page[self.piece.weights as usize..].chunks_exact_mut(4);
        for (target, entry) in target.zip(channels) {
            target.copy_from_slice(&entry.to_le_bytes());
        }
    }

    fn identity(&self, classes: u32, page: &mut [u8]) {
        const ONE: u16 = half::from_f32(1.0);
        let row = padded(classes) as usize;
        let halves = &mut page[self.piece.weights as usize..];
        let channels = self.piece.first..(self.piece.first + self.piece.count).min(classes);
        for (own, channel) in channels.enumerate() {
            let at = 2 * (own * row + channel as usize);
            halves[at..at + 2].copy_from_slice(&ONE.to_le_bytes());
        }
    }
}
