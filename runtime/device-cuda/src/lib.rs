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
//! | `frames` | frames of cameras, prepared by what an intake's thread launches |
//! | [`partition`] | which TPCs a stream may use, by which mechanism, proven by trial |
//! | [`weights`] | pages on the device, and the thread that loads them |
//! | [`SteppedDevice`] | the device without threads, for simulations in virtual time |
//! | `start` | what a device is made of before it runs, and what may be in the way ([`StartError`]); weights and code that come in turn while it serves |
//! | `faults`, `device::recovery` | what goes wrong on the GPU, and what makes everything again, or gives up where the driver asks for that ([`Loss`]) |
//! | [`padding`], [`kernel_padding`], `occupancy` | best-effort launches on the TPCs that real-time ones leave |
//! | [`mod@launch_times`] | how long each launch takes alone, which these go by |
//! | [`driver`] | the CUDA driver, safe and owned: most of the `unsafe` code is there |

mod confinement;
mod counters;
mod device;
pub mod driver;
mod engine;
mod executor;
mod faults;
mod frames;
pub mod host;
mod installation;
pub mod kernel_padding;
mod kernels;
pub mod launch_times;
pub mod look_stride;
pub mod lower;
mod occupancy;
pub mod padding;
pub mod partition;
mod programs;
mod provider;
pub mod queue;
mod spec;
mod start;
mod stepped;
pub mod weights;
mod workspaces;

pub use counters::{Counters, Counts};
pub use device::{CudaDevice, FaultLog, LossNotice, LossWatch};
pub use faults::{DeviceError, Loss};
pub use kernels::{KernelError, Kernels};
pub use partition::Division;
pub use provider::CudaProvider;
pub use spec::{CudaSpec, PAGE_BYTES, Watchdog};
pub use start::{InTurnError, ModuleError, Next, StartError};
pub use stepped::SteppedDevice;
