//! Memory that threads share without a lock: the only `unsafe` of this crate.
//!
//! A [`Region`] is a run of `f32`s at a fixed address, touched at start so that it never faults
//! later. Two things may be done with one from outside this module, both safe:
//!
//! - **Claim it** ([`ClaimedRegions`]; the request buffers). A claim is an atomic flag taken and
//!   given back like a lock that never waits. Its release/acquire pair also carries the data, from
//!   the intake thread that wrote an input to the worker that reads it, so soundness does not rest
//!   on the order in which the scheduler sends its actions. A claim that is refused is a broken
//!   protocol, reported as such, never waited for.
//! - **Run operators on it** ([`team`]; the workspace of a partition, and request buffers whose
//!   claims the leader lends). Within an operator each worker writes its own part of the output
//!   and the inputs lie elsewhere: [`Operands`] cannot be made otherwise, and the parts of every
//!   step are checked when the team is made. Between operators the workers meet at a barrier.
//!
//! [`weights`] lie in pages that come and go; who may read them holds a claim, too.
#![allow(unsafe_code)]

mod barrier;
mod claims;
mod operands;
mod region;
pub(crate) mod team;
pub(crate) mod weights;

pub use claims::Claim;
pub(crate) use claims::ClaimedRegions;
pub(crate) use operands::{Operands, Space, Span};
pub(crate) use region::{LINE, Region};
