//! Runs of a small scenario; what the device in virtual time does.

mod conformance;
mod faults;
mod lateness;
mod pipelines;
mod random_pipelines;
mod runs;
