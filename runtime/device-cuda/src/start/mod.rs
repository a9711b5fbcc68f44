//! What a device is made of before it runs, and what may be in the way.

mod error;
mod in_turn;
mod plan;
mod preparation;
mod readiness;

pub use error::StartError;
pub(crate) use in_turn::{InTurn, LeftOut};
pub use in_turn::{InTurnError, ModuleError, Next};
pub(crate) use plan::{DevicePlan, First, InstallError};
pub(crate) use preparation::{device_plan, programs};
pub(crate) use readiness::{Board, Follower};
