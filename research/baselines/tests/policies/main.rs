//! Tests of all policies alike, and a worked example of each that is small enough for it.
//!
//! `conformance` holds what every policy owes the world, as the auditor of `punctual_simulator` reads it.

mod canaries;
mod conformance;
mod examples;
mod fuzz;
mod lost;
mod parameters;
mod runs;
