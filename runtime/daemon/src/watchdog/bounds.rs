//! How long each thread may take for one turn of its loop.

use punctual_core::{PartitionId, SPAN_MAX};
use punctual_plan::{Plan, Role};
use punctual_platform::thread::Policy;

use super::ORDINARY_FACTOR;

/// The core considers an action lost after this many times the longest time of its stage and a tenth of a second
/// (`LOST_FACTOR` and `LOST_FLOOR` in `runtime/core/src/lost.rs`). The device may still run it, and the daemon
/// serves without that partition. Only then does the watchdog's own bound begin.
const STAGE_FACTOR: u64 = 16;
const STAGE_FLOOR_NS: u64 = 100_000_000;

/// The bound of a thread of the plan, in ns. It depends on how the thread was granted to run (none: it has
/// ended), not on what the plan asks for.
pub fn of(plan: &Plan, role: Role, granted: Option<Policy>) -> u64 {
    let bound_ns = of_turn(plan.watchdog.as_nanos(), granted);
    let stage_ns = match role {
        Role::Worker { partition, .. } => {
            let led = led_with(plan, partition);
            led.map(|led| longest_action_ns(plan, led))
                .max()
                .unwrap_or(0)
        }
        Role::Scheduler | Role::Port { .. } | Role::Intake { .. } | Role::StallProbe => 0,
    };
    bound_ns.saturating_add(stage_ns)
}

fn of_turn(bound_ns: u64, granted: Option<Policy>) -> u64 {
    match granted {
        Some(Policy::Fifo(_) | Policy::Deadline { .. }) => bound_ns,
        Some(Policy::Ordinary) | None => bound_ns.saturating_mul(ORDINARY_FACTOR),
    }
}

/// A partition, and those of TPCs that have the same leader.
fn led_with(plan: &Plan, partition: PartitionId) -> impl Iterator<Item = PartitionId> {
    let of = &plan.partitions[partition.index()];
    let all = (0..).map(PartitionId).zip(&plan.partitions);
    all.filter(move |(id, other)| {
        let shared = !of.tpcs.is_empty() && !other.tpcs.is_empty() && other.cores == of.cores;
        *id == partition || shared
    })
    .map(|(id, _)| id)
}

fn longest_action_ns(plan: &Plan, partition: PartitionId) -> u64 {
    let stages = plan.scheduler.models.iter().flat_map(|model| &model.stages);
    let times = stages.flat_map(|stage| &stage.times);
    let here = times.filter_map(|time| time.on.get(partition.index()));
    // A stage that never runs on this partition has no figure there.
    let longest = here.map(|time| time.max_seen.max(time.budget));
    let longest = longest.filter(|time| *time < SPAN_MAX).max();
    longest.map_or(0, |time| {
        time.as_nanos().saturating_mul(STAGE_FACTOR) + STAGE_FLOOR_NS
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_refused_its_priority_has_the_bound_of_an_ordinary_one() {
        let reserved = Policy::Deadline {
            runtime_ns: 1,
            period_ns: 2,
        };
        assert_eq!(of_turn(1_000, Some(Policy::Fifo(41))), 1_000);
        assert_eq!(of_turn(1_000, Some(reserved)), 1_000);
        assert_eq!(of_turn(1_000, Some(Policy::Ordinary)), 4_000);
    }
}
