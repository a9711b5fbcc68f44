//! How engines on the GPU are measured and started, what can be known of them before, and why one is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::BATCH_MAX;
use punctual_device::pool::Wait;
use punctual_device::{DeviceSpec, PartitionSpec, Provider};
use punctual_device_cuda::partition::{Mechanism, record};
use punctual_device_cuda::{CudaProvider, Division, Watchdog};
use punctual_model::reference::agreement::Precision;
use punctual_model::{Footprint, Network, Promises};
use punctual_platform::Doorbell;
use thiserror::Error;

use super::brought::BroughtEngines;
use super::device::{EngineDevice, EngineSpec};
use super::execution::OnGpu;
use super::options::GpuEngine;
use crate::error::StartError;
use crate::library::Library;
use crate::provider::footprint;

/// Why an engine cannot be used on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineRefusal {
    #[error("{library} has no {provider}")]
    NoProvider {
        library: String,
        provider: &'static str,
    },
    #[error(
        "{mechanism} masks each launch of ours by itself, and an engine makes its own: stream masks and green contexts \
         keep them to the TPCs"
    )]
    NotMasked { mechanism: Mechanism },
}

/// Starts [`EngineDevice`]s whose partitions are TPCs of one GPU.
#[derive(Clone)]
pub struct EngineProvider {
    library: Library,
    engine: GpuEngine,
    brought: Option<Arc<BroughtEngines>>,
    /// What the GPU is, how it can be divided, and how its leaders wait.
    cuda: CudaProvider,
}

impl EngineProvider {
    /// # Errors
    /// If the library was built without the engine, or its launches would leave their partition.
    pub fn new(
        library: Library,
        engine: GpuEngine,
        cuda: CudaProvider,
    ) -> Result<Self, EngineRefusal> {
        if !engine.is_available() {
            return Err(EngineRefusal::NoProvider {
                library: library.version(),
                provider: engine.provider(),
            });
        }
        let mechanism = cuda.offer.mechanism();
        if mechanism == Mechanism::LaunchMask {
            return Err(EngineRefusal::NotMasked { mechanism });
        }
        Ok(Self {
            library,
            engine,
            brought: None,
            cuda,
        })
    }

    /// The same with engines that the user has built, for all stages.
    #[must_use]
    pub fn with_brought(self, engines: BroughtEngines) -> Self {
        Self {
            brought: Some(Arc::new(engines)),
            ..self
        }
    }

    /// The same with leaders that wait so, and stages that hang by this.
    #[must_use]
    pub fn serving(&self, watchdog: Watchdog, wait: Wait) -> Self {
        Self {
            cuda: CudaProvider {
                watchdog,
                wait,
                ..self.cuda.clone()
            },
            ..self.clone()
        }
    }

    /// The library and the execution provider, and which engines it is given.
    #[must_use]
    pub fn library(&self) -> String {
        let (version, provider) = (self.library.version(), self.engine.provider());
        match &self.brought {
            Some(brought) => format!("{version}, {provider}, engines {}", brought.hash()),
            None => format!("{version}, {provider}"),
        }
    }
}

impl Provider for EngineProvider {
    type Device = EngineDevice;
    type Error = StartError;

    const UNIT: &'static str = CudaProvider::UNIT;

    /// A stage that has begun runs to its end.
    const PROMISES: Promises = Promises {
        preemptible: false,
        allocation_free: false,
        pages: false,
    };

    /// TensorFloat-32 has the mantissa of halves, which TensorRT may choose as well.
    const PRECISION: Precision = Precision::Half;

    fn machine(&self) -> String {
        format!("{}, {}", self.cuda.machine(), self.library())
    }

    fn clocks(&self) -> String {
        self.cuda.clocks()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.cuda.settings()
    }

    fn partitions(&self, sizes: &[u8]) -> Result<Vec<PartitionSpec>, StartError> {
        Ok(self.cuda.partitions(sizes)?)
    }

    /// An estimate, as on cores, with a session for each batch size.
    fn footprint(&self, network: &Network, batches: &[u8], _: u8) -> Result<Footprint, StartError> {
        if let Some(brought) = &self.brought {
            for stage in 0..network.stages.len() {
                batches
                    .iter()
                    .try_for_each(|&batch| brought.check(network, stage, batch))?;
            }
        }
        let of_one = footprint(network, batches)?;
        let sessions = batches.len().clamp(1, BATCH_MAX) as u64;
        Ok(Footprint {
            weights: of_one.weights * sessions,
            ..of_one
        })
    }

    fn start(
        &self,
        spec: &DeviceSpec<'_>,
        report: Arc<Doorbell>,
    ) -> Result<EngineDevice, StartError> {
        let CudaProvider {
            driver,
            ordinal,
            offer,
            watchdog,
            wait,
            ..
        } = &self.cuda;
        let gpu = driver.device(*ordinal)?;
        let partitioner = offer.partitioner(gpu)?;
        let ranges: Vec<_> = spec.partitions.iter().map(|p| p.tpcs.clone()).collect();
        for range in &ranges {
            // Before anything is taken: the plan is void if it is not granted.
            partitioner.grant(range.clone())?;
        }
        let engine = EngineSpec {
            gpu,
            ordinal: *ordinal,
            division: Division::Tpcs {
                partitioner: Arc::new(partitioner),
                ranges,
            },
            engine: self.engine,
            cache: record::folder().join("tensorrt"),
            brought: self.brought.clone(),
            watchdog: watchdog.clone(),
            wait: *wait,
            execution: Arc::new(OnGpu { ordinal: *ordinal }),
        };
        EngineDevice::start(self.library, spec, &engine, report)
    }
}
