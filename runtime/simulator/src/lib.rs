//! Punctual in virtual time: the production loop and the production scheduler, on a clock, a
//! device and cameras that are computed.
//!
//! A run is a pure function of a [`Scenario`](scenario::Scenario), a policy, a load and a seed.
//! All policies see the same arrivals and the same pictures.
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod audit;
pub mod bound;
mod clients;
pub mod compare;
pub mod disb;
pub mod experiments;
pub mod faults;
pub mod format;
pub mod fuzz;
pub mod layout;
mod ledger;
mod nearest;
pub mod observer;
pub mod outcome;
pub mod profiles;
pub mod random;
pub mod report;
pub mod run;
mod samples;
pub mod scenario;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod timing;
pub mod workloads;
mod world;
