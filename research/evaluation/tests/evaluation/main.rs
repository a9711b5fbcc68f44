//! Bounds, plans of scenarios and DISB's files against their definitions.
#![forbid(unsafe_code)]

mod bound;
mod disb_files;
mod fuzzed;
mod lending;
mod planned;
mod recordings;
