//! ONNX Runtime as a device: for networks that run better on it, and to compare engines.
//!
//! The library is loaded when the program runs ([`Library`]); without it this crate does nothing. Each
//! stage of a compiled network is written as an ONNX file again and becomes a session; partitions,
//! windows, request buffers and preemption are those of every device ([`punctual_device::pool`]), so
//! it takes the same actions and passes the same conformance suite.
//!
//! # What it does not promise
//! - It allocates on every run, inside the library and around it. What Rust code allocates there counts
//!   as permitted ([`punctual_platform::allocator::permit`]).
//! - A preemption is noticed between two of the library's nodes, whose bounds it does not tell.
//! - Weights are not paged ([`SubmitError::Pinned`]), and each partition has its own copy.
//! - Detections and best scores, which ONNX has no operators for, run behind the session, on the CPU device's kernels and on
//!   the partition's first core alone.
//! - Transformers and quantised operators are not written as ONNX ([`punctual_compile::WriteError`]).
#![deny(unsafe_code)]

mod device;
mod engine;
mod error;
mod file;
pub mod gpu;
mod library;
mod part;
mod places;
mod provider;
mod results;
mod stage;
mod tail;
mod threads;

pub use device::OrtDevice;
pub use error::StartError;
pub use file::{FileError, OnnxFile};
pub use library::{Library, LibraryError, PATH_VARIABLE, file_bytes, named};
pub use ort::Error as OrtError;
pub use part::{Part, Values};
use places::Places;
pub use provider::{OrtProvider, machine};
#[cfg(doc)]
use punctual_device::SubmitError;
