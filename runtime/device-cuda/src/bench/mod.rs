//! What benchmarks need of the device beside its contract: kernels that only take time, and networks run
//! launch by launch, with their class scores.

mod direct;
mod holding;

pub use direct::{Direct, DirectError};
pub use holding::{HoldError, Holding, Load, Preempted};
