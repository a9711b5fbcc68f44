//! The auditor on small runs of the production loop, clean ones and ones with a planted fault.

mod bench;
mod canaries;
mod claims;
mod delivery;
mod demotion;
mod lending;
mod offload;
mod priorities;
mod queries;
mod readiness;
mod schedulability;
mod steps;
