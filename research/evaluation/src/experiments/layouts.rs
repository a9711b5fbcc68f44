//! Layouts that follow demand: four networks, of which each in turn is asked four times as often
//! as the others for five seconds, under `punctual` with the one layout that the planner finds
//! best for the mean, with the one of all that does best in hindsight, and with all of them: those
//! that the planner finds best for each turn besides.

use punctual_core::{
    Action, Config, Instant, ModelId, Nanos, PartitionId, PolicySpec, PunctualConfig, StageId,
};

use super::Experiment;
use crate::profiles::seeb;
use punctual_report::{Table, percent};
use punctual_simulator::arrivals::{Pattern, TraceEntry};
use punctual_simulator::audit::Auditor;
use punctual_simulator::observer::Observer;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::{Board, Model, Scenario, Task};
use punctual_simulator::summary::{Summary, Tally};
use punctual_types::Random;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "layouts",
    about: "demand that shifts between four networks: one layout against one for each turn",
    results: "docs/results/layouts.md",
    run: || table(&DEVICES, &RATES_HZ, Nanos::from_millis(60_000), &SEEDS).markdown(),
};

/// TPCs: the whole of SEEB-GPU's device, where each network can have as many as it can use, and parts of it.
const DEVICES: [u16; 3] = [41, 20, 6];
/// Requests a second of a network that it is not the turn of.
const RATES_HZ: [f64; 4] = [10.0, 20.0, 40.0, 80.0];
const SEEDS: [u64; 3] = [1, 2, 3];
/// How much more often a network is asked in its turn.
pub const BUSIER: f64 = 4.0;
pub const TURN: Nanos = Nanos::from_millis(5_000);
/// The deadline in times of the whole network on the whole device, as in SEEB-GPU.
const DEADLINE_FACTOR: f64 = 1.2;
/// Masks of compute units belong to each launch, so a change needs no more than launches: the time of five of them.
const SWITCH_COST: Nanos = Nanos::from_micros(100);

/// SEEB-GPU's four networks, without places: what layouts bring is measured against one layout.
fn four_networks(units: u16, rate_hz: f64, length: Nanos) -> Scenario {
    Scenario {
        lending: None,
        ..shifting(seeb::models(), units, rate_hz, length)
    }
}

/// Networks on this number of compute units, each in turn busy, planned for their mean rates, with places and with the layouts
/// for each turn. Without requests: see [`drawn`].
#[must_use]
pub fn shifting(models: Vec<Model>, units: u16, rate_hz: f64, length: Nanos) -> Scenario {
    let board = Board {
        switch_cost: SWITCH_COST,
        ..Board::of(units)
    };
    let mut scenario = Scenario::new(models, Vec::new(), board, length);
    let others = scenario.models.len() as f64 - 1.0;
    let mean_hz = rate_hz * (others + BUSIER) / (others + 1.0);
    for (index, network) in scenario.models.iter().enumerate() {
        let model = ModelId(index as u16);
        let last = StageId(network.stages.len() as u8 - 1);
        let alone = scenario.time(model, last, 1, units).as_nanos() as f64;
        let deadline = Nanos::new((alone * DEADLINE_FACTOR) as u64);
        let pattern = Pattern::Poisson { rate_hz: mean_hz };
        let task = Task::real_time(&network.name, model, deadline, pattern);
        scenario.tasks.push(task);
    }
    scenario.planned().with_alternatives(BUSIER)
}

/// With the requests that `seed` draws.
#[must_use]
pub fn drawn(mut scenario: Scenario, rate_hz: f64, seed: u64) -> Scenario {
    let count = scenario.tasks.len();
    for (index, task) in scenario.tasks.iter_mut().enumerate() {
        task.pattern = Pattern::Trace {
            entries: turns(index, count, rate_hz, scenario.length, seed),
            span: None,
        };
    }
    scenario
}

/// Poisson arrivals at `rate_hz`, and at [`BUSIER`] times that in every turn of network `index`.
fn turns(index: usize, count: usize, rate_hz: f64, length: Nanos, seed: u64) -> Vec<TraceEntry> {
    let mut random = Random::new(seed).stream("shifting", index as u64);
    let mut entries = Vec::new();
    let mut at = 0.0;
    loop {
        // Of arrivals at the highest rate, those outside of its turns are thinned out.
        at += random.exponential(1e9 / (rate_hz * BUSIER));
        let time = Nanos::new(at as u64);
        if time >= length {
            return entries;
        }
        let turn = (time.as_nanos() / TURN.as_nanos()) as usize % count;
        if random.chance(1.0 / BUSIER) || turn == index {
            entries.push(TraceEntry {
                at: time,
                deadline: None,
            });
        }
    }
}

/// Counts changes between layouts, as far as they show in where things run.
struct Changes {
    /// Each layout's partitions, by task; task and network are the same here.
    layouts: Vec<Vec<PartitionId>>,
    /// The layouts that explain all that ran since the last change.
    possible: Vec<usize>,
    count: u64,
}

impl Changes {
    fn new(config: &Config) -> Self {
        let own = config.tasks.iter().map(|task| task.partition).collect();
        let others = config
            .layouts
            .iter()
            .map(|layout| layout.partitions.clone());
        Self {
            layouts: std::iter::once(own).chain(others).collect(),
            possible: vec![0],
            count: 0,
        }
    }

    fn ran(&mut self, task: usize, partition: PartitionId) {
        let here = |layout: &usize| self.layouts[*layout][task] == partition;
        if self.possible.iter().any(here) {
            let left = self.possible.iter().copied().filter(here).collect();
            self.possible = left;
        } else {
            self.possible = (0..self.layouts.len()).filter(here).collect();
            self.count += 1;
        }
    }
}

impl Observer for Changes {
    fn action(&mut self, _now: Instant, action: &Action) {
        if let Action::Infer(infer) = action {
            self.ran(infer.model.index(), infer.partition);
        }
    }
}

/// What came of a scenario over all seeds.
struct Outcome {
    summary: Summary,
    layouts: usize,
    changes: u64,
    findings: u64,
}

impl Outcome {
    /// Admitted, and not answered in time.
    fn broken(&self) -> u64 {
        self.summary.late + self.summary.failed.sum() + self.summary.lost
    }

    fn missed(&self) -> f64 {
        self.summary.missed as f64 / self.summary.submitted.max(1) as f64
    }
}

/// Runs a scenario with the requests of each seed, under the auditor.
fn outcome(scenario: &Scenario, rate_hz: f64, seeds: &[u64]) -> Outcome {
    let policy = PunctualConfig::default();
    let config = scenario.config(&policy);
    let mut all = Tally::default();
    let mut duration = Nanos::ZERO;
    let (mut changes, mut findings) = (0, 0);
    for &seed in seeds {
        let scenario = drawn(scenario.clone(), rate_hz, seed);
        let mut watch = (
            Auditor::new(&config, policy.contract()),
            Changes::new(&config),
        );
        let settings = Settings {
            seed,
            keep_requests: false,
        };
        let outcome = simulate(&scenario, &policy, 1.0, settings, &mut watch);
        let outcome = outcome.expect("every layout passed the offline test");
        all.add(&outcome.total);
        duration += outcome.duration;
        changes += watch.1.count;
        findings += watch.0.findings().total();
    }
    Outcome {
        summary: Summary::new(&all, duration),
        layouts: config.layouts.len() + 1,
        changes,
        findings,
    }
}

/// The scenario with each of its layouts as the only one, the planned one first.
fn single(several: &Scenario) -> Vec<Scenario> {
    let layouts = std::iter::once(&several.planned).chain(&several.alternatives);
    let only = |layout: &Vec<_>| Scenario {
        planned: layout.clone(),
        alternatives: Vec::new(),
        ..several.clone()
    };
    layouts.map(only).collect()
}

fn table(devices: &[u16], rates_hz: &[f64], length: Nanos, seeds: &[u64]) -> Table {
    let mut table = Table::new(
        &[
            "TPCs",
            "requests/s",
            "layouts",
            "missed",
            "admitted and missed",
            "accuracy of answers",
            "accuracy of all",
            "changes",
            "findings",
        ],
        0,
    );
    for &units in devices {
        for &rate_hz in rates_hz {
            let several = four_networks(units, rate_hz, length);
            let alone = single(&several).into_iter();
            let mut alone: Vec<Outcome> =
                alone.map(|only| outcome(&only, rate_hz, seeds)).collect();
            let mut row = |layouts: String, result: &Outcome| {
                table.row([
                    units.to_string(),
                    format!("{rate_hz:.0} and {:.0}", rate_hz * BUSIER),
                    layouts,
                    percent(result.missed()),
                    result.broken().to_string(),
                    percent(result.summary.accuracy),
                    percent(result.summary.accuracy_on_time),
                    result.changes.to_string(),
                    result.findings.to_string(),
                ]);
            };
            row("1".into(), &alone[0]);
            let right = |result: &Outcome| result.summary.accuracy_on_time;
            alone.sort_by(|a, b| right(b).total_cmp(&right(a)));
            row("1, in hindsight".into(), &alone[0]);
            let several = outcome(&several, rate_hz, seeds);
            row(several.layouts.to_string(), &several);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Nanos = Nanos::from_millis(20_000);

    #[test]
    fn layouts_change_with_demand_to_the_good_of_accuracy_and_no_promise_is_broken() {
        let several = four_networks(41, 20.0, LENGTH);
        let one = outcome(&single(&several)[0], 20.0, &[1]);
        let several = outcome(&several, 20.0, &[1]);
        assert_eq!((one.layouts, one.changes), (1, 0));
        assert!(several.layouts > 1);
        assert!(several.changes >= 3, "{} changes", several.changes);
        for result in [&one, &several] {
            assert_eq!((result.broken(), result.findings), (0, 0));
        }
        let right = |result: &Outcome| result.summary.accuracy_on_time;
        assert!(right(&several) > right(&one));
    }

    #[test]
    fn a_network_is_asked_four_times_as_often_in_its_turn() {
        let entries = turns(2, 4, 50.0, LENGTH, 7);
        let second = |entry: &TraceEntry| entry.at.as_nanos() / 1_000_000_000;
        let own = entries.iter().filter(|e| (10..15).contains(&second(e)));
        let (own, all) = (own.count() as f64, entries.len() as f64);
        let ratio = (own / 5.0) / ((all - own) / 15.0);
        assert!((ratio - BUSIER).abs() < 0.8, "{ratio}");
    }

    #[test]
    fn a_change_is_counted_when_no_one_layout_explains_what_ran() {
        let layouts = [[0, 1], [2, 1], [2, 3]].map(|layout| layout.map(PartitionId).to_vec());
        let mut changes = Changes {
            layouts: layouts.to_vec(),
            possible: vec![0],
            count: 0,
        };
        let mut after = |task, partition| {
            changes.ran(task, PartitionId(partition));
            changes.count
        };
        assert_eq!([after(0, 0), after(1, 1)], [0, 0]);
        // To the second or the third, which the next one tells.
        assert_eq!([after(0, 2), after(1, 3), after(0, 2)], [1, 1, 1]);
        assert_eq!(after(1, 1), 2);
    }
}
