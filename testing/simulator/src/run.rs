//! One run: a scenario under a policy, from the first submission to the last verdict.

use crate::virtual_device::VirtualDevice;
use punctual_core::{Actions, Config, ConfigError, PolicySpec, Scheduler};
use punctual_executor::{Events, drive};
use punctual_types::Random;
use thiserror::Error;

use crate::arrivals::{PatternError, Source};
use crate::clients::Clients;
use crate::device::TimedDevice;
use crate::ledger::Ledger;
use crate::observer::Observer;
use crate::outcome::{Effort, Ending, Outcome};
use crate::pipelines::Pipelines;
use crate::recorded;
use crate::samples::{Answers, Samples};
use crate::scenario::Scenario;
use crate::timing::Draws;
use crate::world::VirtualWorld;

/// What a run is told besides its scenario and policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Everything that is left to chance follows from this.
    pub seed: u64,
    /// Whether the outcome lists each request (48 bytes each).
    pub keep_requests: bool,
}

/// How many events of one instant the scheduler learns of before it is asked for its timer again:
/// more than a frame from each camera of any of our workloads.
const EVENTS: usize = 256;

/// Why a run could not be made.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunError {
    /// The scheduler refuses the plan that the scenario makes for the policy.
    #[error("policy `{policy}` cannot run this workload: {reason}")]
    Plan {
        policy: &'static str,
        reason: ConfigError,
    },
    /// The scenario's arrivals cannot be played at this load.
    #[error("at a load of {load}: {reason}")]
    Arrivals { load: f64, reason: PatternError },
}

/// Runs `scenario` with its rates times `load` under `policy`. A pure function of its arguments.
pub fn simulate<O: Observer>(
    scenario: &Scenario,
    policy: &dyn PolicySpec,
    load: f64,
    settings: Settings,
    observer: &mut O,
) -> Result<Outcome, RunError> {
    if let Some(recorded) = &scenario.recorded {
        return recorded::simulate(scenario, recorded, policy, load, settings, observer);
    }
    let arrivals = scenario
        .arrivals(load, &Random::new(settings.seed))
        .map_err(|reason| RunError::Arrivals { load, reason })?;
    run(scenario, policy, arrivals, settings, observer).map_err(|reason| RunError::Plan {
        policy: policy.name(),
        reason,
    })
}

/// Runs `scenario`, with the submissions of `source`, under `policy`. A pure function of its arguments.
pub fn run<S: Source, O: Observer>(
    scenario: &Scenario,
    policy: &dyn PolicySpec,
    source: S,
    settings: Settings,
    observer: &mut O,
) -> Result<Outcome, ConfigError> {
    let config = scenario.config(policy);
    run_plan(scenario, &config, policy, source, settings, observer)
}

/// As [`run`], with a plan that is more than the scenario makes of itself: a share of the time, say. Its models and
/// tasks are the scenario's.
pub fn run_plan<S: Source, O: Observer>(
    scenario: &Scenario,
    config: &Config,
    policy: &dyn PolicySpec,
    source: S,
    settings: Settings,
    observer: &mut O,
) -> Result<Outcome, ConfigError> {
    let device = VirtualDevice::new(
        config.models.clone(),
        &config.partitions,
        config.request_buffers,
        Draws::new(scenario.durations.clone(), &scenario.faults, settings.seed),
        Answers::new(Samples::new(scenario), config.request_buffers),
    )
    .with_contention(scenario.board.contention_permille)
    .with_cache(config.pages);
    let ran = run_on(device, scenario, config, policy, source, settings, observer);
    ran.map(|(outcome, _)| outcome)
}

/// As [`run_plan`], on a device of the caller's, which has the plan's models and partitions. Gives it back as it is at
/// the end.
pub fn run_on<D: TimedDevice, S: Source, O: Observer>(
    device: D,
    scenario: &Scenario,
    config: &Config,
    policy: &dyn PolicySpec,
    source: S,
    settings: Settings,
    observer: &mut O,
) -> Result<(Outcome, D), ConfigError> {
    let mut scheduler = Scheduler::new(config, policy)?;
    let seed = settings.seed;
    let clients = Clients::new(
        source,
        Pipelines::new(&scenario.tasks, &config.tasks, config.egress_bound, seed),
        &scenario.faults,
        scenario.durations.preparation_least,
        seed,
    );
    let ledger = Ledger::new(
        Samples::new(scenario),
        config.tasks.len(),
        seed,
        settings.keep_requests,
    );
    let mut world = VirtualWorld::new(
        &config.tasks,
        &config.models,
        config.partitions.len(),
        clients,
        device,
        ledger,
        observer,
    )
    .with_faults(&scenario.faults);
    let mut actions = Actions::for_config(config);
    drive(
        &mut scheduler,
        &mut world,
        &mut Events::with_capacity(EVENTS),
        &mut actions,
    );
    Ok(world.outcome(scenario, &scheduler))
}

impl<S: Source, O: Observer, D: TimedDevice> VirtualWorld<'_, S, O, D> {
    fn outcome(mut self, scenario: &Scenario, scheduler: &Scheduler) -> (Outcome, D) {
        self.end();
        let ledger = self.ledger;
        let outcome = Outcome {
            ending: self.ending.unwrap_or(Ending::Drained),
            ended: self.now,
            effort: Effort {
                busy: self.device.busy() as f64,
                units: u32::from(scenario.board.units) * u32::from(scenario.board.workers),
                stray_replies: ledger.stray,
                stale_events: scheduler.stale_events(),
                ..self.effort
            },
            total: ledger.total,
            tasks: ledger.tasks,
            queries: self.clients.into_queries(),
            served: ledger.served,
            times: None,
            duration: scenario.length,
        };
        (outcome, self.device)
    }
}
