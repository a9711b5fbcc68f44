//! A daemon that runs, as people and programs look at it: where it is, what happened between two looks, what is not well.

pub mod daemon;
pub mod denied;
pub mod interval;
pub mod machine;
pub mod path;
pub mod since;
pub mod troubles;
