//! Lending: stages on cells and on idle compute units of others, compared with the same plan without. Places that are slower
//! than profiled alone, as neighbours share memory with them, have longer budgets.

use punctual_core::{Criticality, PolicySpec, PunctualConfig};

use super::Experiment;
use crate::workloads;
use punctual_report::{Table, percent};
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Tally;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "lending",
    about: "batch, depth and width together: stages on cells and on idle units of others, by co-run factor",
    results: "docs/results/lending.md",
    run,
};

const SEEDS: [u64; 3] = [1, 2, 3];
const LOADS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// How many times longer stages take on places than alone.
const FACTORS: [f64; 4] = [1.0, 1.1, 1.25, 1.5];

const TRACES: [&str; 10] = [
    "seeb-poisson-collected",
    "seeb-poisson",
    "seeb-poisson-10",
    "seeb-poisson-15",
    "seeb-poisson-20",
    "seeb-poisson-25",
    "seeb-pai",
    "seeb-gamma-low",
    "seeb-gamma-medium",
    "seeb-gamma-high",
];

/// The other workloads whose plans have places.
const OTHERS: [&str; 5] = [
    "seeb-poisson-groups",
    "robot",
    "robot-burst",
    "robot-stalled-client",
    "robot-thermal-step",
];

fn run() -> String {
    let mut text = String::new();
    for load in LOADS {
        let table = by_factor(&TRACES, load);
        text.push_str(&format!(
            "### SEEB-GPU's traces at {load}x: right and on time\n\n{}\n",
            table.markdown()
        ));
    }
    text.push_str(&format!(
        "### Other workloads, with lending and without\n\n{}\n",
        others().markdown()
    ));
    text.push_str(&format!(
        "### The robot by task: owners first\n\n{}\n",
        by_task("robot").markdown()
    ));
    text
}

/// Work on its home only.
fn off() -> PunctualConfig {
    PunctualConfig {
        lending: false,
        ..PunctualConfig::default()
    }
}

fn with_factor(name: &str, factor: f64) -> Scenario {
    let mut scenario = workloads::by_name(name).expect("a built-in workload");
    let lending = scenario.lending.as_mut();
    lending.expect("its plan has places").corun = factor;
    scenario
}

/// The requests of each task, over all seeds.
fn tasks(scenario: &Scenario, policy: &dyn PolicySpec, load: f64) -> Vec<Tally> {
    let mut all = vec![Tally::default(); scenario.tasks.len()];
    for seed in SEEDS {
        let settings = Settings {
            seed,
            keep_requests: false,
        };
        let outcome = simulate(scenario, policy, load, settings, &mut ());
        let outcome = outcome.expect("a built-in workload runs");
        for (all, tally) in all.iter_mut().zip(&outcome.tasks) {
            all.add(tally);
        }
    }
    all
}

fn total(scenario: &Scenario, tallies: &[Tally], criticality: Criticality) -> Tally {
    let mut all = Tally::default();
    let tasks = scenario.tasks.iter().zip(tallies);
    for (_, tally) in tasks.filter(|(task, _)| task.config.criticality == criticality) {
        all.add(tally);
    }
    all
}

fn share(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64
}

fn right(tally: &Tally) -> String {
    percent(share(tally.correct_on_time, tally.submitted))
}

fn missed(tally: &Tally) -> u64 {
    tally.submitted - tally.on_time
}

fn by_factor(names: &[&str], load: f64) -> Table {
    let by_factor = FACTORS.map(|factor| format!("factor {factor:.2}"));
    let mut headings = vec!["trace", "home only"];
    headings.extend(by_factor.iter().map(String::as_str));
    headings.extend([
        "full depth",
        "1.00 of full depth",
        "missed: home only, by factor",
    ]);
    let mut table = Table::new(&headings, 1);
    for name in names {
        let scenario = with_factor(name, 1.0);
        let at_home = total(
            &scenario,
            &tasks(&scenario, &off(), load),
            Criticality::RealTime,
        );
        let lent = FACTORS.map(|factor| {
            let scenario = with_factor(name, factor);
            let tallies = tasks(&scenario, &PunctualConfig::default(), load);
            total(&scenario, &tallies, Criticality::RealTime)
        });
        let mut row = vec![format!("`{name}`"), right(&at_home)];
        row.extend(lent.iter().map(right));
        let full = at_home.correct_at_full_depth;
        row.push(percent(share(full, at_home.submitted)));
        row.push(percent(share(lent[0].correct_on_time, full)));
        let misses: Vec<String> = std::iter::once(&at_home)
            .chain(&lent)
            .map(|tally| missed(tally).to_string())
            .collect();
        row.push(misses.join(", "));
        table.row(row);
    }
    table
}

fn others() -> Table {
    let mut table = Table::new(
        &[
            "workload",
            "load",
            "right: home only",
            "lending",
            "missed: home only",
            "lending",
            "best-effort on time: home only",
            "lending",
        ],
        2,
    );
    for name in OTHERS {
        let scenario = with_factor(name, 1.0);
        for load in LOADS {
            let both =
                [off(), PunctualConfig::default()].map(|policy| tasks(&scenario, &policy, load));
            let of = |criticality| both.each_ref().map(|t| total(&scenario, t, criticality));
            let [home, lent] = of(Criticality::RealTime);
            let [home_other, lent_other] = of(Criticality::BestEffort);
            let served = |tally: &Tally| match tally.submitted {
                0 => "-".to_owned(),
                submitted => percent(share(tally.on_time, submitted)),
            };
            table.row([
                format!("`{name}`"),
                format!("{load}x"),
                right(&home),
                right(&lent),
                percent(share(missed(&home), home.submitted)),
                percent(share(missed(&lent), lent.submitted)),
                served(&home_other),
                served(&lent_other),
            ]);
        }
    }
    table
}

fn by_task(name: &str) -> Table {
    let mut table = Table::new(&["task", "load", "right: home only", "lending"], 2);
    let scenario = with_factor(name, 1.0);
    for load in LOADS {
        let home = tasks(&scenario, &off(), load);
        let lent = tasks(&scenario, &PunctualConfig::default(), load);
        for (index, task) in scenario.tasks.iter().enumerate() {
            table.row([
                task.name.clone(),
                format!("{load}x"),
                right(&home[index]),
                right(&lent[index]),
            ]);
        }
    }
    table
}
