//! Real-time load of each core: ordinary threads must be left a part of it, or the kernel's
//! real-time throttling takes one by force, tens of milliseconds at a time.

use punctual_core::{Config, Nanos};

use crate::arrival::event_cost;
use crate::cause::Cause;
use crate::models::Model;
use crate::placement::Placement;
use crate::problem::{Place, Problems};
use crate::schedulability::share;
use crate::tasks::Task;

/// Largest share of a core for promised work.
const LOAD_MAX: f64 = 0.9;

/// Notes every core with more promised work than it can bear.
pub(crate) fn check(
    tasks: &[Task],
    models: &[Model<'_>],
    placement: &Placement,
    config: &Config,
    problems: &mut Problems<'_>,
) {
    for core in placement.used() {
        let load = of_core(core, tasks, models, placement, config);
        if load > LOAD_MAX {
            let partition = placement
                .partitions
                .iter()
                .find(|p| p.cores.contains(&core));
            let place = partition.map_or_else(
                || Place {
                    key: "daemon.cores".to_owned(),
                    span: None,
                },
                |partition| partition.place.clone(),
            );
            let limit = LOAD_MAX;
            problems.add(&place, Cause::CoreOverloaded { core, load, limit });
        }
    }
}

/// Promised work on one core, 1 being all of it: mandatory stages, preparations, events.
pub(crate) fn of_core(
    core: u16,
    tasks: &[Task],
    models: &[Model<'_>],
    placement: &Placement,
    config: &Config,
) -> f64 {
    let mut load = 0.0;
    for (position, (task, settings)) in tasks.iter().zip(&config.tasks).enumerate() {
        let Some((period, _)) = task.promise() else {
            continue;
        };
        if placement.partitions[task.partition].cores.contains(&core) {
            let stages = &config.models[task.model].stages[..=usize::from(task.mandatory_exit)];
            let work = stages.iter().fold(Nanos::ZERO, |sum, stage| {
                sum + stage.times[0].on[task.partition].budget + config.dispatch_cost
            });
            load += share(work, period);
        }
        if placement.intake_core(position) == core {
            load += share(settings.prepare, period);
        }
        if placement.first() == core {
            load += share(event_cost(&models[task.model]), period);
        }
    }
    load
}
