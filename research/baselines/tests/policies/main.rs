//! Tests of all policies alike, and a worked example of each that is small enough for it.
//!
//! `conformance` holds what every policy owes the world, the books of `punctual_policy_testing`
//! check it, and `canaries` checks the books.

mod canaries;
mod conformance;
mod examples;
mod fuzz;
mod lost;
mod parameters;
mod runs;
