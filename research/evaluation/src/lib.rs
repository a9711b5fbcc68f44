//! Is it better than what is published? The papers' workloads and networks, in virtual time
//! ([`punctual_simulator`]): policies side by side, and what each must reach.
//!
//! | module | what it is |
//! |---|---|
//! | [`workloads`], [`profiles`] | the papers' workloads and networks, with the source of each figure |
//! | [`mod@format`], [`disb`] | one's own workloads, and DISB's, from files |
//! | [`compare`], [`report`] | policies side by side; tables and pictures |
//! | [`bound`] | what no scheduler could exceed |
//! | [`experiments`] | what must be reached, each by one command |
#![forbid(unsafe_code)]

pub mod bound;
pub mod compare;
pub mod disb;
pub mod experiments;
pub mod format;
pub mod profiles;
pub mod recorded;
pub mod report;
pub mod workloads;
