//! What is measured on a GPU in addition to the contract of its device.
//!
//! | module | what it measures |
//! |---|---|
//! | [`launcher`] | one launch at a time: its output, and how long it takes |
//! | [`recipe`] | launches whose outputs or rates are known |
//! | [`holding`] | how soon launches that only take time are evicted |
//! | [`scores`] | class scores of every exit of a network |
//!
//! # Unsafe code
//! Launches: a kernel does with its addresses what it likes.

pub mod holding;
pub mod launcher;
pub mod recipe;
pub mod scores;
