//! Experiments: what the scheduler must reach, each run by one command and written down in
//! `docs/results`. `punctual simulate --experiment NAME` prints an experiment's tables.

mod ablation;
pub mod clockwork;
mod delivery;
mod demotion;
pub mod disb;
mod lending;
mod nexus_drop;
mod overload;
mod pipelines;
mod planner;
pub mod prefix;
pub mod seeb;
mod spill;

use punctual_core::{Criticality, Nanos, PolicySpec};
use punctual_plan::PolicyChoice;

use punctual_simulator::audit::Auditor;
use punctual_simulator::outcome::Outcome;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::{Summary, Tally};

#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Where its results are written down.
    pub results: &'static str,
    /// Runs it and gives its tables as Markdown. A pure function: the same text each time.
    pub run: fn() -> String,
}

#[must_use]
pub fn all() -> Vec<Experiment> {
    let single = [
        ablation::EXPERIMENT,
        delivery::EXPERIMENT,
        demotion::EXPERIMENT,
        disb::EXPERIMENT,
        lending::EXPERIMENT,
        nexus_drop::EXPERIMENT,
        overload::EXPERIMENT,
        pipelines::EXPERIMENT,
        planner::EXPERIMENT,
        prefix::EXPERIMENT,
        seeb::EXPERIMENT,
        spill::EXPERIMENT,
    ];
    single.into_iter().chain(clockwork::EXPERIMENTS).collect()
}

#[must_use]
pub fn by_name(name: &str) -> Option<Experiment> {
    all().into_iter().find(|experiment| experiment.name == name)
}

/// What becomes of a built-in workload's real-time requests, over some seeds.
fn real_time(scenario: &Scenario, policy: &dyn PolicySpec, load: f64, seeds: &[u64]) -> Summary {
    let mut all = Tally::default();
    let mut duration = Nanos::ZERO;
    for &seed in seeds {
        let settings = Settings {
            seed,
            keep_requests: false,
        };
        let outcome = simulate(scenario, policy, load, settings, &mut ());
        let outcome = outcome.expect("a built-in workload runs");
        duration += outcome.duration;
        for (task, tally) in scenario.tasks.iter().zip(&outcome.tasks) {
            if task.config.criticality == Criticality::RealTime {
                all.add(tally);
            }
        }
    }
    Summary::new(&all, duration)
}

/// A policy that there is, with its default parameters.
fn policy_named(name: &str) -> PolicyChoice {
    let all = punctual_baselines::all();
    all.by_name(name).expect("a policy of that name").clone()
}

/// A run under the auditor, who must have nothing against it.
fn audited(scenario: &Scenario, policy: &dyn PolicySpec, seed: u64) -> Outcome {
    let auditor = Auditor::new(&scenario.config(policy), policy.contract());
    let mut auditor = auditor.with_pipelines(scenario.pipelines());
    let settings = Settings {
        seed,
        keep_requests: false,
    };
    let outcome = simulate(scenario, policy, 1.0, settings, &mut auditor);
    assert_eq!(auditor.findings().first(), None);
    outcome.expect("plan and pattern are valid")
}
