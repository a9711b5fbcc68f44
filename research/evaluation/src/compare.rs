//! One workload under several policies, loads and seeds, side by side.

use punctual_plan::PolicyChoice;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual_core::{Instant, PolicySpec};

use crate::bound::{self, Knowledge};
use crate::report::{Record, Recorder, Row};
use punctual_simulator::outcome::Outcome;
use punctual_simulator::run::{RunError, Settings, simulate};
use punctual_simulator::scenario::Scenario;

#[derive(Clone, Debug)]
pub struct Comparison<'s> {
    pub scenario: &'s Scenario,
    pub policies: &'s [PolicyChoice],
    /// Factors on the workload's rates.
    pub loads: &'s [f64],
    /// Seeds 0 to this, less one.
    pub seeds: u64,
    /// Whether to compute what no scheduler could exceed.
    pub bound: bool,
    /// Whether to record what ran where, of the first seed at the last load.
    pub charts: bool,
}

#[derive(Debug)]
pub struct Run {
    pub row: Row,
    /// All that became of it, without the single requests.
    pub outcome: Outcome,
    /// What ran where, if recording was asked for.
    pub record: Record,
}

impl Comparison<'_> {
    #[must_use]
    pub fn runs(&self) -> usize {
        self.policies.len() * self.loads.len() * self.seeds as usize
    }

    /// Makes all runs on up to `jobs` threads, and calls `done` after each. Runs come back by
    /// policy, load and seed, however many threads made them.
    pub fn run(&self, jobs: NonZeroUsize, done: impl Fn() + Sync) -> Result<Vec<Run>, RunError> {
        let runs = self.runs();
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<Run, RunError>>>> =
            (0..runs).map(|_| Mutex::new(None)).collect();
        let work = || {
            // Relaxed: the counter only hands out numbers; results travel by the mutexes.
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(slot) = results.get(index) else {
                    return;
                };
                let result = self.one(index);
                *slot.lock().expect("no run panics while it holds its place") = Some(result);
                done();
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..jobs.get().min(runs.max(1)) {
                scope.spawn(work);
            }
            work();
        });
        let taken = results.into_iter().map(|slot| {
            let result = slot.into_inner().expect("no run panicked");
            result.expect("every place was worked on")
        });
        taken.collect()
    }

    fn one(&self, index: usize) -> Result<Run, RunError> {
        let per_policy = self.loads.len() * self.seeds as usize;
        let policy = &self.policies[index / per_policy];
        let load_index = index % per_policy / self.seeds as usize;
        let (load, seed) = (self.loads[load_index], index as u64 % self.seeds);
        let config = self.scenario.config(policy);
        let wanted = self.charts && seed == 0 && load_index + 1 == self.loads.len();
        let mut recorder = wanted.then(|| Recorder::new(&config, Instant::ZERO));
        let mut outcome = simulate(
            self.scenario,
            policy,
            load,
            Settings {
                seed,
                keep_requests: self.bound,
            },
            &mut recorder,
        )?;
        let name = &self.scenario.name;
        let mut row = Row::new(name, policy.name(), load, seed, &outcome.summary());
        if self.bound {
            row.accuracy_bound =
                bound::of_run(self.scenario, &outcome.served, Knowledge::Answers).accuracy();
            outcome.served = Vec::new();
        }
        Ok(Run {
            row,
            outcome,
            record: recorder.map(Recorder::into_record).unwrap_or_default(),
        })
    }
}
