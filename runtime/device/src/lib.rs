//! The contract of a device, and what all devices have in common.
//!
//! A device does exactly what [`Action::Infer`](punctual_core::Action::Infer) says, inside its
//! window, or reports an event that says it did not. It decides nothing.
//!
//! # Where to read on
//! | module | what it is |
//! |---|---|
//! | [`Device`] | the contract: actions in, exactly one event each out |
//! | [`pool`] | partitions, leaders, windows, preemption; an [`Engine`](pool::Engine) runs the stages |
//! | [`shell`] | what every device on threads of this process has around its engines |
//! | [`weights`] | weights that come and go: a store, and the thread that fills it |
//! | [`DeviceSet`] | the devices that serve one plan, as one |
//! | [`frames`] | frames that a device prepares itself |
//! | [`Provider`] | a kind of device: what it promises, what it takes, how it starts |
//! | [`profile`] | measures stages on any provider's devices, and preparation on this machine |
//! | [`verify`] | compares what a device of this machine answers with the reference interpreter |
//!
//! A new kind of device is an engine, a provider, and a call of the conformance suite (`testing/conformance`).
//!
//! # The way of a stage
//! 1. An intake thread claims a request buffer ([`InputBuffers`]), writes the input, drops the claim.
//! 2. [`Device::submit`] checks the action, pushes it into the partition's ring and rings its leader.
//! 3. The leader waits for the window, claims the members' request buffers, and has its engine run the stage.
//! 4. What the next stage needs lies in the members' request buffers. So a request can continue with
//!    other companions, on another partition.
//! 5. The leader reads the answers, pushes the event, rings the scheduler's bell.
//!
//! After a device has started nothing of this crate allocates, takes a lock or makes a thread.
//!
//! # Unsafe code
//! Confined to the module [`regions`]: an intake thread writes a request's input that a worker reads
//! later, without a lock. Its doc says which rule makes that sound; every other module forbids `unsafe`.
#![deny(unsafe_code)]

mod catalogue;
mod device;
pub mod frames;
mod mechanism;
mod page_ledger;
pub mod pool;
pub mod profile;
mod provider;
pub mod regions;
mod request_buffers;
mod residency;
mod set;
pub mod shell;
mod spec;
pub mod verify;
pub mod weights;

pub use catalogue::Catalogue;
pub use device::{Device, SubmitError};
pub use mechanism::Mechanism;
pub use page_ledger::{NO_PIECE, PageLedger};
pub use provider::Provider;
pub use request_buffers::{ClaimError, InputBuffers, InputLayout, InputWriter, VectorPlace};
pub use residency::Residency;
pub use set::{DeviceSet, LoadFailures};
pub use shell::{HostedDevice, Shell};
pub use spec::{
    CacheSpec, DeviceSpec, LoadRate, ModelSpec, PartitionSpec, SpecError, Start, StartStep,
};
