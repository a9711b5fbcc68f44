//! Channels picked from tensors.

use punctual_model::{ChannelRun, GATHER_SOURCES_MAX, Gather, Network, OperatorKind, TensorId};

use super::{Builder, Mutable, Operator, Random, Reads, Site, any, below, graph, index, pick};

fn run(source: u8, first: u32, count: u32) -> ChannelRun {
    ChannelRun {
        source,
        first,
        count,
    }
}

impl Builder {
    /// Runs of channels `(source, first, count)`.
    pub fn gather(&mut self, sources: &[TensorId], runs: &[(u8, u32, u32)]) -> TensorId {
        let run = |&(source, first, count): &_| run(source, first, count);
        let runs = runs.iter().map(run).collect();
        self.push(sources, Gather { runs })
    }

    /// All of each source.
    pub fn concat(&mut self, sources: &[TensorId]) -> TensorId {
        let channels = sources.iter().map(|&source| self.shape(source).channels);
        let runs: Vec<_> = (0..).zip(channels).map(|(at, all)| (at, 0, all)).collect();
        self.gather(sources, &runs)
    }

    pub fn slice(&mut self, input: TensorId, first: u32, count: u32) -> TensorId {
        self.gather(&[input], &[(0, first, count)])
    }
}

/// Parts of the input and of other tensors of its rows and columns, some of them twice.
pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let tensors = &site.network.tensors;
    let extent = site.shape.extent();
    let fits = |id: &&TensorId| {
        tensors
            .get(id.index())
            .is_some_and(|t| t.extent() == extent)
            && site.network.quantisation(**id).is_none()
    };
    let fitting: Vec<TensorId> = site.there.iter().filter(fits).copied().collect();
    let others = (0..random.below(3)).filter_map(|_| any(&fitting, random));
    let others: Vec<TensorId> = others.collect();
    let mut runs = Vec::new();
    for (source, id) in (0..).zip([site.input].iter().chain(&others)) {
        let channels = tensors[id.index()].channels;
        let first = pick(&[0, below(channels, random) / 4 * 4], random);
        let rest = channels - first;
        let count = pick(&[rest, 1 + below(rest, random)], random);
        runs.push(run(source, first, count));
    }
    if random.one_in(4) {
        runs.push(runs[0]);
    }
    site.operator(&others, Gather { runs })
}

/// Runs of other sources and channels, repeated, left out, in another order, or one only.
pub(super) fn reread(network: &mut Network, random: &mut Random) -> Option<String> {
    let is_gather = |each: &Operator| matches!(each.kind, OperatorKind::Gather(_));
    let place = graph::find(network, random, is_gather)?;
    let there = graph::written_before(network, place);
    let tensors = &network.tensors;
    let operator = &mut network.stages[place.0].operators[place.1];
    let OperatorKind::Gather(Gather { runs }) = &mut operator.kind else {
        return None;
    };
    let others = &mut operator.others;
    let at = index(runs.len(), random);
    let size = tensors.get(operator.input.index())?.extent();
    let one = runs[at];
    match random.below(9) {
        0 => runs[at].source = index(others.len() + 2, random) as u8,
        1 => runs[at].first = below(one.first + one.count, random),
        2 => runs[at].count = 1 + below(one.count + 1, random),
        3 => runs.insert(at, pick(runs, random)),
        4 if runs.len() > 1 => drop(runs.remove(at)),
        5 => {
            let other = index(runs.len(), random);
            runs.swap(at, other);
        }
        6 => {
            let fits = |id: &TensorId| tensors.get(id.index()).is_some_and(|t| t.extent() == size);
            let fitting: Vec<TensorId> = there.into_iter().filter(fits).collect();
            let source = any(&fitting, random)?;
            others.push(source);
            runs.push(run(others.len() as u8, 0, tensors[source.index()].channels));
        }
        7 => {
            // One run, of any source.
            let source = index(others.len() + 1, random) as u8;
            let lanes = pick(&[1, 4, 8, 16], random);
            let first = lanes * below(3, random);
            *runs = vec![run(source, first, 1 + below(24, random))];
        }
        _ => {
            let cut = 1 + below(one.count, random);
            runs[at].count = cut;
            let rest = one.count.saturating_sub(cut);
            runs.insert(at + 1, run(one.source, one.first + cut, rest));
        }
    }
    Some(format!("{} is {:?}", operator.name, operator.kind))
}

impl Mutable for Gather {
    /// Sources of other rows or columns are the first one again; runs lie in their sources.
    fn fit(&mut self, reads: &mut Reads<'_>) {
        let (tensors, others) = (reads.tensors, &mut *reads.others);
        let extent = |id: TensorId| tensors[id.index()].extent();
        let unlike = others
            .iter_mut()
            .filter(|id| extent(**id) != reads.shape.extent());
        unlike.for_each(|id| *id = reads.input);
        others.truncate(GATHER_SOURCES_MAX - 1);
        for run in &mut self.runs {
            run.source = run.source.min(others.len() as u8);
            let other = usize::from(run.source).checked_sub(1);
            let source = other.map_or(reads.input, |at| others[at]);
            let channels = tensors[source.index()].channels;
            run.first = run.first.min(channels - 1);
            run.count = run.count.clamp(1, channels - run.first);
        }
    }
}
