//! The one loop that drives the scheduler, in the daemon and in a simulation alike.
#![forbid(unsafe_code)]

mod drive;

pub use drive::{Events, Step, World, drive};
