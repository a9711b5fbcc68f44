//! Faults of the GPU: what they are called, whether the device is lost with one, and what the threads of a device tell each other
//! of them.

mod error;
mod health;
mod loss;

pub use error::DeviceError;
pub(crate) use health::Health;
pub use loss::Loss;
