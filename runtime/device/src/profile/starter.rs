//! Who starts the device that is measured: stages are measured alike on every device.

use std::sync::Arc;

use punctual_core::{ModelId, Nanos, StageId};
use punctual_model::{Network, SolutionMemory};
use punctual_platform::{Doorbell, Missing};
use thiserror::Error;

use crate::device::Device;
use crate::request_buffers::InputBuffers;

/// Starts devices of one partition, of sizes that are asked for.
pub trait Starter {
    /// What it starts.
    type Device: Measured;

    /// Why it cannot, or why a measurement did not work.
    type Error: From<StageFailed>;

    /// A compute unit, for people: `core`, `TPC`.
    const UNIT: &'static str;

    /// What is measured, for the key of the profile:
    /// [`ProfileKey::machine`](punctual_model::ProfileKey::machine).
    fn machine(&self) -> String;

    /// What governs its clocks: [`ProfileKey::clocks`](punctual_model::ProfileKey::clocks).
    fn clocks(&self) -> String;

    /// A device with the network as model 0 for `batches`, one partition of `units` compute units,
    /// and so many request buffers; it rings `bell`.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start(
        &self,
        network: &Network,
        batches: &[u8],
        units: u8,
        request_buffers: u16,
        bell: Arc<Doorbell>,
    ) -> Result<Self::Device, Self::Error>;
}

/// A device that can be measured.
pub trait Measured: Device {
    /// The request buffers' input areas.
    fn input_buffers(&self) -> InputBuffers;

    /// How long a preemption would have waited at most for the last run of a stage: between two
    /// places at which it can be stopped. None if that is not known: no longer than the stage.
    fn last_longest_step(&self, model: ModelId, stage: StageId) -> Option<Nanos>;

    /// What the machine did not grant its threads.
    fn missing(&self) -> &[Missing];

    /// What a model's specialised solutions take.
    fn solution_memory(&self, model: ModelId) -> SolutionMemory {
        let _ = model;
        SolutionMemory::default()
    }
}

/// A stage failed while it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stage {stage} at batch {batch} failed while it was measured; please report this")]
pub struct StageFailed {
    /// Which stage.
    pub stage: u8,
    /// At which batch size.
    pub batch: u8,
}
