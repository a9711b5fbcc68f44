//! A detector and two classifiers of what it finds (`examples/traffic.toml`): queries in time at rising rates, by how the
//! time of a query is divided and by who chains the tasks.

use std::path::Path;

use punctual_core::{Nanos, PunctualConfig, StageId};
use punctual_fleet::packing::{Choice, Flow, Rate, StageCost, split};
use punctual_report::{Table, percent};
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::{Board, Scenario, Task};

use super::Experiment;
use crate::format;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pipelines",
    about: "a detector and two classifiers: queries in time by the division of their time",
    results: "docs/results/pipelines.md",
    run: || tables(Nanos::from_millis(60_000), &[1, 2]),
};

const RATES_HZ: [f64; 8] = [15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 50.0, 60.0];

/// Time of a query.
const DEADLINES_MS: [u64; 2] = [60, 90];

/// Segments of a deadline, as Nexus divides it.
const SEGMENTS: u32 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The time is divided by Nexus's dynamic programme.
    Split,
    /// Half of it for each of the two steps.
    Even,
    /// The client submits the parts, each due after half of the time.
    Chained,
    /// As `Split`, always to full depth.
    FullDepth,
}

const WAYS: [Way; 4] = [Way::Split, Way::Even, Way::Chained, Way::FullDepth];

/// The example on one core, without its best-effort task, at a rate, its queries due after `deadline`.
fn scenario(way: Way, rate_hz: f64, deadline: Nanos, length: Nanos) -> Scenario {
    const EXAMPLE: &str = include_str!("../../../../examples/traffic.toml");
    let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let example = format::parse(Path::new("traffic.toml"), EXAMPLE, &none);
    let example = example.expect("the example can be read").scenario;
    let mut tasks = example.tasks.clone();
    tasks.pop();
    let board = Board {
        units: 1,
        ..example.board
    };
    let mut scenario = Scenario::new(example.models, tasks, board, length);
    let half = Nanos::new(deadline.as_nanos() / 2);
    for task in &mut scenario.tasks {
        if way == Way::FullDepth {
            let stages = scenario.models[task.config.model.index()].stages.len();
            task.config.mandatory_exit = StageId(stages as u8 - 1);
        }
        match &mut task.pattern {
            Pattern::Parts(parts) => {
                parts.by_client = way == Way::Chained;
                task.config.deadline = Some(deadline);
            }
            Pattern::Periodic { rate_hz: rate, .. } => {
                *rate = rate_hz;
                task.config.period = Nanos::new((1e9 / rate_hz) as u64);
            }
            other => panic!("not of the example: {other:?}"),
        }
    }
    scenario.tasks[0].config.deadline = match way {
        Way::Even | Way::Chained => Some(half),
        Way::Split | Way::FullDepth => Some(share_of_root(&scenario, rate_hz, deadline)),
    };
    scenario.align_followers();
    for follower in &mut scenario.tasks[1..] {
        if way == Way::Chained {
            // Nothing is known of when they come.
            let config = &mut follower.config;
            config.deadline = Some(half);
            config.reserved = false;
            (config.burst, config.jitter) = (1, config.prepare.saturating_mul(8));
        }
    }
    scenario.reserved_if_possible()
}

/// What the dynamic programme gives to the detector. A batch takes twice its time, as a request may have to wait for the
/// batch before.
fn share_of_root(scenario: &Scenario, rate_hz: f64, deadline: Nanos) -> Nanos {
    let cost = |task: &Task| {
        let parts = match task.pattern {
            Pattern::Parts(parts) => parts.fan_out.unwrap_or(f64::from(parts.at_most) / 2.0),
            _ => 1.0,
        };
        let model = task.config.model;
        let times = &scenario.models[model.index()].stages[0].times;
        let choice = |batch: u8| {
            let time = scenario.time(model, task.config.mandatory_exit, batch, 1);
            Choice {
                latency: time.saturating_mul(2),
                work_ns: time.as_nanos() as f64 / f64::from(batch),
            }
        };
        StageCost {
            rate: Rate::from_hz(rate_hz * parts),
            choices: times.iter().map(|time| choice(time.batch)).collect(),
        }
    };
    let costs: Vec<StageCost> = scenario.tasks.iter().map(cost).collect();
    let flow = Flow::of(&[vec![], vec![0], vec![0]]).expect("a tree");
    let devices = |stage: usize, budget| costs[stage].devices(budget);
    let divided = split(&flow, devices, deadline, SEGMENTS);
    divided.map_or(Nanos::new(deadline.as_nanos() / 2), |split| {
        split.budgets[0]
    })
}

/// The share of queries in time.
fn in_time(way: Way, rate_hz: f64, deadline: Nanos, length: Nanos, seeds: &[u64]) -> f64 {
    let scenario = scenario(way, rate_hz, deadline, length);
    let (mut on_time, mut submitted) = (0, 0);
    for &seed in seeds {
        let settings = Settings {
            seed,
            keep_requests: false,
        };
        let policy = PunctualConfig::default();
        let outcome = simulate(&scenario, &policy, 1.0, settings, &mut ());
        let queries = outcome.expect("plan and pattern are valid").queries[0];
        on_time += queries.on_time;
        submitted += queries.submitted;
    }
    on_time as f64 / submitted as f64
}

fn tables(length: Nanos, seeds: &[u64]) -> String {
    let headings = ["frames/s", "split", "even", "chained", "full depth"];
    let mut text = String::new();
    for deadline in DEADLINES_MS {
        let deadline = Nanos::from_millis(deadline);
        let mut table = Table::new(&headings, 0);
        for rate_hz in RATES_HZ {
            let share = |way| percent(in_time(way, rate_hz, deadline, length, seeds));
            let shares = WAYS.map(share);
            table.row([format!("{rate_hz:.0}")].into_iter().chain(shares));
        }
        let detector = share_of_root(
            &scenario(Way::Split, 15.0, deadline, length),
            15.0,
            deadline,
        );
        text.push_str(&format!(
            "Queries in time, of a deadline of {deadline}, {detector} of which is the detector's by `split`:\n\n{}\n",
            table.markdown()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_millis(10_000);
    const DEADLINE: Nanos = Nanos::from_millis(60);

    #[test]
    fn every_query_is_in_time_while_all_is_promised_and_in_overload_more_if_the_daemon_chains_the_tasks()
     {
        let share = |way, rate_hz| in_time(way, rate_hz, DEADLINE, SHORT, &[1]);
        for way in [Way::Split, Way::Even] {
            assert_eq!(share(way, 15.0), 1.0, "{way:?}");
        }
        let (daemon, client) = (share(Way::Even, 60.0), share(Way::Chained, 60.0));
        assert!(daemon > client + 0.1, "{daemon}, {client}");
        assert!(share(Way::Split, 40.0) > share(Way::FullDepth, 40.0));
    }
}
