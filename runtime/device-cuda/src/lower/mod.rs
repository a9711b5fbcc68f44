//! Lowering: networks become static lists of launches.
//!
//! A [`Program`] has one list for each stage and batch size. Its launches carry [`Place`]s where
//! addresses will stand, so that a list is made once and launched for any members, any workspace,
//! and weights wherever their pages lie.

mod error;
mod place;
mod program;

pub use error::LowerError;
pub use place::Place;
pub use program::{LaunchList, Program, StageProgram, Step};
