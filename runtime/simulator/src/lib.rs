//! Punctual in virtual time: the production loop and the production scheduler, on a clock, a
//! device and cameras that are computed.
//!
//! A run is a pure function of a [`Scenario`](scenario::Scenario), a policy, a load and a seed.
//! All policies see the same arrivals and the same pictures.
//!
//! # Where to read on
//! | module | what it is |
//! |---|---|
//! | [`run`] | a run from the first submission to the last verdict: start here |
//! | `world` | clock, clients and device around [`punctual_executor::drive`] |
//! | `clients`, `ledger`, `samples` | who submits and what goes wrong there; the books; what the exits say |
//! | [`timing`], [`faults`] | how long things really take, and what goes wrong, as data |
//! | [`arrivals`], [`workloads`], [`profiles`], [`disb`], [`mod@format`] | when requests come; the papers' workloads and networks; files |
//! | [`observer`], [`audit`], [`fuzz`] | who looks on; the invariants; random cases with faults |
//! | [`outcome`], [`summary`], [`bound`] | what became of the requests; the figures; what was possible at best |
//! | [`compare`], [`report`], [`experiments`] | policies side by side; tables and pictures; what must be reached |
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
pub mod plan;
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
