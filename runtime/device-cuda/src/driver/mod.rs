//! The CUDA driver, safe and owned: handles that end what they name, typed errors, never a panic of
//! the library's making.
//!
//! Three layers: the library's functions as numbers and pointers (`symbols`), results as errors
//! ([`CallError`]), and owned things. Each thing holds the [`Context`] that it was made in. Each
//! method names the function that it calls; the manual is NVIDIA's "CUDA Driver API".
//!
//! # What is unsafe, and why
//! All `unsafe` of the crate that speaks to the driver is here. [`Stream::launch`] stays unsafe to
//! call: a kernel does with its addresses what it likes.
//!
//! # After start
//! Making and ending things allocates, on both sides. Launches, copies, events and questions do not
//! on ours; whether the driver allocates inside is not documented.

mod context;
pub mod environment;
mod error;
mod external;
mod green;
mod library;
mod masking;
mod memory;
mod module;
mod registration;
mod stream;
mod symbols;

pub use context::{Context, ResetError};
pub use error::{CallError, Code, Lost, OpenError};
pub use external::ImportError;
pub use green::{GreenError, Groups};
pub use library::{Attribute, Driver, Gpu, Version};
pub use masking::{MaskError, Masking};
pub use memory::{DeviceMemory, MappedMemory};
pub use module::{Function, Module};
pub use registration::{HostRegistration, NotReadable, ReadableMemory};
pub use stream::{Event, Shape, Stream};
pub use symbols::exports;
