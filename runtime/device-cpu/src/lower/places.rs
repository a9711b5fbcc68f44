//! Where tensors lie: in the request buffer or in the workspace, planned statically.

use std::collections::BTreeMap;

use punctual_kernels::BlockedLayout;
use punctual_model::memory::{self, Lifetime};
use punctual_model::{Network, OperatorKind, Stage, TensorId};

use super::Lowering;
use punctual_device::regions::LINE;

use crate::shared::{Space, Span};

/// What an operator reads or writes: a tensor of the network, or the blocked copy of its input
/// that stages make for operators which cannot read planes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Tensor(TensorId),
    BlockedInput,
}

/// Where the values of one stage lie.
pub(super) struct Places<'l> {
    lowering: &'l Lowering<'l>,
    /// The stage's memories in the workspace.
    local: BTreeMap<TensorId, Span>,
    blocked_input: Option<Span>,
    /// Floats of a member's share of the workspace.
    pub(super) total: usize,
}

impl<'l> Places<'l> {
    pub(super) fn plan(lowering: &'l Lowering<'l>, stage: &Stage, needs_copy: bool) -> Self {
        // The copy of the input is the first step, if there is one, and shifts all others.
        let shift = u32::from(needs_copy);
        let mut local: BTreeMap<TensorId, Lifetime> = BTreeMap::new();
        for tensor in stage.lifetimes() {
            let root = lowering.homes.root(tensor.tensor).tensor;
            if lowering.carried[root.0 as usize].is_some() {
                continue;
            }
            // A memory is in use as long as any tensor in it.
            let size = lowering.layouts[root.0 as usize].len();
            let own = tensor.with_size(size);
            let all = local.entry(root).or_insert(own);
            all.first = all.first.min(own.first);
            all.last = all.last.max(own.last);
        }
        let mut buffers: Vec<Lifetime> = local
            .values()
            .map(|buffer| Lifetime {
                first: buffer.first + shift,
                last: buffer.last + shift,
                ..*buffer
            })
            .collect();
        if needs_copy {
            buffers.push(Lifetime {
                first: 0,
                last: stage.operators.len() as u32,
                size: lowering.blocked_input.len(),
            });
        }
        // The planner counts in any unit; here it is floats, aligned to cache lines.
        let plan = memory::plan(&buffers, LINE);
        let span = |(buffer, &start): (&Lifetime, &usize)| Span {
            space: Space::Workspace,
            start,
            len: buffer.size,
        };
        let mut spans: Vec<Span> = buffers.iter().zip(&plan.offsets).map(span).collect();
        let blocked_input = needs_copy.then(|| spans.pop()).flatten();
        Self {
            lowering,
            local: local.into_keys().zip(spans).collect(),
            blocked_input,
            total: plan.total,
        }
    }

    pub(super) fn of(&self, value: Value) -> Span {
        const THERE: &str = "a valid stage reads what it has written or what is carried to it";
        let tensor = match value {
            Value::BlockedInput => return self.blocked_input.expect(THERE),
            Value::Tensor(tensor) => tensor,
        };
        let root = self.lowering.homes.root(tensor);
        let memory = self.local.get(&root.tensor).copied();
        let memory = memory.or(self.lowering.carried[root.tensor.0 as usize]);
        let memory = memory.expect(THERE);
        let layout = self.lowering.layouts[tensor.0 as usize];
        Span {
            start: memory.start + root.block * layout.block_stride(),
            len: layout.len(),
            ..memory
        }
    }

    pub(super) fn planes(&self) -> Span {
        Span {
            space: Space::Request,
            start: 0,
            len: self.lowering.input.len(),
        }
    }
}

/// For each tensor the widest halo that a convolution wants around it.
pub(super) fn halos(network: &Network) -> Vec<usize> {
    let mut halos = vec![0; network.tensors.len()];
    for operator in network.stages.iter().flat_map(|stage| &stage.operators) {
        let wanted = match operator.kind {
            OperatorKind::Conv2d { window, .. } => window.halo(),
            // Its kernels read all of their zeros.
            OperatorKind::QuantisedConv2d { window, .. } => window.padding.largest(),
            _ => 0,
        };
        let halo = &mut halos[operator.input.0 as usize];
        *halo = (*halo).max(wanted);
    }
    halos
}

/// Places in the request buffer, and its size: the input first and the vectors, whose zeros nothing may overwrite,
/// then what is carried, planned over stages as a stage's tensors are over operators.
pub(super) fn carried(
    network: &Network,
    input_floats: usize,
    layouts: &[BlockedLayout],
) -> (Vec<Option<Span>>, usize) {
    let last_reader = |tensor: &TensorId| {
        let reads = |stage: &Stage| stage.inputs.contains(tensor);
        network.stages.iter().rposition(reads)
    };
    let mut tensors = Vec::new();
    let mut lifetimes = Vec::new();
    for (first, stage) in network.stages.iter().enumerate() {
        for tensor in &stage.outputs {
            tensors.push(tensor.0 as usize);
            lifetimes.push(Lifetime {
                first: first as u32,
                last: last_reader(tensor).unwrap_or(first) as u32,
                size: layouts[tensor.0 as usize].len(),
            });
        }
    }
    let plan = memory::plan(&lifetimes, LINE);
    let mut base = input_floats.next_multiple_of(LINE);
    let mut places = vec![None; layouts.len()];
    for vector in network.input_tensors().skip(1) {
        let len = layouts[vector.index()].len();
        places[vector.index()] = Some(Span {
            space: Space::Request,
            start: base,
            len,
        });
        base += len.next_multiple_of(LINE);
    }
    for ((tensor, lifetime), offset) in tensors.into_iter().zip(&lifetimes).zip(&plan.offsets) {
        places[tensor] = Some(Span {
            space: Space::Request,
            start: base + offset,
            len: lifetime.size,
        });
    }
    (places, base + plan.total)
}
