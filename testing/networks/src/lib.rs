//! Draws networks as ONNX files, each from a seed, runs them on every engine that there is, and compares what they answer.
//!
//! The reference interpreter says what a network means, within what an engine's arithmetic may round; onnxruntime says
//! whether the interpreter and the compiler before it are right. A network whose answers differ is made smaller until
//! nothing more can be left out.
#![forbid(unsafe_code)]

mod compare;
pub mod draw;
mod engines;
mod graph;
pub mod operators;
pub mod panics;
mod requests;
mod second_look;
mod shrink;

pub use compare::{Failure, FailureKind, Verdict, compare, compiled};
pub use draw::Drawn;
pub use engines::{Engine, NoSuchEngine};
pub use shrink::{shrunk, smallest};
