//! The CPU device from outside: its contract, whole networks, cold starts, profiles.

mod cold_start;
mod conformance;
mod mutations;
mod outputs;
mod profile;
mod scores;
mod set;
mod signs;
mod verify;
