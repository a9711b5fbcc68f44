//! The CPU device: partitions are disjoint sets of cores, one pinned worker a core.
//!
//! # Where to read on
//! | module | what it is |
//! |---|---|
//! | [`CpuProvider`], [`CpuDevice`] | starts it; the device |
//! | `lower` | a network to steps with kernels, operands and weights: what a stage runs |
//! | `shared` | the memory that a partition's cores share, and the team that computes on it |
//! | [`images`] | packed weights into packages |
//! | [`measure_solutions`] | which solution of each operator is the fastest here, and which stages run on one core |
//! | [`Evaluator`] | class scores of a network on the device's kernels, on the calling thread |
//!
//! # A stage
//! The leader hands it to its team: all workers of the partition run operator after operator, each its
//! own part of the output, and meet in between. That is where a preemption is noticed. A stage that was
//! measured to be faster on one core is run by the leader alone, whose team sleeps on. What the next
//! stage needs lies in the members' request buffers; everything else was in the partition's workspace
//! and is forgotten.
//!
//! Memory is planned, and workers are started by [`CpuDevice::start`]; after it workers allocate nothing, take no lock and
//! make no thread. Weights are loaded and solutions are prepared by the module `start`: before the device is there, or in
//! turn, on the loader's thread.
//!
//! ```
//! use std::sync::Arc;
//! use punctual_core::{ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId};
//! use punctual_core::{RequestId, StageId, Window};
//! use punctual_conformance::networks;
//! use punctual_device::{Device, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Start};
//! use punctual_device_cpu::CpuDevice;
//! use punctual_platform::Doorbell;
//!
//! let network = networks::residual(1);
//! let bell = Arc::new(Doorbell::new());
//! let mut device = CpuDevice::start(
//!     &DeviceSpec {
//!         models: &[ModelSpec::resident(&network, &[1, 2])],
//!         partitions: &[PartitionSpec::on_cores("main", vec![0], None)],
//!         request_buffers: 4,
//!         cache: None,
//!         start: Start::Whole,
//!     },
//!     bell.clone(),
//! )?;
//! let image = networks::image(&network, 7);
//! device.shell().input_buffers().claim(3, ModelId(0))?.write_planar(&image);
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
//! and read weights that come and go, without a lock. Its doc says which rule makes that sound; every
//! other module forbids `unsafe`.
#![deny(unsafe_code)]

mod checker;
mod device;
mod error;
mod evaluate;
mod executable;
pub mod images;
mod lower;
mod machine;
mod model;
mod pace;
mod provider;
mod shared;
mod solutions;
mod specialised;
mod start;
mod store;

pub use checker::{Found, Misplaced, Place, Violation};
pub use device::{CpuDevice, OperatorTime};
pub use error::StartError;
pub use evaluate::{Evaluator, ExitResult};
pub use lower::{LowerError, image_layout, pack_image};
pub use machine::{clocks, lanes, machine};
pub use provider::CpuProvider;
pub use shared::weights::LoadError;
pub use solutions::{SolutionRequest, measure_solutions};
pub use specialised::ONE_CORE;
