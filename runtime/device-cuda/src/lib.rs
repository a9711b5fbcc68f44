//! The CUDA device: stages as static lists of launches on partitions of TPCs. Not yet run on hardware:
//! tested on the emulated driver (`testing/emulated-driver`).
//!
//! # Where to read on
//! | module | what it is |
//! |---|---|
//! | [`CudaDevice`] | the contract of `punctual_device::Device` on a GPU; [`CudaSpec`] has its knobs |
//! | `station` | the main path: how a partition's leader carries out a stage |
//! | [`lower`] | a network as lists of launches, with places instead of addresses |
//! | [`queue`] | launches handed over a few at a time, evicted by an epoch, resumed where they were cut |
//! | [`partition`] | which TPCs a stream may use, by which mechanism, proven by trial |
//! | [`weights`] | pages on the device, and the thread that loads them |
//! | `keeper` | what makes everything again after a fault of the GPU |
//! | [`padding`], [`filling`], `grounds` | best-effort launches on the TPCs that real-time ones leave |
//! | [`cold_start`], `later` | answers before all code is loaded |
//! | [`driver`] | the CUDA driver, safe and owned: most of the `unsafe` code is there |
//! | [`structures`], [`mod@bench`] | the papers' networks, and what benchmarks need beside the contract |

pub mod bench;
mod blueprint;
pub mod cold_start;
pub mod conformance;
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
pub mod padding;
pub mod partition;
mod preparation;
mod programs;
mod provider;
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
pub use provider::CudaProvider;
pub use spec::{Code, CudaSpec, Division, PAGE_BYTES, Wait, Watchdog};
pub use start_error::StartError;
pub use trouble::Trouble;
