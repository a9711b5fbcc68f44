//! Sessions and queries on a fleet of boards: from a TOML file to who runs what in which cycle.
//!
//! [`FleetPlan::build`] is a pure function of [`FleetInputs`]; [`FleetInputs::read`] gathers them from
//! files. In order: deadlines of queries are split (`queries`), sessions of the same model and
//! deadline become one, those that begin with the same stages are batched together (`groups`), and all
//! are packed ([`packing`]).
#![forbid(unsafe_code)]

mod file;
mod groups;
mod inputs;
mod models;
pub mod packing;
mod picture;
mod plan;
mod queries;
mod read;
mod report;
mod rule;

pub use groups::{Member, SessionPlan};
pub use inputs::FleetInputs;
pub use plan::{BoardUse, Excess, FleetPlan, NodePlan, RunPlan};
pub use queries::{Budget, QueryPlan};
pub use rule::FleetRule;
