//! Where tensors lie: in the request buffer or in the workspace, planned statically.

use std::collections::BTreeMap;

use punctual_model::memory::{self, Lifetime};
use punctual_model::{Exit, Stage};

use super::lowering::{Action, Lowering};
use punctual_device::regions::LINE;

use crate::executable::Value;
use crate::shared::{Space, Span};

/// Where the values of one stage lie.
pub(super) struct Places<'l> {
    lowering: &'l Lowering<'l>,
    /// The stage's memories in the workspace, by the value that is there alone or has the others inside.
    local: BTreeMap<Value, Span>,
    /// Floats of a member's share of the workspace.
    pub(super) total: usize,
}

impl<'l> Places<'l> {
    /// Plans the workspace of a stage that does `actions` in this order.
    pub(super) fn plan(lowering: &'l Lowering<'l>, stage: &Stage, actions: &[Action<'_>]) -> Self {
        let mut used: BTreeMap<Value, Lifetime> = BTreeMap::new();
        let mut touch = |value: Value, at: usize| {
            let memory = lowering.memory(value);
            if lowering.carried_at(memory).is_none() {
                let at = at as u32;
                let lifetime = used.entry(memory).or_insert(Lifetime {
                    first: at,
                    last: at,
                    size: lowering.layout(memory).len(),
                });
                lifetime.last = at;
            }
        };
        for (at, action) in actions.iter().enumerate() {
            touch(action.made(), at);
            let reads = lowering.reads(action);
            reads.for_each(|value| touch(value, at));
        }
        // What the exit reads is read after the last step.
        let exit = stage.exit.iter().flat_map(Exit::reads);
        exit.for_each(|tensor| touch(lowering.value(tensor), actions.len()));
        let buffers: Vec<Lifetime> = used.values().copied().collect();
        // The planner counts in any unit; here it is floats, aligned to cache lines.
        let plan = memory::plan(&buffers, LINE);
        let span = |(lifetime, &start): (&Lifetime, &usize)| Span {
            space: Space::Workspace,
            start,
            len: lifetime.size,
        };
        let spans = buffers.iter().zip(&plan.offsets).map(span);
        Self {
            lowering,
            local: used.into_keys().zip(spans).collect(),
            total: plan.total,
        }
    }

    pub(super) fn of(&self, value: Value) -> Span {
        let memory = self.lowering.memory(value);
        let local = self.local.get(&memory).copied();
        let memory = local.or_else(|| self.lowering.carried_at(memory));
        let memory =
            memory.expect("a valid stage reads what it has written or what is carried to it");
        let layout = self.lowering.layout(value);
        Span {
            start: memory.start + self.lowering.block(value) * layout.block_stride(),
            len: layout.len(),
            ..memory
        }
    }
}
