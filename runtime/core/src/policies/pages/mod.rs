//! Weights on the device and off it, as the policies that page them see it (Clockwork, sections
//! 5.2 and 5.3): what is resident, what goes when something comes, what is on its way.

mod estimate;
mod residency;

pub(crate) use estimate::Estimate;
pub(crate) use residency::{Place, Residency};
