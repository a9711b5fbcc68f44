//! Overload: half to four times of what the device can answer at all.
//!
//! Capacity is the load at which the first answers of the real-time tasks, one at a time, fill the
//! planned partition that is full first. Batches can carry a policy beyond it.

use punctual_core::{Criticality, Nanos, PolicySpec, PunctualConfig, Units};

use super::{Experiment, real_time};
use crate::workloads;
use punctual_report::{Table, percent};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Summary;
use punctual_simulator::timing::{Durations, Quantile};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "overload",
    about: "0.5 to 4 times the capacity: what was admitted is kept, goodput stays, refusals are early",
    results: "docs/results/overload.md",
    run,
};

const LOADS: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0];
const SEEDS: [u64; 3] = [1, 2, 3];
/// Long enough for queues to fill and for every policy to settle.
const LENGTH: Nanos = Nanos::from_millis(20_000);
/// A fall of goodput by less is noise of the arrivals.
const NOISE: f64 = 0.02;
/// The policies that the default policy is compared with.
const OTHERS: [&str; 5] = ["edgeserving", "clockwork", "nexus", "clipper", "batch"];

fn run() -> String {
    let mut text = String::new();
    for name in ["robot", "seeb-poisson"] {
        let scenario = varied(workloads::by_name(name).expect("a built-in workload"));
        let runs = at_all_loads(&scenario, &PunctualConfig::default(), &SEEDS);
        text.push_str(&format!(
            "### `{name}`: `punctual`, real-time tasks\n\n{}\n{}\n",
            punctual_table(&scenario, &runs).markdown(),
            verdict(&runs),
        ));
        text.push_str(&format!(
            "\n### `{name}`: answers on time a second, by policy (others: seed 1)\n\n{}\n",
            goodput_table(&scenario, &runs).markdown()
        ));
    }
    text
}

/// With a bounded length; stages take 80% of their budget on average and never more than all of it.
fn varied(mut scenario: Scenario) -> Scenario {
    let points = [(0.0, 0.6), (0.5, 0.8), (0.99, 0.95), (1.0, 1.0)];
    scenario.length = LENGTH;
    scenario.durations = Durations {
        quantiles: points
            .map(|(share, factor)| Quantile { share, factor })
            .to_vec(),
        ..scenario.durations
    };
    scenario
}

/// The load at which first answers fill the partition that is full first.
fn capacity(scenario: &Scenario) -> f64 {
    let busy = |(units, tasks): &(Units, Vec<usize>)| -> f64 {
        let share = |&task: &usize| {
            let config = &scenario.tasks[task].config;
            let real_time = config.criticality == Criticality::RealTime;
            let work = scenario.time(config.model, config.mandatory_exit, 1, units.count);
            let rate_hz = scenario.tasks[task].pattern.rate_hz().unwrap_or(0.0);
            if real_time {
                seconds(work) * rate_hz
            } else {
                0.0
            }
        };
        tasks.iter().map(share).sum()
    };
    1.0 / scenario.planned.iter().map(busy).fold(0.0, f64::max)
}

/// Real-time requests at one load, over all seeds.
struct AtLoad {
    load: f64,
    real_time: Summary,
}

fn at_all_loads(scenario: &Scenario, policy: &dyn PolicySpec, seeds: &[u64]) -> Vec<AtLoad> {
    let capacity = capacity(scenario);
    let at = |load| AtLoad {
        load,
        real_time: real_time(scenario, policy, load * capacity, seeds),
    };
    LOADS.into_iter().map(at).collect()
}

/// Real-time requests that were taken on, and not answered on time.
fn broken(summary: &Summary) -> u64 {
    summary.late + summary.failed.sum() + summary.lost
}

fn punctual_table(scenario: &Scenario, runs: &[AtLoad]) -> Table {
    let mut table = Table::new(
        &[
            "capacity",
            "load",
            "requests",
            "admitted",
            "admitted and missed",
            "rejected",
            "goodput/s",
            "time to reject",
            "accuracy of answers",
            "accuracy of all",
        ],
        0,
    );
    for AtLoad { load, real_time } in runs {
        let rejected = real_time.rejected.sum();
        table.row([
            format!("{load:.1}x"),
            format!("{:.2}", load * capacity(scenario)),
            real_time.submitted.to_string(),
            (real_time.submitted - rejected).to_string(),
            broken(real_time).to_string(),
            percent(rejected as f64 / real_time.submitted.max(1) as f64),
            format!("{:.1}", real_time.goodput_per_s),
            format!("{:.2} ms", real_time.reject_us / 1e3),
            percent(real_time.accuracy),
            percent(real_time.accuracy_all),
        ]);
    }
    table
}

/// Whether the claims hold, in a sentence.
fn verdict(runs: &[AtLoad]) -> String {
    let missed: u64 = runs.iter().map(|run| broken(&run.real_time)).sum();
    let fall = runs.windows(2).map(|pair| {
        let (before, after) = (&pair[0].real_time, &pair[1].real_time);
        1.0 - after.goodput_per_s / before.goodput_per_s.max(f64::MIN_POSITIVE)
    });
    let fall = fall.fold(0.0, f64::max);
    let monotone = if fall <= NOISE {
        "monotone"
    } else {
        "NOT monotone"
    };
    format!(
        "Admitted and missed: {missed}. Goodput: {monotone} (largest fall from one load to the \
         next {}, noise is taken to be {}).\n",
        percent(fall),
        percent(NOISE)
    )
}

fn goodput_table(scenario: &Scenario, punctual: &[AtLoad]) -> Table {
    let loads: Vec<String> = LOADS.iter().map(|load| format!("{load:.1}x")).collect();
    let headings: Vec<&str> = std::iter::once("policy")
        .chain(loads.iter().map(String::as_str))
        .collect();
    let mut table = Table::new(&headings, 1);
    let mut line = |name: &str, runs: &[AtLoad]| {
        let goodput = runs
            .iter()
            .map(|run| format!("{:.1}", run.real_time.goodput_per_s));
        table.row(std::iter::once(format!("`{name}`")).chain(goodput));
    };
    line("punctual", punctual);
    for name in OTHERS {
        let policy = super::policy_named(name);
        line(name, &at_all_loads(scenario, &policy, &SEEDS[..1]));
    }
    table
}

fn seconds(span: Nanos) -> f64 {
    span.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_twice_the_capacity_no_promise_is_broken_and_goodput_stays() {
        let mut scenario = varied(workloads::by_name("robot").expect("a workload"));
        scenario.length = Nanos::from_millis(5_000);
        let runs = at_all_loads(&scenario, &PunctualConfig::default(), &SEEDS[..1]);
        assert!(runs.iter().all(|run| broken(&run.real_time) == 0));
        let goodput = |index: usize| runs[index].real_time.goodput_per_s;
        assert!(goodput(5) >= goodput(1) * (1.0 - NOISE));
        assert!(runs[5].real_time.rejected.sum() > 0, "it is overload");
    }

    #[test]
    fn the_capacity_is_what_first_answers_fill() {
        let mut scenario = workloads::by_name("robot").expect("a workload");
        scenario.planned.truncate(1);
        let (units, tasks) = scenario.planned[0].clone();
        let config = &scenario.tasks[tasks[0]].config;
        let work = scenario.time(config.model, config.mandatory_exit, 1, units.count);
        scenario.planned[0].1.truncate(1);
        let rate_hz = scenario.tasks[tasks[0]].pattern.rate_hz().unwrap_or(0.0);
        assert!((capacity(&scenario) * seconds(work) * rate_hz - 1.0).abs() < 1e-9);
    }
}
