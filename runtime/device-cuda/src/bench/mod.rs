//! What benchmarks need of the device beside its contract: kernels that only take time, launches whose results or rates are
//! known, and networks run launch by launch, with their class scores and the time of each launch.

mod direct;
mod holding;
mod launch_times;
mod launcher;
pub mod recipe;

pub use direct::{Direct, DirectError};
pub use holding::{HoldError, Holding, Load, Preempted};
pub use launch_times::{Subject, launch_times};
pub use launcher::{LaunchError, Launcher, Looks, Prepared};
