//! Deterministic simulation testing: plans, workloads, policies, times and faults drawn from a
//! seed, run under the auditor, and shrunk when something is wrong.
//!
//! A case is a pure function of its seed, so the seed is the whole report of a failure; what is printed
//! in addition to it is the smallest case that the shrinker found to fail in the same way. A case fails if
//!
//! - the auditor finds a violation,
//! - the scheduler's recount of its own state contradicts it after a step,
//! - anything panics,
//! - the run does not end (nothing is going to happen, or the scheduler spins),
//! - a second run differs from the first, or in it a copy of the policy, made anew from its state each few steps, decides otherwise,
//! - the run was recorded, and what is read of the file decides otherwise,
//! - the scheduler and the auditor disagree about whether the plan is schedulable.
//!
//! | file | what |
//! |---|---|
//! | `draw` | the case of a seed: plan, policy, workload |
//! | `pipelines` | those of some cases; cases of pipelines and little else |
//! | `relations` | what its networks and tasks have to do with each other |
//! | `world` | its times and faults |
//! | `check` | runs a case and says what is wrong |
//! | `twin` | a policy and a copy that is made from its state |
//! | `replayed` | a run through a file |
//! | `shrink` | makes a failing case smaller |
//! | `campaign` | many seeds, and the report |

mod campaign;
mod case;
mod check;
mod draw;
mod pipelines;
mod relations;
mod replayed;
mod shrink;
mod twin;
mod world;

pub use campaign::{Campaign, Found, Report, campaign};
pub use case::Case;
pub use check::{Failure, Passed, check, check_recorded};
pub use shrink::shrink;
pub use twin::Twinned;
