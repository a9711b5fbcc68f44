//! Do layouts bring anything that places do not? Both let compute units follow demand, in virtual time:
//!
//!     cargo run --release -p punctual-evaluation --example layouts_or_places > docs/results/layouts.md
//!
//! *Both* cannot run: places belong to the homes of one layout. What is given for it is a bound that no rule of changing
//! reaches: in each second (each turn, where demand shifts by turns) the layout counts with which, with places, most of that
//! second's requests were right and on time, chosen in hindsight, without a change costing anything.

use std::collections::BTreeMap;

use punctual_core::{Criticality, Instant, Nanos, PunctualConfig, Verdict};
use punctual_evaluation::experiments::layouts::{self, BUSIER, TURN};
use punctual_evaluation::profiles::{robot, seeb, signs};
use punctual_evaluation::workloads;
use punctual_report::{Table, percent};
use punctual_simulator::layout;
use punctual_simulator::outcome::Served;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::{Model, Scenario};

const SEEDS: [u64; 3] = [1, 2, 3];
const SECOND: Nanos = Nanos::from_millis(1_000);
const LENGTH: Nanos = Nanos::from_millis(60_000);
/// How many times longer stages take on places than alone.
const FACTORS: [f64; 3] = [1.0, 1.25, 1.5];

/// A plan, and how its requests are drawn.
struct Setting {
    name: String,
    units: u16,
    load: String,
    /// Planned with further layouts.
    scenario: Scenario,
    factor: f64,
    /// Requests a second of a task that it is not the turn of, where demand shifts by turns.
    rate_hz: Option<f64>,
    window: Nanos,
}

/// Real-time requests, by the window in which they were meant to be submitted.
#[derive(Default)]
struct Right {
    all: u64,
    by_window: BTreeMap<(u64, u64), u64>,
}

impl Right {
    fn share(&self) -> f64 {
        self.by_window.values().sum::<u64>() as f64 / self.all.max(1) as f64
    }
}

impl Setting {
    fn run(&self, scenario: &Scenario, lending: bool) -> Right {
        let policy = PunctualConfig {
            lending,
            ..PunctualConfig::default()
        };
        let mut right = Right::default();
        for seed in SEEDS {
            let mut scenario = scenario.clone();
            if let Some(rate_hz) = self.rate_hz {
                scenario = layouts::drawn(scenario, rate_hz, seed);
            }
            let settings = Settings {
                seed,
                keep_requests: true,
            };
            let outcome = simulate(&scenario, &policy, self.factor, settings, &mut ());
            let outcome = outcome.expect("every layout passed the offline test");
            for request in &outcome.served {
                let task = &scenario.tasks[request.task.index()].config;
                if task.criticality == Criticality::RealTime {
                    right.all += 1;
                    if is_right(request) {
                        let window = request.intended.since(Instant::ZERO).as_nanos();
                        let window = window / self.window.as_nanos();
                        *right.by_window.entry((seed, window)).or_default() += 1;
                    }
                }
            }
        }
        right
    }

    /// Of all layouts the one that is best as the only one, in hindsight.
    fn best_alone(&self, one: &Scenario) -> f64 {
        let all = self
            .scenario
            .alternatives
            .iter()
            .chain([&self.scenario.planned]);
        let alone = all.map(|layout| {
            let planned = layout.clone();
            self.run(
                &Scenario {
                    planned,
                    ..one.clone()
                },
                false,
            )
            .share()
        });
        alone.fold(0.0, f64::max)
    }

    /// With places on the homes of each layout: the planned one's first.
    fn with_places(&self, corun: f64) -> Vec<Right> {
        let cell = layout::cell_size(self.scenario.board.units);
        let planned = layout::aligned(&self.scenario, cell);
        let homes = [planned, self.scenario.planned.clone()].into_iter();
        let homes = homes.chain(self.scenario.alternatives.iter().cloned());
        let homes = homes.map(|homes| {
            let scenario = Scenario {
                alternatives: Vec::new(),
                ..self.scenario.clone()
            };
            let scenario = scenario.with_places(homes, cell, corun);
            self.run(&scenario, true)
        });
        homes.collect()
    }
}

fn is_right(request: &Served) -> bool {
    request.correct && request.verdict == Some(Verdict::OnTime)
}

/// The best of all in each window.
fn bound(all: &[Right]) -> f64 {
    let windows = all.iter().flat_map(|right| right.by_window.iter());
    let mut best = BTreeMap::new();
    for (window, &count) in windows {
        let most: &mut u64 = best.entry(window).or_default();
        *most = (*most).max(count);
    }
    best.values().sum::<u64>() as f64 / all[0].all.max(1) as f64
}

/// Networks of which each in turn is asked four times as often as the others, planned for the mean.
fn shifting(name: &str, units: u16, models: Vec<Model>, rate_hz: f64) -> Setting {
    Setting {
        name: name.to_owned(),
        units,
        load: format!("{rate_hz:.0} and {:.0}/s", rate_hz * BUSIER),
        scenario: layouts::shifting(models, units, rate_hz, LENGTH),
        factor: 1.0,
        rate_hz: Some(rate_hz),
        window: TURN,
    }
}

fn settings() -> Vec<Setting> {
    let mut all = Vec::new();
    for units in [41, 20, 6] {
        for rate_hz in [10.0, 20.0, 40.0, 80.0] {
            all.push(shifting(
                "four networks in turn",
                units,
                seeb::models(),
                rate_hz,
            ));
        }
    }
    for rate_hz in [10.0, 20.0, 40.0] {
        let models = vec![robot::detection(), signs::model()];
        all.push(shifting("robot's two in turn", 2, models, rate_hz));
    }
    for workload in workloads::all() {
        let scenario = workload.scenario();
        let small = scenario.lending.is_some() && scenario.length <= Nanos::from_millis(120_000);
        if !small || scenario.tasks.len() < 2 {
            continue;
        }
        let scenario = scenario.with_alternatives(BUSIER);
        if scenario.alternatives.is_empty() {
            eprintln!("{}: the planner finds no further layout", workload.name);
            continue;
        }
        for factor in [1.0, 2.0, 4.0, 8.0] {
            all.push(Setting {
                name: format!("`{}`", workload.name),
                units: scenario.board.units,
                load: format!("{factor}x"),
                scenario: scenario.clone(),
                factor,
                rate_hz: None,
                window: SECOND,
            });
        }
    }
    all
}

fn main() {
    let mut headings = vec!["demand".to_owned(), "units".to_owned(), "load".to_owned()];
    headings.extend(["layouts", "one layout", "layouts that follow"].map(str::to_owned));
    headings.extend(FACTORS.map(|factor| format!("places at {factor}")));
    headings.extend(FACTORS.map(|factor| format!("the same, best homes at {factor}")));
    headings.extend(FACTORS.map(|factor| format!("both at {factor}, at most")));
    headings.insert(5, "one layout, the best".to_owned());
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings, 3);
    for setting in settings() {
        eprintln!("{} {} {}", setting.name, setting.units, setting.load);
        let without = Scenario {
            lending: None,
            ..setting.scenario.clone()
        };
        let one = Scenario {
            alternatives: Vec::new(),
            ..without.clone()
        };
        let mut row = vec![
            setting.name.clone(),
            setting.units.to_string(),
            setting.load.clone(),
            (1 + without.alternatives.len()).to_string(),
            percent(setting.run(&one, false).share()),
            percent(setting.best_alone(&one)),
            percent(setting.run(&without, false).share()),
        ];
        let places = FACTORS.map(|corun| setting.with_places(corun));
        row.extend(places.iter().map(|all| percent(all[0].share())));
        // Of all layouts the one that is best as the only one, in hindsight.
        let best = |all: &Vec<Right>| all.iter().map(Right::share).fold(0.0, f64::max);
        row.extend(places.iter().map(|all| percent(best(all))));
        row.extend(places.iter().map(|all| percent(bound(all))));
        table.row(row);
    }
    print!("{}", table.markdown());
}
