//! Which threads look for what comes soon, instead of sleeping (decision 23).

use punctual_core::{ClientId, Nanos, TaskId};
use punctual_plan::{Plan, Role, ThreadPlan};
use punctual_platform::doorbell::LOOK_NS;

/// Whether it may take long to wake a core.
pub fn may_sleep_deeply(plan: &Plan) -> bool {
    plan.idle_latency.is_none()
}

/// Whether a task's frames are prepared, and have their first stage behind them, within a look each.
pub fn is_brief(plan: &Plan, task: TaskId) -> bool {
    let config = &plan.scheduler.tasks[task.index()];
    let stages = &plan.scheduler.models[config.model.index()].stages;
    let alone = stages.first().and_then(|stage| stage.times.first());
    let budget = alone.map(|time| time.on[config.partition.index()].budget);
    let is_short = |time: Nanos| time.as_nanos() <= LOOK_NS;
    may_sleep_deeply(plan) && is_short(config.prepare) && budget.is_some_and(is_short)
}

/// Whether a client's intake can attend the scheduler's bell: it runs whenever neither the scheduler nor a port does, and keeps no worker
/// from its core.
pub fn may_attend(threads: &[ThreadPlan], client: ClientId) -> bool {
    let of = |role| threads.iter().find(|thread| thread.role == role);
    let intake = of(Role::Intake { client: client.0 });
    let (Some(scheduler), Some(intake)) = (of(Role::Scheduler), intake) else {
        return false;
    };
    let is_worker = |role| matches!(role, Role::Worker { .. });
    let mut beside = threads.iter().filter(|other| other.core == intake.core);
    intake.core == scheduler.core
        && intake.priority.is_some()
        && scheduler.reservation.is_none()
        && !beside.any(|other| is_worker(other.role))
}

#[cfg(test)]
mod tests {
    use punctual_core::PartitionId;
    use punctual_plan::Reservation;

    use super::*;

    const WORKER: Role = Role::Worker {
        partition: PartitionId(0),
        unit: 0,
    };

    fn thread(role: Role, core: u16, priority: Option<u8>) -> ThreadPlan {
        ThreadPlan {
            role,
            core,
            priority,
            reservation: None,
        }
    }

    /// Of one client, on these cores.
    fn threads(scheduler: u16, intake: u16, worker: u16) -> [ThreadPlan; 3] {
        [
            thread(Role::Scheduler, scheduler, Some(43)),
            thread(Role::Intake { client: 0 }, intake, Some(40)),
            thread(WORKER, worker, Some(41)),
        ]
    }

    #[test]
    fn an_intake_on_the_scheduler_s_core_attends_its_bell() {
        let client = ClientId(0);
        assert!(may_attend(&threads(0, 0, 1), client));
        assert!(!may_attend(&threads(0, 0, 1), ClientId(1)));
        assert!(!may_attend(&threads(0, 2, 1), client), "another core");
        assert!(!may_attend(&threads(0, 0, 0), client), "a worker waits");
    }

    #[test]
    fn an_intake_that_others_may_keep_from_its_core_does_not_attend() {
        let mut ordinary = threads(0, 0, 1);
        ordinary[1].priority = None;
        assert!(!may_attend(&ordinary, ClientId(0)));
        let mut reserved = threads(0, 0, 1);
        reserved[0].reservation = Some(Reservation {
            runtime_ns: 1,
            period_ns: 2,
        });
        assert!(!may_attend(&reserved, ClientId(0)));
    }
}
