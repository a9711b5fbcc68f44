//! Whatever an attacker or an accident does to the daemon, while healthy cameras run.

mod attack_run;
mod descriptors;
mod doorbell;
mod figures;
mod lifetimes;
mod limits;
mod memory;
mod openings;
mod outputs;
mod paths;
mod signals;

use crate::case::Case;

/// The cases, theme by theme.
pub const CASES: &[&[Case]] = &[
    openings::CASES,
    descriptors::CASES,
    doorbell::CASES,
    memory::CASES,
    lifetimes::CASES,
    limits::CASES,
    outputs::CASES,
    signals::CASES,
    paths::CASES,
];
