//! The default policy as a whole, in virtual time, from outside: the auditor looks at every step.
//!
//! What needs the inside of the scheduler (the slack, prices, ablations) is tested next to it, on the
//! same plans.

mod admission;
mod arrivals;
mod best_effort;
mod bursts;
mod demotion;
mod depth;
mod each_exit;
mod exhaustive;
mod guarantee;
mod latest;
mod misbehaviour;
mod offload;
mod overrun;
mod paging;
/// The core's tests cannot depend on a crate above, and two copies of plans and workload would drift apart.
#[path = "../../../../runtime/core/src/punctual/tests/plans.rs"]
mod plans;
mod prefix;
#[path = "../../../../runtime/core/src/punctual/tests/random_plans.rs"]
mod random_plans;
mod readiness;
mod shedding;
mod state;
mod switches;
mod worked_example;
#[path = "../../../../runtime/core/src/punctual/tests/workload.rs"]
mod workload;

// Those files take the core's types, and the world, from the root of the crate.
use punctual_core::*;
use punctual_policy_testing::world;

/// Sure enough to stop in those plans.
const SURE: Confidence = Confidence(65_000);
