//! `seeb`, the second policy that ships: SEEB-GPU's, as published. And what it is built on: a runner of batches that go
//! through a whole network ([`batch_runner`]), which the published policies of `research/baselines` share.
//!
//! None of these promises deadlines: their plans need not pass the offline test.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod batch_runner;
mod choice;
mod latency;
pub mod ranges;
mod seeb;
mod shares;

pub use latency::{LatencyModel, fit};
pub use seeb::{SeebBatch, SeebConfig};
pub use shares::assign as seeb_shares;
