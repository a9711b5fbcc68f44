//! Tests of all policies alike, and a worked example of each that is small enough for it.
//!
//! `conformance` holds what every policy owes the world, `books` checks it (and `canaries` checks
//! the books), `world` is clients, intake and device in virtual time, `plans` draws plans.

mod books;
mod canaries;
mod conformance;
mod examples;
mod lost;
mod parameters;
mod plans;
pub(crate) mod random;
mod world;
