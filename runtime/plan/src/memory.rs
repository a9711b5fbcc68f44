//! The memory budget: a commented sum.

use serde::Serialize;

/// All memory that the daemon takes at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryBudget {
    /// One line a purpose.
    pub items: Vec<MemoryItem>,
    /// What may be taken.
    pub limit_bytes: u64,
}

impl MemoryBudget {
    /// The sum of all items.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.items.iter().map(MemoryItem::total_bytes).sum()
    }
}

/// `count` pieces of `bytes` each. Sizes that depend on a device's tensor layout are upper bounds;
/// the device states its real ones when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryItem {
    /// What for.
    pub purpose: Purpose,
    /// Of which model, partition or task.
    pub of: String,
    /// Size of one piece.
    pub bytes: u64,
    /// How many pieces.
    pub count: u64,
}

impl MemoryItem {
    /// All pieces together.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.count)
    }
}

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A model's weights, packed for the device.
    Weights,
    /// Prepared inputs and the activations carried between stages.
    RequestBuffers,
    /// Intermediate tensors of the stage that runs.
    Workspace,
    /// Memory shared with clients: slots and rings.
    Channels,
    /// The intake threads' private copies of crops.
    CropCopies,
    /// The scheduler's tables.
    SchedulerTables,
    /// Stacks of the plan's threads.
    Stacks,
}
