//! What runs stages: the [`Device`] trait, the CPU device and the virtual-time device, and the
//! suite that every device passes.
//!
//! A device does exactly what [`Action::Infer`](punctual_core::Action::Infer) says, inside its
//! window, or reports an event that says it did not. It decides nothing.
//!
//! # Where to read on
//! | module | what it is |
//! |---|---|
//! | [`Device`] | the contract: actions in, exactly one event each out |
//! | [`CpuDevice`] | partitions are disjoint sets of cores; one pinned worker a core |
//! | [`MixedDevice`] | two devices that serve one plan |
//! | [`crew`] | what devices on the machine's cores share: partitions, leaders, windows, preemption |
//! | [`virtual_time`] | takes as long as the profile says and sleeps for none of it: for tests of the loop |
//! | [`conformance`] | what every device must do, as functions; a new device's tests call them |
//! | [`profile`] | measures stages and preparation on this machine |
//! | [`Evaluator`] | class scores of a network on the CPU device's kernels, on the calling thread |
//!
//! # The way of a stage on the CPU device
//! 1. An intake thread claims a request buffer ([`InputBuffers`]), writes the input, drops the claim.
//! 2. [`Device::submit`] pushes the action into the partition's ring and rings its leader.
//! 3. The leader waits for the window, claims the members' request buffers, and hands the stage to
//!    its team: all workers of the partition run operator after operator, each its own part of the
//!    output, and meet in between. That is where a preemption is noticed.
//! 4. What the next stage needs lies in the members' request buffers; everything else was in the
//!    partition's workspace and is forgotten. So a request can go on with other companions, on
//!    another partition.
//! 5. The leader reads the class scores, pushes the event, rings the scheduler's bell.
//!
//! Weights are packed, memory is planned and touched, and workers are started by
//! [`CpuDevice::start`]; after it nothing is allocated, no lock is taken and no thread is made.
//!
//! ```
//! use std::sync::Arc;
//! use punctual_core::{ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId};
//! use punctual_core::{RequestId, StageId, Window};
//! use punctual_device::conformance::networks;
//! use punctual_device::{CpuDevice, Device, DeviceSpec, ModelSpec, PartitionSpec};
//! use punctual_platform::Doorbell;
//!
//! let network = networks::residual(1);
//! let bell = Arc::new(Doorbell::new());
//! let mut device = CpuDevice::start(
//!     &DeviceSpec {
//!         models: &[ModelSpec::resident(&network, &[1, 2])],
//!         partitions: &[PartitionSpec { name: "main".into(), cores: vec![0], priority: None }],
//!         request_buffers: 4,
//!         cache: None,
//!     },
//!     bell.clone(),
//! )?;
//! let image = networks::image(&network, 7);
//! device.input_buffers().claim(3, ModelId(0))?.write_planar(&image);
//! device.submit(&Infer {
//!     id: ActionId(1),
//!     partition: PartitionId(0),
//!     model: ModelId(0),
//!     stage: StageId(0),
//!     batch: 1,
//!     members: [RequestId { buffer: 3, generation: 0 }].into_iter().collect(),
//!     window: Window { earliest: Instant::ZERO, latest: Instant::FAR_FUTURE },
//!     criticality: Criticality::RealTime,
//! })?;
//! let event = loop {
//!     let seen = bell.count();
//!     match device.poll() {
//!         Some(event) => break event,
//!         None => bell.wait(seen, None),
//!     };
//! };
//! let Event::Finished(finished) = event else { panic!("{event:?}") };
//! assert_eq!(finished.members.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Unsafe code
//! Confined to the module `shared`: the cores of a partition write disjoint parts of one tensor,
//! and an intake thread writes a request's input that a worker reads later, without a lock. Its
//! doc says which rule makes that sound; every other module forbids `unsafe`.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod conformance;
mod cpu;
pub mod crew;
mod device;
pub mod images;
mod mixed;
pub mod profile;
mod request_buffers;
mod residency;
mod shared;
mod spec;
pub mod virtual_time;

pub use cpu::cold_start;
pub use cpu::{
    CpuDevice, Evaluator, LoadError, LoadFailure, LowerError, OperatorTime, StartError,
    image_layout, pack_image,
};
pub use device::{Device, Refusal};
pub use mixed::{MixedDevice, Side};
pub use request_buffers::{ClaimError, InputBuffers, InputLayout, InputWriter};
pub use residency::Residency;
pub use spec::{CacheSpec, DeviceSpec, ModelSpec, PartitionSpec, SpecError};
