//! Punctual in virtual time: the production loop and the production scheduler, on a clock, a
//! device and cameras that are computed.
//!
//! A run is a pure function of a [`Scenario`](scenario::Scenario), a policy, a load and a seed.
//! All policies see the same arrivals and the same pictures.
//!
//! ```
//! use punctual_core::PunctualConfig;
//! use punctual_simulator::run::{Settings, simulate};
//! use punctual_simulator::testbed::scenario;
//!
//! let settings = Settings { seed: 1, keep_requests: false };
//! let outcome = simulate(&scenario(), &PunctualConfig::default(), 1.0, settings, &mut ())?;
//! assert_eq!(outcome.total.lost, 0);
//! # Ok::<(), punctual_simulator::run::RunError>(())
//! ```
//!
//! # Where to read on
//! | module | what it is |
//! |---|---|
//! | [`run`] | a run from the first submission to the last verdict: start here |
//! | `world`, [`device`] | clock, clients and device around [`punctual_executor::drive`] |
//! | `clients`, `ledger`, [`samples`] | who submits and what goes wrong there; the ledger; what the exits say |
//! | [`virtual_device`] | stages that take the time they are told and compute nothing |
//! | [`timing`], [`faults`] | how long things really take, and what goes wrong, as data |
//! | [`arrivals`], [`scenario`], [`layout`] | when requests come; what runs where |
//! | `pipelines` | what the daemon makes of the replies of a root; queries |
//! | [`observer`], [`audit`], [`fuzz`] | who looks on; the invariants; random cases with faults |
//! | [`recording`], [`recorded`] | a run as a file, for replay; a recorded world that is played again |
//! | [`outcome`], [`summary`] | what became of the requests; the figures |
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod audit;
mod clients;
pub mod device;
pub mod faults;
pub mod fuzz;
pub mod layout;
mod ledger;
pub mod observer;
pub mod outcome;
mod pipelines;
pub mod plan;
pub mod recorded;
pub mod recording;
pub mod run;
pub mod samples;
pub mod scenario;
pub mod summary;
pub mod testbed;
#[cfg(test)]
mod tests;
pub mod timing;
pub mod virtual_device;
mod world;
