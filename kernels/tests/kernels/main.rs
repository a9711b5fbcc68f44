//! The kernels compared with their references.
#![deny(unsafe_code)]

mod computed;
mod convolution;
mod copies;
mod detections;
mod elementwise;
mod pools;
mod preprocess;
mod products;
mod quantised;
mod recurrent;
mod refusals;
mod resize;
mod sequence;
#[path = "../support/mod.rs"]
mod support;
mod surplus;
