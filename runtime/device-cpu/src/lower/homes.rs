//! Tensors that lie inside others, so that concatenations and slices move nothing.
//!
//! A source of a concatenation that begins with one of the result's blocks is written straight into the
//! result's memory; a slice that begins with a block is read where it is. Concatenations that extend
//! each other, as in DenseNet, so come to share one buffer. All tensors of one memory have its halo.
//!
//! Who lies where is known by names of tensors alone: places are planned afterwards.

use std::collections::BTreeSet;

use punctual_model::{Border, ChannelRun, Network, Operator, OperatorKind, Stage, TensorId};

/// Which tensors lie inside which.
pub(super) struct Homes {
    inside: Vec<Option<Inside>>,
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
        if let [run] = runs
            && let source = run.tensor(operator.reads())
            && (run.first as usize).is_multiple_of(lanes)
            // A stage has a step at least.
            && computes(stage)
            && source != network.input_tensor()
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
