//! The CUDA device: stages as static lists of launches on partitions of TPCs.

pub mod bench;
mod blueprint;
pub mod cold_start;
mod counters;
mod device;
pub mod driver;
mod engine;
pub mod filling;
mod grounds;
mod health;
pub mod host;
mod installation;
mod keeper;
mod kernels;
mod lanes;
mod later;
pub mod lower;
mod measure;
pub mod padding;
pub mod partition;
mod preparation;
mod programs;
pub mod queue;
mod spec;
mod start_error;
mod station;
pub mod structures;
mod trouble;
pub mod weights;

pub use counters::{Counters, Counts};
pub use device::{CudaDevice, FaultLog};
pub use kernels::KernelError;
pub use measure::{CudaStarter, MeasureError};
pub use spec::{Code, CudaSpec, Division, PAGE_BYTES, Wait, Watchdog};
pub use start_error::StartError;
pub use trouble::Trouble;
