//! The lines of the log about the plan when the daemon begins to serve: for people who read no other file.

use std::path::Path;

use punctual_core::{Criticality, PolicySpec as _, TaskId};
use punctual_events::DaemonEvent;
use punctual_plan::{ClientSlotPlan, PartitionPlan, Plan, TaskPlan, UnitUse};

use crate::report::metrics_socket;

/// Where it serves, on what, and for each task what is promised.
pub fn introduction(plan: &Plan, socket: &Path) -> Vec<DaemonEvent> {
    let mut events = vec![DaemonEvent::Listening {
        socket: socket.display().to_string(),
        metrics: metrics_socket(socket).display().to_string(),
        policy: plan.policy.name().to_owned(),
    }];
    // Places are many, and consist of the units of others.
    let partitions = plan.partitions.iter().filter(|at| !at.is_place());
    events.extend(partitions.map(partition));
    // Of those that share clients the first says what all are promised.
    let mut slots = plan.client_slots.clone();
    slots.dedup();
    events.extend(slots.into_iter().map(|slot| of_tasks(plan, slot)));
    events
}

fn partition(partition: &PartitionPlan) -> DaemonEvent {
    let cores = numbers(&partition.cores);
    let (units, leader) = match partition.usage {
        UnitUse::Left => (
            "what others leave of the GPU".to_owned(),
            format!("led by core {cores}"),
        ),
        _ if partition.tpcs.is_empty() => (
            format!("device {}", partition.device.name()),
            format!("cores {cores}"),
        ),
        _ => (
            format!("{} TPCs", partition.tpcs.len()),
            format!("led by core {cores}"),
        ),
    };
    DaemonEvent::PartitionServed {
        partition: partition.name.clone(),
        units,
        leader,
    }
}

fn of_tasks(plan: &Plan, slot: ClientSlotPlan) -> DaemonEvent {
    let (id, task) = (slot.task, plan.task(slot.task));
    let each = (slot.tasks > 1).then(|| format!("one of {} tasks", slot.tasks));
    let clients = match task.client_slots.len() {
        1 => "1 client".to_owned(),
        clients => format!("{clients} clients"),
    };
    let rate = task.hz().map(|hz| format!("{hz:.1} Hz in all"));
    let deadline = task
        .deadline
        .map(|deadline| format!("due {deadline} after capture"));
    let frame = format!("{} {}", task.frame.format.name(), task.frame.size);
    let terms = [each, Some(clients), Some(frame), rate, deadline];
    DaemonEvent::TaskServed {
        task: task.clients_of.clone(),
        model: plan.models[task.model.index()].name.clone(),
        partition: plan.partitions[task.partition.index()].name.clone(),
        terms: terms.into_iter().flatten().collect::<Vec<_>>().join(", "),
        promise: promise(plan, id, task),
    }
}

fn promise(plan: &Plan, id: TaskId, task: &TaskPlan) -> String {
    if !plan.policy.contract().promises {
        return "no promises under this policy".to_owned();
    }
    match task.criticality {
        Criticality::BestEffort => "best effort, as other tasks leave time".to_owned(),
        Criticality::RealTime if !plan.scheduler.tasks[id.index()].reserved => {
            "no time is reserved: a frame that is accepted is answered in time".to_owned()
        }
        Criticality::RealTime => format!(
            "promised to exit {} of 0 to {}, deeper as time allows",
            task.mandatory_exit.0,
            plan.models[task.model.index()].stages - 1
        ),
    }
}

fn numbers(numbers: &[u16]) -> String {
    let numbers = numbers.iter().map(u16::to_string);
    numbers.collect::<Vec<_>>().join(",")
}
