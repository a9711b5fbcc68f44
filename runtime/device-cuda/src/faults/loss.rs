//! Why a process can no longer use its device. NVIDIA's driver wants the process ended and started again then.

use thiserror::Error;

use super::DeviceError;

/// Why the device is not restarted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Loss {
    /// An error after which the driver refuses everything until the process ends.
    #[error("{0}")]
    Fault(DeviceError),
    /// A call that ends or starts the device has not returned.
    #[error("the driver has not returned from a restart of the device within {limit_ms} ms")]
    Blocked { limit_ms: u64 },
    /// A stage of an engine of others, which nothing of ours can stop.
    #[error(
        "stage {stage} of model {model} was not done after {limit_ns} ns, and an engine's stage cannot be stopped"
    )]
    Unstoppable {
        model: usize,
        stage: usize,
        limit_ns: u64,
    },
    /// Each failed, or no stage was completed after it.
    #[error("{times} restarts of the device failed")]
    Restarts { times: u32 },
}
