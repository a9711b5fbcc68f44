//! What runs stages: the [`Device`] trait, the CPU device and the virtual-time device, and the
//! suite that every device passes.
//!
//! A device does exactly what [`Action::Infer`](punctual_core::Action::Infer) says, inside its
//! window, or reports an event that says it did not. It decides nothing.
//!
//! # Unsafe code
//! Confined to the module `shared`: the cores of a partition write disjoint parts of one tensor,
//! and an intake thread writes a request's input that a worker reads later, without a lock. Its
//! doc says which rule makes that sound; every other module forbids `unsafe`.
#![deny(unsafe_code)]

pub mod conformance;
mod cpu;
mod device;
pub mod profile;
mod random;
mod request_buffers;
mod shared;
mod spec;
pub mod virtual_time;

pub use cpu::{CpuDevice, Evaluator, LowerError, OperatorTime, StartError};
pub use device::{Device, Refusal};
pub use request_buffers::{ClaimError, InputBuffers, InputLayout, InputWriter};
pub use spec::{DeviceSpec, ModelSpec, PartitionSpec, SpecError};
