//! Faults of the GPU: their errors, whether the device is lost after one, and the state of it that threads share.

mod error;
mod health;
mod loss;

pub use error::DeviceError;
pub(crate) use health::Health;
pub use loss::Loss;
