//! What a device is made of before it runs, and what may be in the way.

mod deferred_modules;
mod error;
mod plan;
mod preparation;

pub(crate) use deferred_modules::DeferredModules;
pub use error::StartError;
pub(crate) use plan::{DevicePlan, InstallError};
pub(crate) use preparation::{device_plan, programs};
