//! How CPU devices are measured and started, and what can be known of them before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use punctual_core::BATCH_MAX;
use punctual_device::profile::{Request, on_last_cores};
use punctual_device::{DeviceSpec, PartitionSpec, Provider};
use punctual_kernels::Isa;
use punctual_model::{Footprint, Network, Promises, SolutionChoice};
use punctual_platform::{Doorbell, settings};

use crate::{CpuDevice, StartError, image_layout, machine, solutions};

/// Starts [`CpuDevice`]s with the best kernels that this processor has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuProvider {
    /// Cores to measure on: a partition of `n` gets the last `n` of them ([`on_last_cores`]).
    pub cores: Vec<usize>,
}

impl Provider for CpuProvider {
    type Device = CpuDevice;
    type Error = StartError;

    const UNIT: &'static str = "core";

    const PROMISES: Promises = Promises {
        preemptible: true,
        allocation_free: true,
        pages: true,
    };

    const POISONS: bool = true;

    fn machine(&self) -> String {
        machine::machine()
    }

    fn clocks(&self) -> String {
        machine::clocks()
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

    /// The same on any number of cores, but for the scratch memory of specialised solutions.
    fn footprint(&self, network: &Network, _: &[u8], _: u8) -> Result<Footprint, StartError> {
        let bytes = |floats: u64| floats * size_of::<f32>() as u64;
        let layout = image_layout(Isa::detect(), network)?;
        let share = layout.stages.iter().map(|stage| stage.workspace_floats);
        let share = bytes(share.max().unwrap_or(0));
        let mut workspace = [0; BATCH_MAX];
        for (members, workspace) in (1..).zip(&mut workspace) {
            *workspace = share * members;
        }
        Ok(Footprint {
            weights: bytes(layout.packed_floats()),
            request: bytes(layout.request_floats),
            workspace,
            output_batches: 0,
        })
    }

    fn choose(
        &self,
        network: &Network,
        request: &Request,
        progress: &mut dyn FnMut(u8),
    ) -> Result<Vec<SolutionChoice>, StartError> {
        solutions::choose(&self.cores, network, request, progress)
    }

    fn start(&self, spec: &DeviceSpec<'_>, report: Arc<Doorbell>) -> Result<CpuDevice, StartError> {
        CpuDevice::start(spec, report)
    }
}
