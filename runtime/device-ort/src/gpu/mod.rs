//! ONNX Runtime on the GPU: stages that its CUDA or TensorRT execution provider runs on *our* stream, which is kept to the
//! partition's TPCs.
//!
//! # Where to read on
//! | module | what it is |
//! |---|---|
//! | `options` | what the library is told about an engine, as values |
//! | `execution` | telling it, and running its sessions on the stream and in memory that are ours: all `unsafe` of the crate |
//! | `stage` | a stage at a batch size: what is brought, bound, carried and read |
//! | `brought` | engines that the user has built |
//! | `leader` | the stage as a state that its leader carries on without waiting |
//! | `device`, `provider` | the contract of a device; what it promises, takes, and is refused for |
//!
//! # The way of a stage
//! 1. Inputs come through page-locked memory, carried tensors from the request's slot on the device, both by copies in the stream.
//! 2. The session queues its kernels in the same stream and returns: auxiliary streams are off, nothing is synchronised.
//! 3. What is carried over is copied to the slots, what the exit reads to page-locked memory, and a word is written behind all of it.
//! 4. The leader looks at the word, and now and then asks the driver whether the device still works.
//!
//! A stage that has begun runs to its end. A fault, or a stage that does not end, loses the device to its process: the
//! library cannot make again what it has there.

mod brought;
mod device;
mod execution;
mod leader;
mod options;
mod provider;
mod stage;

pub use brought::{BroughtEngines, BroughtError, StageToBuild};
pub use device::{EngineDevice, EngineSpec};
pub use execution::{Execution, OnGpu, QueueError};
pub use options::{GpuEngine, ProviderOptions, SessionSetup};
pub use provider::{EngineProvider, EngineRefusal};
