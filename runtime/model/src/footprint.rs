//! What plans need to know of a device: what a network takes on it, and what it can be relied upon for.

use punctual_core::BATCH_MAX;

/// What a network takes on a device, in bytes, as the device would place it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Weights, packed.
    pub weights: u64,
    /// What one request carries from stage to stage.
    pub request: u64,
    /// A partition's workspace for batches of up to `n` members, at `n - 1`.
    pub workspace: [u64; BATCH_MAX],
    /// Batches whose outputs a partition has memory for. 0: stages write them where clients read them.
    pub output_batches: u32,
}

impl Footprint {
    /// The workspace for batches of up to `members`.
    #[must_use]
    pub fn workspace_for(&self, members: u8) -> u64 {
        let last = usize::from(members).clamp(1, BATCH_MAX) - 1;
        self.workspace[last]
    }

    /// Enough for this one and for the other.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let mut larger = Self {
            weights: self.weights.max(other.weights),
            request: self.request.max(other.request),
            workspace: self.workspace,
            output_batches: self.output_batches.max(other.output_batches),
        };
        for (bytes, others) in larger.workspace.iter_mut().zip(other.workspace) {
            *bytes = (*bytes).max(others);
        }
        larger
    }
}

/// What a kind of device can be relied upon for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// A preempted best-effort stage stops within a bound that is shorter than the stage.
    pub preemptible: bool,
    /// Running a stage allocates nothing.
    pub allocation_free: bool,
    /// Weights can come and go in pages.
    pub pages: bool,
}
