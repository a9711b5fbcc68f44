//! What a recording shows.
//!
//! | to find | look at |
//! |---|---|
//! | one frame's story, against what the plan allowed | [`explain`](explain::explain) |
#![forbid(unsafe_code)]

pub mod explain;
