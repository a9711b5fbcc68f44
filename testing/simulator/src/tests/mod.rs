//! Runs of a small scenario.

mod faults;
mod lateness;
mod runs;
