//! The CPU device from outside: its contract, whole networks, cold starts.

mod cold_start;
mod conformance;
mod scores;
mod signs;
