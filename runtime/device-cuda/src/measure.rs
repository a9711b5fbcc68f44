//! Measuring stages on the GPU: what `punctual profile` starts, and what it calls the machine.
//!
//! Not yet run on hardware.

use std::sync::Arc;

use punctual_core::{ModelId, Nanos, StageId};
use punctual_device::profile::{Measured, PRIORITY, StageFailed, Starter};
use punctual_device::{DeviceSpec, InputBuffers, ModelSpec, PartitionSpec};
use punctual_model::Network;
use punctual_platform::{Doorbell, Missing};
use thiserror::Error;

use crate::driver::{Driver, OpenError};
use crate::partition::StreamError;
use crate::partition::offer::Offer;
use crate::queue::QueueSpec;
use crate::{CudaDevice, CudaSpec, Division, StartError};

/// Starts CUDA devices of one partition: the first TPCs.
#[derive(Clone)]
pub struct CudaStarter {
    pub driver: Driver,
    pub ordinal: u32,
    /// What it is, and how it can be divided.
    pub offer: Offer,
    /// The core of the partition's leader.
    pub leader: usize,
}

/// Why nothing was measured on the GPU.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// There is no such GPU any more.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A partition of that size is not granted.
    #[error("the GPU's TPCs cannot be divided: {0}")]
    Divide(#[from] StreamError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Failed(#[from] StageFailed),
}

impl Starter for CudaStarter {
    type Device = CudaDevice;
    type Error = MeasureError;

    const UNIT: &'static str = "TPC";

    fn machine(&self) -> String {
        self.offer.machine()
    }

    fn clocks(&self) -> String {
        self.offer.clocks()
    }

    fn start(
        &self,
        network: &Network,
        batches: &[u8],
        units: u8,
        request_buffers: u16,
        bell: Arc<Doorbell>,
    ) -> Result<CudaDevice, MeasureError> {
        let gpu = self.driver.device(self.ordinal)?;
        let partitioner = self.offer.partitioner(gpu)?;
        let tpcs = 0..u16::from(units);
        partitioner.grant(tpcs.clone())?;
        let spec = DeviceSpec {
            models: &[ModelSpec::resident(network, batches)],
            partitions: &[PartitionSpec {
                name: "profile".to_owned(),
                cores: vec![self.leader],
                priority: Some(PRIORITY),
            }],
            request_buffers,
            cache: None,
        };
        let cuda = CudaSpec {
            ordinal: self.ordinal,
            queue: QueueSpec::fitting(gpu).map_err(StartError::from)?,
            division: Division::Tpcs {
                partitioner: Arc::new(partitioner),
                ranges: vec![tpcs],
            },
            ..CudaSpec::default()
        };
        Ok(CudaDevice::start(self.driver, &spec, &cuda, bell)?)
    }
}

impl Measured for CudaDevice {
    fn input_buffers(&self) -> InputBuffers {
        self.input_buffers()
    }

    /// A stage stops at its next block or tile, and how long that takes is not known from a run that was not stopped.
    fn last_longest_step(&self, _: ModelId, _: StageId) -> Option<Nanos> {
        None
    }

    fn missing(&self) -> &[Missing] {
        self.missing()
    }
}
