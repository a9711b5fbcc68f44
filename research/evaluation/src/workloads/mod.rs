//! Built-in workloads by name. Each module says where its workload comes from and where it departs from its source.

pub mod clockwork;
mod disb;
pub mod nexus;
mod robot;
pub(crate) mod seeb;

use thiserror::Error;

use punctual_diagnostics::nearest;
use punctual_simulator::scenario::Scenario;

/// A built-in workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    build: fn() -> Scenario,
}

/// All of them, family by family.
#[must_use]
pub fn all() -> Vec<Workload> {
    [
        seeb::WORKLOADS,
        disb::WORKLOADS,
        clockwork::WORKLOADS,
        nexus::WORKLOADS,
        robot::WORKLOADS,
    ]
    .concat()
}

pub fn by_name(name: &str) -> Result<Scenario, UnknownWorkload> {
    let all = all();
    let Some(workload) = all.iter().find(|workload| workload.name == name) else {
        let names: Vec<&str> = all.iter().map(|workload| workload.name).collect();
        return Err(UnknownWorkload {
            name: name.into(),
            nearest: nearest(name, &names).map(str::to_owned),
        });
    };
    Ok(workload.scenario())
}

impl Workload {
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let mut scenario = (self.build)();
        scenario.name = self.name.into();
        scenario.about = self.about.into();
        scenario
    }
}

/// There is no workload of that name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no workload `{name}`{}; `punctual compare --list` lists all", 
    .nearest.as_ref().map(|nearest| format!(" (did you mean `{nearest}`?)")).unwrap_or_default())]
pub struct UnknownWorkload {
    pub name: String,
    pub nearest: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{PolicySpec, Scheduler};

    #[test]
    fn every_policy_takes_the_plan_of_every_workload_whose_weights_it_can_page() {
        for workload in all() {
            let scenario = workload.scenario();
            for policy in punctual_baselines::all().iter() {
                if scenario.board.pages > 0 && !policy.contract().pages_weights {
                    continue;
                }
                if let Err(error) = Scheduler::new(&scenario.config(policy), policy) {
                    panic!("{} with {}: {error}", workload.name, policy.name());
                }
            }
        }
    }

    #[test]
    fn every_workload_can_be_played_and_asks_something() {
        use punctual_simulator::arrivals::Source;
        use punctual_types::Random;
        for workload in all() {
            let scenario = workload.scenario();
            for load in [0.5, 4.0] {
                let arrivals = scenario.arrivals(load, &Random::new(1));
                let arrivals =
                    arrivals.unwrap_or_else(|error| panic!("{}: {error}", workload.name));
                assert!(arrivals.peek().is_some(), "{}", workload.name);
            }
        }
    }

    #[test]
    fn names_are_unique_and_a_misspelt_one_brings_the_nearest() {
        let mut names: Vec<&str> = all().iter().map(|workload| workload.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let error = by_name("seeb-poison").expect_err("misspelt").to_string();
        assert!(error.contains("did you mean `seeb-poisson`?"), "{error}");
        let error = by_name("xyz").expect_err("nothing like it").to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }
}
