//! Tensors that lie inside others, so that concatenations and slices move nothing.
//!
//! A source of a concatenation that begins with one of the result's blocks is written straight into the
//! result's memory; a slice that begins with a block is read where it is. Concatenations that extend
//! each other, as in DenseNet, so come to share one buffer. All tensors of one memory have its halo.
//! A slice of the network's input, as of pictures that are stacked, is read as the planes that it is.
//!
//! Who lies where is known by names of tensors alone: places are planned afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use punctual_model::{
    Border, ChannelRun, Exit, Network, Operator, OperatorKind, Stage, TensorId, with_operator,
};

use super::Lower;

/// Which tensors lie inside which.
pub(super) struct Homes {
    inside: Vec<Option<Inside>>,
    /// Of the tensors that are planes of the network's input the first one.
    planes: BTreeMap<TensorId, usize>,
    /// Of each tensor's memory; of those inside another only valid through its root.
    borders: Vec<Border>,
    /// Tensors that are carried between stages. They are never inside another, and only their own
    /// readers widen their halo: models that share stages must agree on where these lie.
    carried: BTreeSet<TensorId>,
}

/// Where a tensor lies in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    pub(super) tensor: TensorId,
    /// The first of its blocks.
    pub(super) block: usize,
}

impl Homes {
    /// Finds them for blocks of `lanes` channels.
    pub(super) fn find(network: &Network, lanes: usize) -> Self {
        let outputs = network.stages.iter().flat_map(|stage| &stage.outputs);
        let mut homes = Self {
            inside: vec![None; network.tensors.len()],
            planes: BTreeMap::from([(network.input_tensor(), 0)]),
            borders: network.borders(),
            carried: outputs.copied().collect(),
        };
        for stage in &network.stages {
            for operator in &stage.operators {
                if let OperatorKind::Gather(gather) = &operator.kind {
                    homes.settle(network, stage, operator, &gather.runs, lanes);
                }
            }
        }
        homes
    }

    /// Gives the operands of a gather a home in each other where that spares it work.
    fn settle(
        &mut self,
        network: &Network,
        stage: &Stage,
        operator: &Operator,
        runs: &[ChannelRun],
        lanes: usize,
    ) {
        let output = operator.output;
        let input = network.input_tensor();
        if let [run] = runs
            && run.tensor(operator.reads()) == input
            && !self.carried.contains(&output)
            && computes(stage)
            && takes_planes(network, stage, output)
        {
            let zeros = self.borders[output.index()].zeros;
            let around = &mut self.borders[input.index()].zeros;
            // Models that share stages share the first.
            if zeros <= *around || ptr::eq(stage, &network.stages[0]) {
                *around = zeros.max(*around);
                self.planes.insert(output, run.first as usize);
                return;
            }
        }
        if let [run] = runs
            && let source = run.tensor(operator.reads())
            && (run.first as usize).is_multiple_of(lanes)
            // A stage has a step at least.
            && computes(stage)
            && source != input
            && !self.carried.contains(&output)
        {
            let block = run.first as usize / lanes;
            let tensor = source;
            self.join(output, Inside { tensor, block });
            return;
        }
        let written: BTreeSet<TensorId> = stage.operators.iter().map(|each| each.output).collect();
        for (run, first) in placed(runs) {
            let source = run.tensor(operator.reads());
            let channels = network.tensors[source.0 as usize].channels;
            let whole = (run.first, run.count) == (0, channels);
            let end = first + run.count as usize;
            let last = end == network.tensors[output.0 as usize].channels as usize;
            let aligned = first.is_multiple_of(lanes) && (end.is_multiple_of(lanes) || last);
            let free = self.inside[source.0 as usize].is_none() && !self.carried.contains(&source);
            if whole && aligned && free && written.contains(&source) {
                let block = first / lanes;
                let tensor = output;
                self.join(source, Inside { tensor, block });
            }
        }
    }

    /// Puts a tensor that has no home yet, with all that lies in it, into another, unless their halos cannot agree.
    fn join(&mut self, tensor: TensorId, home: Inside) {
        let root = self.root(home.tensor).tensor;
        let (own, theirs) = (self.borders[tensor.index()], self.borders[root.index()]);
        let both = Border {
            zeros: own.around().max(theirs.around()),
            plain: own.plain || theirs.plain,
        };
        let widens = both.zeros > theirs.around();
        if (both.plain && both.zeros > 0) || (widens && self.carried.contains(&root)) {
            return;
        }
        self.borders[root.index()] = both;
        self.inside[tensor.index()] = Some(home);
    }

    /// The tensor whose memory it is, and the first of its blocks there.
    pub(super) fn root(&self, tensor: TensorId) -> Inside {
        let mut at = Inside { tensor, block: 0 };
        while let Some(home) = self.inside[at.tensor.0 as usize] {
            at = Inside {
                tensor: home.tensor,
                block: at.block + home.block,
            };
        }
        at
    }

    /// Rows or columns of zeros around a tensor.
    pub(super) fn halo(&self, tensor: TensorId) -> usize {
        self.borders[self.root(tensor).tensor.index()].around() as usize
    }

    /// The first of the planes of the network's input that the tensor is; none if it lies in blocks.
    pub(super) fn first_plane(&self, tensor: TensorId) -> Option<usize> {
        self.planes.get(&tensor).copied()
    }

    /// Whether the gather's result is where it is read.
    pub(super) fn is_view(&self, operator: &Operator) -> bool {
        let home = self.inside[operator.output.index()];
        home.is_some_and(|home| operator.reads().any(|read| read == home.tensor))
    }

    /// Whether a run of a gather that goes to channel `first` of its result is there already.
    pub(super) fn is_in_place(
        &self,
        operator: &Operator,
        run: &ChannelRun,
        first: usize,
        lanes: usize,
    ) -> bool {
        let home = Inside {
            tensor: operator.output,
            block: first / lanes,
        };
        self.inside[run.tensor(operator.reads()).0 as usize] == Some(home)
    }
}

/// Whether all that read a tensor of the stage would take it as planes.
fn takes_planes(network: &Network, stage: &Stage, tensor: TensorId) -> bool {
    let channels = network.tensors[tensor.index()].channels as usize;
    let takes = |operator: &Operator| {
        !operator.others.contains(&tensor)
            && with_operator!(&operator.kind, kind => kind.reads_planes(channels))
    };
    let mut exits = stage.exit.iter().flat_map(Exit::reads);
    let readers = stage.operators.iter();
    let mut readers = readers.filter(|operator| operator.reads().any(|read| read == tensor));
    exits.all(|read| read != tensor) && readers.all(takes)
}

/// Whether some operator does more than to move values.
fn computes(stage: &Stage) -> bool {
    let moves = |operator: &Operator| matches!(operator.kind, OperatorKind::Gather(_));
    !stage.operators.iter().all(moves)
}

/// Each run with the channel of the result at which it begins.
pub(super) fn placed(runs: &[ChannelRun]) -> impl Iterator<Item = (&ChannelRun, usize)> {
    runs.iter().scan(0, |next, run| {
        let first = *next;
        *next += run.count as usize;
        Some((run, first))
    })
}
