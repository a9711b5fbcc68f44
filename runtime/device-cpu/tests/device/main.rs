//! The CPU device from outside: its contract, whole networks, profiles.

mod conformance;
mod mutations;
mod outputs;
mod profile;
mod scores;
mod set;
mod signs;
mod tied;
mod verify;
