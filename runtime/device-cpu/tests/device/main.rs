//! The CPU device from outside: its contract, whole networks, profiles.

mod conformance;
mod mutations;
#[path = "../../../device/tests/tied/mod.rs"]
mod networks_of_tied_weights;
mod outputs;
mod profile;
mod scores;
mod set;
mod signs;
mod tied;
mod verify;
