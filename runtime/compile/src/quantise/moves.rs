//! Values that are only moved, between bytes and bytes: moved as bytes, of which four are as large as a float.

use std::collections::BTreeMap;

use punctual_model::{
    ChannelRun, Convert, Copy, GATHER_SOURCES_MAX, OperatorKind, Tensor, TensorId,
};
use punctual_types::{Piece, Quantisation, View};

use super::CONVERT;
use crate::draft::{Draft, DraftOperator};

/// Most runs of channels that are moved as pieces: a shuffle of single channels is faster as floats.
const RUNS_MAX: usize = 16;

/// Moves bytes where floats were moved that were bytes before: all of one quantisation, or else if they become bytes of
/// one. What the floats were converted to is left to [`Pass::shorten`](super::Pass::shorten).
pub(super) fn keep_in_bytes(draft: &mut Draft, exits: &[TensorId]) {
    let becomes = only_readers(draft, exits);
    let mut moves = Moves {
        tensors: std::mem::take(&mut draft.tensors),
        quantised: std::mem::take(&mut draft.quantised),
        operators: Vec::with_capacity(draft.operators.len()),
        bytes: BTreeMap::new(),
    };
    for operator in std::mem::take(&mut draft.operators) {
        moves.push(operator, &becomes);
    }
    draft.tensors = moves.tensors;
    draft.quantised = moves.quantised;
    draft.operators = moves.operators;
}

/// The bytes that tensors become, of those that nothing else reads, an exit being a reader.
fn only_readers(draft: &Draft, exits: &[TensorId]) -> BTreeMap<TensorId, Quantisation> {
    let mut readers: BTreeMap<TensorId, usize> = BTreeMap::new();
    let reads = draft.operators.iter().flat_map(DraftOperator::reads);
    for read in reads.chain(exits.iter().copied()) {
        *readers.entry(read).or_default() += 1;
    }
    let converted = draft.operators.iter().filter_map(|operator| {
        let to = draft.quantised.get(&operator.output)?;
        let only = readers.get(&operator.input) == Some(&1);
        let converts = operator.kind == CONVERT;
        (converts && only).then_some((operator.input, *to))
    });
    converted.collect()
}

struct Moves {
    tensors: Vec<Tensor>,
    quantised: BTreeMap<TensorId, Quantisation>,
    operators: Vec<DraftOperator>,
    /// The bytes that floats were converted from.
    bytes: BTreeMap<TensorId, TensorId>,
}

impl Moves {
    fn push(&mut self, operator: DraftOperator, becomes: &BTreeMap<TensorId, Quantisation>) {
        let moved = self.pieces(&operator).and_then(|pieces| {
            let sources = operator.reads().map(|read| self.bytes.get(&read).copied());
            let sources: Vec<TensorId> = sources.collect::<Option<_>>()?;
            let of = |source: &TensorId| self.quantised.get(source);
            let first = sources.first().and_then(of)?;
            // A gather of more becomes a tree of gathers later, a copy does not.
            if sources.len() > GATHER_SOURCES_MAX {
                return None;
            }
            let same = sources.iter().all(|source| of(source) == Some(first));
            let to = if same {
                Some(first)
            } else {
                becomes.get(&operator.output)
            };
            Some((pieces, sources, *to?))
        });
        let Some((pieces, sources, to)) = moved else {
            let is_float = !self.quantised.contains_key(&operator.output);
            if operator.kind == CONVERT && is_float {
                self.bytes.insert(operator.output, operator.input);
            }
            self.operators.push(operator);
            return;
        };
        let sources: Vec<TensorId> = sources
            .iter()
            .map(|&source| self.of_quantisation(&operator.name, source, to))
            .collect();
        let output = self.tensor(self.tensors[operator.output.index()], to);
        let name = operator.name.clone();
        let copy = DraftOperator::new(name.clone(), &sources, output, Copy { pieces });
        self.operators.push(copy);
        self.convert(name, output, operator.output);
        self.bytes.insert(operator.output, output);
    }

    /// What an operator moves, if it does no more.
    fn pieces(&self, operator: &DraftOperator) -> Option<Vec<Piece>> {
        match &operator.kind {
            OperatorKind::Copy(copy) if operator.weights.is_empty() => Some(copy.pieces.clone()),
            OperatorKind::Gather(gather) if gather.runs.len() <= RUNS_MAX => {
                let shape = self.tensors[operator.output.index()];
                Some(pieces_of(&gather.runs, shape))
            }
            _ => None,
        }
    }

    /// A tensor of bytes as one of other bytes, if they differ.
    fn of_quantisation(&mut self, name: &str, source: TensorId, to: Quantisation) -> TensorId {
        if self.quantised.get(&source) == Some(&to) {
            return source;
        }
        let other = self.tensor(self.tensors[source.index()], to);
        self.convert(name.to_owned(), source, other);
        other
    }

    fn tensor(&mut self, shape: Tensor, quantisation: Quantisation) -> TensorId {
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(shape);
        self.quantised.insert(id, quantisation);
        id
    }

    fn convert(&mut self, name: String, input: TensorId, output: TensorId) {
        let convert = DraftOperator::new(name, &[input], output, Convert);
        self.operators.push(convert);
    }
}

/// Runs of channels one behind the other, each with all its pixels.
fn pieces_of(runs: &[ChannelRun], shape: Tensor) -> Vec<Piece> {
    let Tensor { height, width, .. } = shape;
    let piece = |next: &mut u32, run: &ChannelRun| {
        let sizes = [run.count, height, width];
        let at = [*next, 0, 0];
        *next += run.count;
        let view = View {
            start: [run.first, 0, 0],
            ..View::plain(sizes)
        };
        let source = run.source;
        Some(Piece {
            source,
            view,
            at,
            sizes,
        })
    };
    runs.iter().scan(0, piece).collect()
}
