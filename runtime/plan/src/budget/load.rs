//! Real-time load of each core: ordinary threads must be left a part of it, or the kernel's
//! real-time throttling takes one by force, tens of milliseconds at a time.

use punctual_core::{Config, Nanos, TaskConfig};
use punctual_diagnostics::{Place, Problems, Rule};
use serde::Serialize;
use thiserror::Error;

use super::arrival::event_cost;
use super::schedulability::{LESS_LOAD, share};
use crate::resolve::{Placement, Resolved, Task, groups, of_frame};

/// Largest share of a core for promised work.
const LOAD_MAX: f64 = SHARE_MAX as f64 / 1000.0;

/// The same in thousandths; what is beyond promises may not take a core further either.
pub(crate) const SHARE_MAX: u16 = 900;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoreLoad {
    pub core: u16,
    /// Mandatory stages, preparations and events of all promised frames; 1 is all of the core.
    pub load: f64,
}

/// Real-time load beyond what a core can bear.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("real-time load of core {core} is {:.1}%, more than {:.0}%", load * 100.0, LOAD_MAX * 100.0)]
#[non_exhaustive]
pub struct CoreOverloaded {
    pub core: u16,
    /// Its load, 1 being all of it.
    pub load: f64,
}

impl Rule for CoreOverloaded {
    fn rule(&self) -> &'static str {
        "ordinary threads are left a tenth of each core"
    }

    fn help(&self) -> String {
        LESS_LOAD.into()
    }
}

/// The load of every core that the plan uses; notes those that have more than they can bear.
pub(super) fn check(
    resolved: &Resolved<'_>,
    config: &Config,
    problems: &mut Problems<'_>,
) -> Vec<CoreLoad> {
    let loads = of_cores(resolved, config);
    for load in &loads {
        if let Some((place, cause)) = overload(*load, &resolved.placement) {
            problems.add(&place, cause);
        }
    }
    loads
}

pub(super) fn of_cores(resolved: &Resolved<'_>, config: &Config) -> Vec<CoreLoad> {
    let cores = resolved.placement.used().into_iter();
    let load = |core| CoreLoad {
        core,
        load: of_core(core, resolved, config),
    };
    cores.map(load).collect()
}

/// Where a core has more than it can bear, and how much.
pub(super) fn overload(load: CoreLoad, placement: &Placement) -> Option<(Place, CoreOverloaded)> {
    let CoreLoad { core, load } = load;
    let place = || {
        placement.whose(core).map_or_else(
            || Place::of_key("daemon.cores"),
            |partition| partition.place.clone(),
        )
    };
    (load > LOAD_MAX).then(|| (place(), CoreOverloaded { core, load }))
}

/// Promised work on one core, 1 being all of it: mandatory stages, preparations, events. On a
/// shared core the stages' budgets contain arrivals already: they count twice, to be safe.
fn of_core(core: u16, resolved: &Resolved<'_>, config: &Config) -> f64 {
    let (tasks, placement) = (&resolved.tasks, &resolved.placement);
    let of_request = |task: &Task, settings: &TaskConfig| {
        let mut work = Nanos::ZERO;
        let partition = settings.partition.index();
        if placement.partitions[partition].cores.contains(&core) {
            let stages = &config.models[task.model].stages[..=usize::from(task.mandatory_exit)];
            work = stages.iter().fold(Nanos::ZERO, |sum, stage| {
                sum + stage.times[0].on[partition].budget + config.dispatch_cost
            });
        }
        if placement.intake_core(task) == core {
            work += settings.prepare;
        }
        if placement.first() == core {
            work += event_cost(&resolved.models[task.model]);
        }
        work
    };
    let (mut first, mut load) = (0, 0.0);
    for group in groups(tasks) {
        let work = |at: usize| of_request(&group[at], &config.tasks[first + at]);
        // Tasks of one table have its rate together.
        if let Some((period, _)) = group[0].promise() {
            load += share(of_frame(group, work), period);
        }
        first += group.len();
    }
    load
}
