//! The GPU, for plans that ask for a part of it: looked at before the plan is made, never otherwise.

use punctual_device::{Footprint, Provider};
use punctual_device_cuda::driver::{Driver, OpenError};
use punctual_device_cuda::partition::offer::{self, How, Offer, OfferError};
use punctual_device_cuda::partition::{Program, StreamError, record};
use punctual_device_cuda::{CudaProvider, PAGE_BYTES, StartError, Watchdog};
use punctual_model::Network;
use punctual_plan::{
    BATCH_SIZES, CudaFootprint, DeviceKind, GpuHost, ModelNeeds, Needs, PlanInputs,
};

/// Of the driver's GPUs, the one that is used.
pub const ORDINAL: u32 = 0;

/// Why the GPU that a plan asks for cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// There is no driver, or no such device.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device does not say what it is.
    #[error("the GPU cannot be looked at: {0}")]
    Look(#[from] OfferError),
    /// A network has no form on it.
    #[error("package {package:?} cannot be run by the GPU: {source}")]
    Lower {
        /// The package, as the manifest names it.
        package: String,
        source: StartError,
    },
    /// The mechanism that was chosen does not come up.
    #[error("the GPU's TPCs cannot be divided: {0}; try again with `punctual board detect`")]
    Divide(#[from] StreamError),
    #[error("the GPU's device cannot start: {0}")]
    Start(#[from] StartError),
}

/// A GPU that was looked at.
#[derive(Clone)]
pub struct Gpu {
    pub driver: Driver,
    /// What it is, and how it can be divided.
    pub offer: Offer,
}

impl Gpu {
    /// Opens the driver and finds out how the device can be divided. That takes seconds the first
    /// time on a machine, if the program that tries mechanisms is there.
    pub fn look() -> Result<Self, GpuError> {
        let driver = Driver::open()?;
        let how = How::usual(Program::punctual(), Some(record::folder()));
        let offer = offer::look(driver.device(ORDINAL)?, ORDINAL, &how)?;
        Ok(Self { driver, offer })
    }

    /// What starts devices on it; a partition that is measured is led by a core.
    #[must_use]
    pub fn provider(&self, leader: usize) -> CudaProvider {
        CudaProvider {
            driver: self.driver,
            ordinal: ORDINAL,
            offer: self.offer.clone(),
            leader,
            watchdog: Watchdog::default(),
        }
    }

    /// What plans need to know of it.
    #[must_use]
    pub fn host(&self) -> GpuHost {
        let facts = &self.offer.facts;
        GpuHost {
            machine: self.offer.machine(),
            clocks: self.offer.clocks(),
            tpcs: self.offer.tpcs(),
            granularity: self.offer.granularity(),
            enforced: self.offer.is_enforced(),
            memory_bytes: facts.memory_bytes,
            integrated: facts.integrated,
            page_bytes: u64::from(PAGE_BYTES),
        }
    }

    /// What a network takes on it: on the largest of the partitions that `needs` names.
    fn footprint(
        &self,
        network: &Network,
        needs: &ModelNeeds,
    ) -> Result<CudaFootprint, StartError> {
        let mut footprint = CudaFootprint {
            weight_pages: 0,
            request_bytes: 0,
            workspace_bytes: [0; BATCH_SIZES.len()],
        };
        for units in &needs.units {
            let taken = self
                .provider(0)
                .footprint(network, &needs.batches, *units)?;
            footprint = larger(of_gpu(&taken), Some(footprint));
        }
        Ok(footprint)
    }
}

/// In pages, and at the batch sizes that plans have.
fn of_gpu(footprint: &Footprint) -> CudaFootprint {
    CudaFootprint {
        weight_pages: footprint.weights.div_ceil(u64::from(PAGE_BYTES)) as u32,
        request_bytes: footprint.request,
        workspace_bytes: BATCH_SIZES.map(|batch| footprint.workspace[usize::from(batch) - 1]),
    }
}

/// Looks at the GPU if the manifest asks for a part of it, and notes what plans need to know. A
/// manifest that is wrong, or for a board without a GPU, is for the plan to refuse.
pub fn look_if_needed(inputs: &mut PlanInputs) -> Result<Option<Gpu>, GpuError> {
    let needs = Needs::of_manifest(
        &inputs.manifest_text,
        &inputs.manifest_path,
        &inputs.policies,
    );
    let on_gpu = needs.map(|needs| needs.models).unwrap_or_default();
    let on_gpu = on_gpu.into_iter().filter(|m| m.device == DeviceKind::Cuda);
    let on_gpu: Vec<ModelNeeds> = on_gpu.collect();
    if on_gpu.is_empty() || inputs.board.gpu.is_none() {
        return Ok(None);
    }
    let gpu = Gpu::look()?;
    inputs.host.gpu = Some(gpu.host());
    for input in &mut inputs.packages {
        let Ok(package) = &input.package else {
            continue;
        };
        for needs in on_gpu.iter().filter(|needs| needs.package == input.path) {
            let footprint = gpu.footprint(package.network(), needs);
            let footprint = footprint.map_err(|source| GpuError::Lower {
                package: input.path.clone(),
                source,
            })?;
            input.cuda = Some(larger(footprint, input.cuda));
        }
    }
    Ok(Some(gpu))
}

fn larger(one: CudaFootprint, other: Option<CudaFootprint>) -> CudaFootprint {
    let other = other.unwrap_or(one);
    let mut larger = one;
    for (bytes, others) in larger.workspace_bytes.iter_mut().zip(other.workspace_bytes) {
        *bytes = (*bytes).max(others);
    }
    larger
}
