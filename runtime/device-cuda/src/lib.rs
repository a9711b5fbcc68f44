//! The CUDA device: stages as static lists of launches on partitions of TPCs. Tested on the
//! emulated driver (`testing/emulated-driver`); what ran on silicon says `docs/results/hopper.md`.
//!
//! # Where to read on
//! | module | what it is |
//! |---|---|
//! | [`CudaDevice`] | the contract of `punctual_device::Device` on a GPU; [`CudaSpec`] has its knobs |
//! | `executor` | the main path: a stage on a stream, as a state that its leader carries on |
//! | `confinement` | which stream a partition launches into, and which TPCs that has |
//! | [`lower`] | a network as lists of launches, with places instead of addresses |
//! | [`queue`] | launches handed over a few at a time, evicted by an epoch, resumed where they were cut |
//! | [`look_stride`] | how often launches look whether they are preempted, chosen by measuring |
//! | [`partition`] | which TPCs a stream may use, by which mechanism, proven by trial |
//! | [`weights`] | pages on the device, and the thread that loads them |
//! | [`SteppedDevice`] | the device without threads, for simulations in virtual time |
//! | `recovery` | what makes everything again after a fault of the GPU, and gives up where the driver asks for that ([`Loss`]) |
//! | [`padding`], [`kernel_padding`], `occupancy` | best-effort launches on the TPCs that real-time ones leave |
//! | [`cold_start`], `deferred_modules` | answers before all code is loaded |
//! | [`roofline`] | what stages should take, from a device's figures alone |
//! | [`driver`] | the CUDA driver, safe and owned: most of the `unsafe` code is there |
//! | [`structures`], [`mod@bench`] | the papers' networks, and what benchmarks need beside the contract |

pub mod bench;
pub mod cold_start;
mod confinement;
pub mod conformance;
mod counters;
mod deferred_modules;
mod device;
mod device_error;
mod device_plan;
pub mod driver;
mod engine;
mod executor;
mod health;
pub mod host;
mod installation;
pub mod kernel_padding;
mod kernels;
pub mod look_stride;
mod loss;
pub mod lower;
mod occupancy;
pub mod padding;
pub mod partition;
mod preparation;
mod programs;
mod provider;
pub mod queue;
mod recovery;
pub mod roofline;
mod spec;
mod start_error;
mod stepped;
pub mod structures;
pub mod weights;
mod workspaces;

pub use counters::{Counters, Counts};
pub use device::{CudaDevice, FaultLog, LossWatch};
pub use device_error::DeviceError;
pub use kernels::KernelError;
pub use loss::Loss;
pub use provider::CudaProvider;
pub use spec::{Code, CudaSpec, Division, PAGE_BYTES, Watchdog};
pub use start_error::StartError;
pub use stepped::SteppedDevice;
