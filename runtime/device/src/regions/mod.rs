//! Memory that threads share without a lock: the only `unsafe` of this crate.
//!
//! A [`Region`] is a run of `f32`s at a fixed address, touched at start so that it never faults
//! later. Outside of this module a request buffer is **claimed** ([`ClaimedRegions`]): a claim is an
//! atomic flag taken and given back like a lock that never waits. Its release/acquire pair also
//! carries the data, from the intake thread that wrote an input to the worker that reads it, so
//! soundness does not rest on the order in which the scheduler sends its actions. A claim that is
//! refused is a broken protocol, reported as such, never waited for.
//!
//! A device that computes on several cores lends a claimed region to its team by
//! [`ClaimedRegions::region`], whose views are `unsafe`.
#![allow(unsafe_code)]

mod guard;
mod region;

pub use guard::{BufferGuard, ClaimedRegions};
pub use region::{LINE, Region};
