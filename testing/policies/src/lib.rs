//! What tests of policies are made of: worlds in virtual time that hold every decision against what a policy owes the
//! world, plans drawn at random, loads that keep the queues full.
//!
//! | what | where |
//! |---|---|
//! | clients, an intake and a device | [`environment`] |
//! | a scheduler in it; the auditor looks at every step; random times and faults | [`world`], [`weather`] |
//! | plans with the partitions that a policy expects | [`plans`] |
//! | a plan played in exact virtual time, for worked examples | [`timeline`] |
//! | full queues, for benchmarks and the test of allocations | [`load`], [`emulated`] |
#![forbid(unsafe_code)]

pub mod emulated;
pub mod environment;
pub mod load;
pub mod plans;
pub mod timeline;
pub mod weather;
pub mod world;
