//! How ONNX Runtime's devices are measured and started, and what can be known of them before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use punctual_compile::stage_to_onnx;
use punctual_core::BATCH_MAX;
use punctual_device::profile::on_last_cores;
use punctual_device::{DeviceSpec, PartitionSpec, Provider};
use punctual_model::{Footprint, Network, Promises};
use punctual_platform::{Doorbell, settings};

use crate::{Library, OrtDevice, Places, StartError};

/// Starts [`OrtDevice`]s on cores.
#[derive(Clone)]
pub struct OrtProvider {
    pub library: Library,
    /// Cores to measure on: a partition of `n` gets the last `n` of them ([`on_last_cores`]).
    pub cores: Vec<usize>,
}

impl Provider for OrtProvider {
    type Device = OrtDevice;
    type Error = StartError;

    const UNIT: &'static str = "core";

    /// A preempted stage ends between two of the library's nodes, however long one takes.
    const PROMISES: Promises = Promises {
        preemptible: false,
        allocation_free: false,
        pages: false,
    };

    fn machine(&self) -> String {
        machine(self.library)
    }

    fn clocks(&self) -> String {
        punctual_device_cpu::clocks()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        settings::of_processor(Path::new("/"))
    }

    fn partitions(&self, sizes: &[u8]) -> Result<Vec<PartitionSpec>, StartError> {
        let (units, cores) = (
            sizes.iter().copied().fold(0, u8::saturating_add),
            self.cores.len(),
        );
        on_last_cores(&self.cores, sizes).ok_or(StartError::Units { units, cores })
    }

    fn footprint(&self, network: &Network, batches: &[u8], _: u8) -> Result<Footprint, StartError> {
        footprint(network, batches)
    }

    fn start(&self, spec: &DeviceSpec<'_>, report: Arc<Doorbell>) -> Result<OrtDevice, StartError> {
        OrtDevice::start(self.library, spec, report)
    }
}

/// Of weights and workspaces an estimate: how much the library takes for itself it does not tell.
pub(crate) fn footprint(network: &Network, batches: &[u8]) -> Result<Footprint, StartError> {
    for stage in 0..network.stages.len() {
        stage_to_onnx(network, stage)?;
    }
    let bytes = |floats: usize| (floats * size_of::<f32>()) as u64;
    // As they come in the file, and as the library lays them out again.
    let weights = 2 * bytes(network.weights.len());
    let batch_max = batches.iter().copied().max().unwrap_or(1);
    let elements = |id: punctual_model::TensorId| network.tensors[id.index()].elements();
    let staged = network.stages.iter().map(|stage| {
        let inside = stage.operators.iter().map(|operator| operator.output);
        let taken = stage.inputs.iter().copied().chain(inside);
        taken.map(elements).sum::<u64>()
    });
    let largest = staged.max().unwrap_or(0) as usize;
    Ok(Footprint {
        weights,
        request: bytes(Places::new(network).floats),
        workspace: [bytes(largest) * u64::from(batch_max); BATCH_MAX],
        output_batches: 0,
    })
}

/// What stages are measured on with this library, for the key of a profile.
#[must_use]
pub fn machine(library: Library) -> String {
    format!("{}, {}", punctual_device_cpu::machine(), library.version())
}
