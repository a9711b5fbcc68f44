//! Composing gathers. Exporters slice, shuffle and join channels one step at a time; what counts is
//! from where each channel of a tensor comes that some other operator reads.
//!
//! A gather that only gathers read disappears: they pick from its sources instead. A gather that contains
//! all the channels of an earlier one picks them there (DenseNet joins the same list again and again,
//! longer by one each time). One with more sources than a device takes becomes a tree of gathers.

use std::collections::BTreeMap;

use punctual_model::{ChannelRun, GATHER_SOURCES_MAX, Gather, OperatorKind, Tensor, TensorId};

use crate::draft::{Draft, DraftOperator};

/// Most spans that all gathers together are expanded to. Beyond, gathers stay as they are: a file of
/// a few nodes, each shuffling the result before, could otherwise fill the memory.
const SPANS_MAX: usize = 1 << 20;

/// Earlier gathers that are tried as a part of a later one, for each place.
const CANDIDATES_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    tensor: TensorId,
    first: u32,
    count: u32,
}

/// Rewrites all gathers of a draft without dead operators.
pub(crate) fn compose(draft: &mut Draft, exits: &[TensorId]) {
    let mut kept = vec![false; draft.tensors.len()];
    exits.iter().for_each(|exit| kept[exit.index()] = true);
    for operator in &draft.operators {
        if !matches!(operator.kind, OperatorKind::Gather(_)) {
            operator.reads().for_each(|read| kept[read.index()] = true);
        }
    }
    let mut composition = Composition {
        renamed: (0..draft.tensors.len() as u32).map(TensorId).collect(),
        tensors: std::mem::take(&mut draft.tensors),
        origins: BTreeMap::new(),
        spans: 0,
        earlier: BTreeMap::new(),
        operators: Vec::with_capacity(draft.operators.len()),
    };
    for mut operator in std::mem::take(&mut draft.operators) {
        for read in operator.reads_mut() {
            *read = composition.renamed[read.index()];
        }
        let OperatorKind::Gather(Gather { runs }) = &operator.kind else {
            composition.operators.push(operator);
            continue;
        };
        let spans = composition.expand(&operator, runs);
        let output = operator.output;
        if !kept[output.index()] && composition.spans + spans.len() <= SPANS_MAX {
            composition.spans += spans.len();
            composition.origins.insert(output, Origin::new(spans));
            continue;
        }
        let shortened = composition.with_earlier(&spans);
        if exits.contains(&output) || !composition.rename(output, &shortened) {
            composition.emit(&operator.name, output, shortened);
            composition.remember(output, spans);
        }
    }
    draft.tensors = composition.tensors;
    draft.operators = composition.operators;
}

struct Composition {
    tensors: Vec<Tensor>,
    operators: Vec<DraftOperator>,
    /// What to read instead of each tensor: itself, or what it is a plain copy of.
    renamed: Vec<TensorId>,
    /// Where the channels of each gather that disappears come from.
    origins: BTreeMap<TensorId, Origin>,
    /// Spans in `origins` and `earlier`.
    spans: usize,
    /// The gathers that were emitted and where their channels come from, by their first span.
    earlier: BTreeMap<Span, Vec<(TensorId, Vec<Span>)>>,
}

impl Composition {
    /// Where a gather's channels come from, through those that disappear.
    fn expand(&self, operator: &DraftOperator, runs: &[ChannelRun]) -> Vec<Span> {
        let sources: Vec<TensorId> = operator.reads().collect();
        let mut spans = Vec::new();
        for run in runs {
            let tensor = sources[usize::from(run.source)];
            let (first, count) = (run.first, run.count);
            match self.origins.get(&tensor) {
                None => push(
                    &mut spans,
                    Span {
                        tensor,
                        first,
                        count,
                    },
                ),
                Some(origin) => origin.part(first, count, &mut spans),
            }
        }
        spans
    }

    /// A gather of one whole tensor is that tensor.
    fn rename(&mut self, output: TensorId, spans: &[Span]) -> bool {
        let &[
            Span {
                tensor,
                first: 0,
                count,
            },
        ] = spans
        else {
            return false;
        };
        let whole = self.tensors[tensor.index()].channels == count;
        if whole {
            self.renamed[output.index()] = tensor;
        }
        whole
    }

    /// Emits the gather that writes `output`, or the tree of them.
    fn emit(&mut self, name: &str, output: TensorId, mut spans: Vec<Span>) {
        let sources = loop {
            match sources(&spans) {
                Some(sources) => break sources,
                None => spans = self.join_neighbours(name, &spans),
            }
        };
        self.push_operator(name, output, &sources, &spans);
    }

    /// Lets later gathers take channels from this one.
    fn remember(&mut self, output: TensorId, spans: Vec<Span>) {
        if self.spans + spans.len() <= SPANS_MAX {
            self.spans += spans.len();
            self.earlier
                .entry(spans[0])
                .or_default()
                .push((output, spans));
        }
    }

    /// The same channels, as many as possible of them from gathers that are there already.
    fn with_earlier(&self, spans: &[Span]) -> Vec<Span> {
        let mut shortened = Vec::with_capacity(spans.len());
        let mut rest = spans;
        while let [first, after @ ..] = rest {
            let candidates = self.earlier.get(first).into_iter().flatten();
            let fitting = candidates
                .rev()
                .take(CANDIDATES_MAX)
                .filter(|(_, part)| part.len() > 1 && rest.starts_with(part));
            if let Some((tensor, part)) = fitting.max_by_key(|(_, part)| part.len()) {
                shortened.push(Span {
                    tensor: *tensor,
                    first: 0,
                    count: self.tensors[tensor.index()].channels,
                });
                rest = &rest[part.len()..];
            } else {
                shortened.push(*first);
                rest = after;
            }
        }
        shortened
    }

    /// Gathers neighbours, as many as have no more sources than a device takes, into tensors of their own.
    fn join_neighbours(&mut self, name: &str, spans: &[Span]) -> Vec<Span> {
        let mut groups: Vec<(Vec<TensorId>, Vec<Span>)> = Vec::new();
        for &span in spans {
            match groups.last_mut() {
                Some((sources, group)) if sources.contains(&span.tensor) => group.push(span),
                Some((sources, group)) if sources.len() < GATHER_SOURCES_MAX => {
                    sources.push(span.tensor);
                    group.push(span);
                }
                _ => groups.push((vec![span.tensor], vec![span])),
            }
        }
        let joined = groups.into_iter().map(|(sources, group)| {
            if let [single] = group[..] {
                return single;
            }
            let count = group.iter().map(|span| span.count).sum();
            let tensor = TensorId(self.tensors.len() as u32);
            self.tensors.push(Tensor {
                channels: count,
                ..self.tensors[sources[0].index()]
            });
            self.push_operator(name, tensor, &sources, &group);
            Span {
                tensor,
                first: 0,
                count,
            }
        });
        joined.collect()
    }

    fn push_operator(
        &mut self,
        name: &str,
        output: TensorId,
        sources: &[TensorId],
        spans: &[Span],
    ) {
        let run = |span: &Span| {
            let source = sources.iter().position(|tensor| *tensor == span.tensor);
            ChannelRun {
                source: source.expect("sources are those of the spans") as u8,
                first: span.first,
                count: span.count,
            }
        };
        let runs = spans.iter().map(run).collect();
        let gather = DraftOperator::new(name, sources, output, Gather { runs });
        self.operators.push(gather);
    }
}

/// The tensors of `spans`, each once, in the order of their first use; `None` if they are more than
/// a gather may have.
fn sources(spans: &[Span]) -> Option<Vec<TensorId>> {
    let mut sources = Vec::with_capacity(GATHER_SOURCES_MAX);
    for span in spans {
        if !sources.contains(&span.tensor) {
            if sources.len() == GATHER_SOURCES_MAX {
                return None;
            }
            sources.push(span.tensor);
        }
    }
    Some(sources)
}

/// Appends a span, to the last one if it continues that.
fn push(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if last.tensor == span.tensor && last.first + last.count == span.first => {
            last.count += span.count;
        }
        _ => spans.push(span),
    }
}

/// The origin of the channels of a tensor that is not there.
struct Origin {
    spans: Vec<Span>,
    /// The channel with which each span begins.
    begins: Vec<u32>,
}

impl Origin {
    fn new(spans: Vec<Span>) -> Self {
        let counts = spans.iter().scan(0, |channel, span| {
            *channel += span.count;
            Some(*channel - span.count)
        });
        let begins = counts.collect();
        Self { spans, begins }
    }

    /// Appends where `count` channels from `first` on come from.
    fn part(&self, first: u32, count: u32, spans: &mut Vec<Span>) {
        let end = first + count;
        let begin = self.begins.partition_point(|&begin| begin <= first) - 1;
        for (span, &at) in self.spans[begin..].iter().zip(&self.begins[begin..]) {
            let (from, to) = (first.max(at), end.min(at + span.count));
            if from >= to {
                break;
            }
            push(
                spans,
                Span {
                    tensor: span.tensor,
                    first: span.first + (from - at),
                    count: to - from,
                },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Computation;

    /// A draft whose tensors 0 to `bases` are written by pools of the input, then gathers.
    fn draft(bases: u32, channels: u32, gathers: &[&[(u32, u32, u32)]]) -> Draft {
        let shape = |channels| Tensor {
            channels,
            height: 2,
            width: 2,
        };
        let mut draft = Draft {
            tensors: vec![shape(channels); bases as usize + 1],
            operators: Vec::new(),
            ..Draft::default()
        };
        for output in 1..=bases {
            draft.operators.push(relu(0, output, channels));
        }
        for spans in gathers {
            let spans: Vec<Span> = spans
                .iter()
                .map(|&(tensor, first, count)| Span {
                    tensor: TensorId(tensor),
                    first,
                    count,
                })
                .collect();
            let mut sources: Vec<TensorId> = spans.iter().map(|span| span.tensor).collect();
            sources.sort_unstable();
            sources.dedup();
            let run = |span: &Span| ChannelRun {
                source: sources.binary_search(&span.tensor).unwrap() as u8,
                first: span.first,
                count: span.count,
            };
            let output = TensorId(draft.tensors.len() as u32);
            draft
                .tensors
                .push(shape(spans.iter().map(|span| span.count).sum()));
            let runs = spans.iter().map(run).collect();
            let name = format!("gather_{}", output.0);
            let gather = DraftOperator::new(name, &sources, output, Gather { runs });
            draft.operators.push(gather);
        }
        draft
    }

    fn relu(input: u32, output: u32, channels: u32) -> DraftOperator {
        let relu = Computation::activation(punctual_types::Activation::Relu, channels);
        let (name, reads) = (format!("relu_{output}"), [TensorId(input)]);
        DraftOperator::new(name, &reads, TensorId(output), relu.kind).with_weights(relu.weights)
    }

    /// Adds an operator that is no gather and reads `tensor`; its result is an exit.
    fn read(draft: &mut Draft, tensor: u32, exits: &mut Vec<TensorId>) {
        let shape = draft.tensors[tensor as usize];
        let output = draft.tensors.len() as u32;
        draft.tensors.push(shape);
        draft.operators.push(relu(tensor, output, shape.channels));
        exits.push(TensorId(output));
    }

    /// For each operator that is no gather what it reads, channel by channel, as (tensor, channel)
    /// of tensors that are no gathers'.
    fn meaning(draft: &Draft) -> Vec<Vec<(TensorId, u32)>> {
        let mut channels: BTreeMap<TensorId, Vec<(TensorId, u32)>> = BTreeMap::new();
        let of = |known: &BTreeMap<_, Vec<_>>, id: TensorId| -> Vec<(TensorId, u32)> {
            let own = (0..draft.tensors[id.index()].channels).map(|channel| (id, channel));
            known.get(&id).cloned().unwrap_or_else(|| own.collect())
        };
        let mut read = Vec::new();
        for operator in &draft.operators {
            let sources: Vec<_> = operator.reads().map(|id| of(&channels, id)).collect();
            let OperatorKind::Gather(Gather { runs }) = &operator.kind else {
                read.push(sources.concat());
                continue;
            };
            let picked: Vec<_> = runs
                .iter()
                .flat_map(|run| {
                    let first = run.first as usize;
                    sources[usize::from(run.source)][first..][..run.count as usize].to_vec()
                })
                .collect();
            let declared = draft.tensors[operator.output.index()].channels;
            assert_eq!(picked.len(), declared as usize);
            channels.insert(operator.output, picked);
        }
        read
    }

    fn gathers(draft: &Draft) -> Vec<(u32, usize)> {
        let gathers = draft
            .operators
            .iter()
            .filter_map(|operator| match &operator.kind {
                OperatorKind::Gather(gather) => Some((operator.output.0, gather.runs.len())),
                _ => None,
            });
        gathers.collect()
    }

    #[test]
    fn a_shuffle_of_a_join_that_is_split_is_one_gather_for_each_half_that_is_read() {
        let shuffle: Vec<_> = (0..8).map(|at| (3, at / 2 + at % 2 * 4, 1)).collect();
        let mut draft = draft(
            2,
            4,
            &[
                &[(1, 0, 4), (2, 0, 4)],
                &shuffle,
                &[(4, 0, 4)],
                &[(4, 4, 4)],
            ],
        );
        let mut exits = Vec::new();
        read(&mut draft, 6, &mut exits);
        let before = meaning(&draft);
        compose(&mut draft, &exits);
        assert_eq!(meaning(&draft), before);
        assert_eq!(gathers(&draft), [(6, 4)], "channels 2 and 3 of both");
    }

    #[test]
    fn a_join_that_is_longer_by_one_reads_the_one_before() {
        let mut draft = draft(
            3,
            4,
            &[&[(1, 0, 4), (2, 0, 4)], &[(1, 0, 4), (2, 0, 4), (3, 0, 4)]],
        );
        let mut exits = Vec::new();
        read(&mut draft, 4, &mut exits);
        read(&mut draft, 5, &mut exits);
        let before = meaning(&draft);
        compose(&mut draft, &exits);
        assert_eq!(meaning(&draft), before);
        assert_eq!(gathers(&draft), [(4, 2), (5, 2)]);
        assert_eq!(draft.operators[5 - 1].input, TensorId(4));
    }

    #[test]
    fn what_several_read_is_gathered_once() {
        let swapped: &[_] = &[(1, 2, 2), (1, 0, 2)];
        let mut draft = draft(
            2,
            4,
            &[swapped, swapped, &[(2, 0, 4), (1, 2, 2), (1, 0, 2)]],
        );
        let mut exits = Vec::new();
        for tensor in [3, 4, 5] {
            read(&mut draft, tensor, &mut exits);
        }
        let before = meaning(&draft);
        compose(&mut draft, &exits);
        assert_eq!(meaning(&draft), before);
        assert_eq!(gathers(&draft), [(3, 2), (5, 2)]);
    }

    #[test]
    fn halves_that_are_joined_again_are_the_whole() {
        let mut draft = draft(1, 4, &[&[(1, 0, 2)], &[(1, 2, 2)], &[(2, 0, 2), (3, 0, 2)]]);
        let mut exits = Vec::new();
        read(&mut draft, 4, &mut exits);
        compose(&mut draft, &exits);
        assert_eq!(gathers(&draft), []);
        assert_eq!(draft.operators[1].input, TensorId(1));
    }

    #[test]
    fn more_sources_than_a_device_takes_become_a_tree() {
        let all: Vec<_> = (1..=20).map(|tensor| (tensor, 0, 2)).collect();
        let mut draft = draft(20, 2, &[&all]);
        let mut exits = Vec::new();
        read(&mut draft, 21, &mut exits);
        let before = meaning(&draft);
        compose(&mut draft, &exits);
        assert_eq!(meaning(&draft), before);
        let sources = |operator: &DraftOperator| operator.others.len() < GATHER_SOURCES_MAX;
        assert!(draft.operators.iter().all(sources));
        assert_eq!(
            gathers(&draft).len(),
            4,
            "8, 8 and 4 sources, then those three"
        );
    }

    #[test]
    fn an_exit_stays_a_tensor_of_its_own() {
        let mut draft = draft(1, 4, &[&[(1, 0, 4)]]);
        compose(&mut draft, &[TensorId(2)]);
        assert_eq!(gathers(&draft), [(2, 1)]);
    }
}
