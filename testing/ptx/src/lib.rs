//! PTX, executed on the processor, with the checks that hardware does not make.
//!
//! A [`Module`] is read from the text that a driver would be given. A [`Machine`] runs the blocks of a [`Launch`] of one of its
//! kernels, on memory of this process that a [`Space`] lists. Kernels are executed a warp at a time: an instruction is executed
//! for all lanes that are at it.
//!
//! # What ends a launch with a [`Fault`]
//! - An access outside of all regions, shared memory or the parameters, or one that is not aligned.
//! - A read of a register, of shared memory or of device memory that was never written.
//! - Two threads that access a place of shared memory between two barriers, one of them writing.
//! - Shared memory that is touched while an asynchronous copy to it is under way. Copies arrive as late as they may.
//! - A barrier, a shuffle or a tensor-core instruction that not all threads reach, or not at the same place.
//! - In one launch: two writes of a byte, or a read and a write of it in any order. A launch that was cut short could then not run
//!   again. Words that are accessed with an order (`.relaxed.sys`) or atomically are exempt: they are for the host.
//! - A division by zero, whose result no manual defines.
//!
//! What it cannot say: anything about time; what the machine code that another compiler makes of the text does; races in
//! device memory between two launches.
//!
//! The order in which warps take turns is drawn from a seed. What the manual leaves open of arithmetic is done in one of two
//! ways ([`Arithmetic`]).

mod access;
mod arithmetic;
mod block;
mod decode;
mod environment;
mod error;
mod execute;
mod fault;
mod float;
mod global;
mod instruction;
mod module;
mod registers;
mod shared;
mod tensor;
mod text;
mod warp;

pub use block::{Launch, Machine};
pub use environment::Counts;
pub use error::ParseError;
pub use fault::{Fault, Stop, Violation};
pub use float::Arithmetic;
pub use global::{Launched, Region, Space};
pub use module::{Kernel, Module, Parameter};
