//! The GPU, for plans that ask for a part of it: looked at before the plan is made, never otherwise.

use std::collections::BTreeMap;

use punctual_device::Provider;
use punctual_device::pool::Wait;
use punctual_device_cuda::driver::{Driver, OpenError};
use punctual_device_cuda::kernel_padding::KernelPaddingSpec;
use punctual_device_cuda::partition::offer::{self, How, Offer, OfferError};
use punctual_device_cuda::partition::{Program, StreamError, record};
use punctual_device_cuda::{CudaProvider, PAGE_BYTES, StartError, Watchdog};
use punctual_plan::{GpuHost, LeaderWait};

/// Of the driver's GPUs, the one that is used.
pub const ORDINAL: u32 = 0;

/// Between two looks of a leader that sleeps, in nanoseconds.
const SLEEP_NS: u64 = 50_000;

/// How leaders wait, as plans say it.
#[must_use]
pub const fn wait(leaders: LeaderWait) -> Wait {
    match leaders {
        LeaderWait::Spin => Wait::Spin,
        LeaderWait::Sleep => Wait::Sleep { ns: SLEEP_NS },
    }
}

/// Why the GPU that a plan asks for cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// There is no driver, or no such device.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device does not say what it is.
    #[error("the GPU cannot be queried: {0}")]
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

/// A measurement has no deadline: a stage that takes long shows in the figures, and is not given up.
const MEASURING: Watchdog = Watchdog {
    multiple: 8,
    longest_ns: Vec::new(),
    unknown_ns: 20_000_000_000,
    grace_ns: 5_000_000_000,
};

impl Gpu {
    /// Opens the driver and finds out how the device can be divided. That takes seconds the first
    /// time on a machine, if the program that tries mechanisms is there.
    pub fn look() -> Result<Self, GpuError> {
        let driver = Driver::open()?;
        let how = How::usual(Program::punctual(), Some(record::folder()));
        let how = how.map_err(OfferError::from)?;
        let offer = offer::look(driver.device(ORDINAL)?, ORDINAL, &how)?;
        Ok(Self { driver, offer })
    }

    /// What starts devices on it; these cores lead partitions that are measured.
    #[must_use]
    pub fn provider(&self, leaders: Vec<usize>) -> CudaProvider {
        CudaProvider {
            driver: self.driver,
            ordinal: ORDINAL,
            offer: self.offer.clone(),
            leaders,
            watchdog: MEASURING,
            kernel_padding: KernelPaddingSpec::default(),
            wait: Wait::Spin,
            look_stride: None,
            shares_context: false,
        }
    }

    /// What plans need to know of it.
    #[must_use]
    pub fn host(&self) -> GpuHost {
        let facts = &self.offer.facts;
        let machine = |leader_wait| {
            let provider = CudaProvider {
                wait: wait(leader_wait),
                ..self.provider(Vec::new())
            };
            provider.machine()
        };
        GpuHost {
            machine: machine(LeaderWait::Spin),
            machine_asleep: machine(LeaderWait::Sleep),
            clocks: self.offer.clocks(),
            settings: self.offer.settings(),
            tpcs: self.offer.tpcs(),
            granularity: self.offer.granularity(),
            enforced: self.offer.is_enforced(),
            redivides: self.offer.mechanism().redivides(),
            mechanism: self.offer.mechanism().to_string(),
            memory_bytes: facts.memory_bytes,
            integrated: facts.integrated,
            page_bytes: u64::from(PAGE_BYTES),
            engines: BTreeMap::new(),
        }
    }
}
