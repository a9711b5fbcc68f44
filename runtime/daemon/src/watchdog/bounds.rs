//! How long each thread may take for one turn of its loop.

use punctual_core::{PartitionId, SPAN_MAX};
use punctual_plan::{Plan, Role};

use super::ORDINARY_FACTOR;

/// An action that takes this many times the longest time of its stage, and a tenth of a second, is
/// given up by the core; the device may still be about it, and the daemon serves on meanwhile. Only
/// then does the watchdog's own bound begin.
const STAGE_FACTOR: u64 = 16;
const STAGE_FLOOR_NS: u64 = 100_000_000;

/// The bound of a thread of the plan, in ns.
pub fn of(plan: &Plan, role: Role) -> u64 {
    let bound_ns = plan.watchdog.as_nanos();
    let priority = plan.threads.iter().find(|thread| thread.role == role);
    let bound_ns = match priority.and_then(|thread| thread.priority) {
        Some(_) => bound_ns,
        None => bound_ns.saturating_mul(ORDINARY_FACTOR),
    };
    let stage_ns = match role {
        Role::Worker { partition, .. } => longest_action_ns(plan, partition),
        Role::Ingress | Role::Scheduler | Role::Egress | Role::Intake { .. } | Role::StallProbe => {
            0
        }
    };
    bound_ns.saturating_add(stage_ns)
}

fn longest_action_ns(plan: &Plan, partition: PartitionId) -> u64 {
    let stages = plan.scheduler.models.iter().flat_map(|model| &model.stages);
    let times = stages.flat_map(|stage| &stage.times);
    let here = times.filter_map(|time| time.on.get(partition.index()));
    // Where it never runs it has no figure.
    let longest = here.map(|time| time.max_seen.max(time.budget));
    let longest = longest.filter(|time| *time < SPAN_MAX).max();
    longest.map_or(0, |time| {
        time.as_nanos().saturating_mul(STAGE_FACTOR) + STAGE_FLOOR_NS
    })
}
