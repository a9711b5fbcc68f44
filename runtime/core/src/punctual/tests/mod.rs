//! Tests that need the inside of the scheduler, in virtual time. Behaviour that shows from outside is tested in
//! `testing/policies`, where the auditor checks every step.

mod check;
/// Tests of policies share it; what audits their runs is above this crate.
#[path = "../../../../../testing/policies/src/environment.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod environment;
mod guarantee;
mod joint;
mod lending;
mod look_ahead;
mod plans;
mod price;
mod random_plans;
mod refused;
mod slack;
mod workload;
mod world;

use crate::config::Config;
use crate::error::ConfigError;
use crate::punctual::{Punctual, PunctualConfig};

impl Punctual {
    /// The same as [`Scheduler::new`](crate::Scheduler::new), with access to the state.
    fn new(config: &Config, parameters: PunctualConfig) -> Result<Self, ConfigError> {
        crate::validate::check(config, &parameters)?;
        Ok(Self::from_plan(config, parameters))
    }
}
