//! REEF's experiment (OSDI 2022, section 7.2, Figure 11): what best-effort clients cost the
//! real-time ones of DISB, and how much more gets done. `seq` and `streams` are REEF's baselines;
//! `punctual` stands where REEF does, on devices that stop best-effort work within 40 us (REEF's
//! own reset), 100 us, 300 us, or not before the end of a stage.
//!
//! DISB knows no deadlines. Here every real-time task is given the same generous one, so that
//! `punctual`, too, serves them in order of arrival and refuses no request for being late.

use punctual_baselines::{SeqConfig, StreamsConfig};
use punctual_core::{Criticality, Nanos};
use punctual_plan::PolicyChoice;

use crate::workloads;
use punctual_report::{Table, percent};
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Tally;

use super::Experiment;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "disb",
    about: "what best-effort work costs real-time work on DISB, and what it adds",
    results: "docs/results/disb.md",
    run: || tables(&WORKLOADS, None),
};

pub const WORKLOADS: [&str; 7] = [
    "disb-a",
    "disb-b",
    "disb-b-open",
    "disb-c",
    "disb-d",
    "disb-e",
    "disb-real",
];

/// Twenty times the slowest network: a request is late only on a device that has fallen behind.
pub const DEADLINE: Nanos = Nanos::from_millis(300);

const SEED: u64 = 1;

/// How soon best-effort work stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stops {
    Within(Nanos),
    /// When the stage that runs has ended.
    AfterTheStage,
}

struct Case {
    name: &'static str,
    policy: PolicyChoice,
    stops: Stops,
    best_effort: bool,
}

/// The first is what the others are compared with.
fn cases() -> [Case; 7] {
    let case = |name, policy, stops| Case {
        name,
        policy,
        stops,
        best_effort: true,
    };
    let seq = || PolicyChoice::new(SeqConfig::default());
    let streams = PolicyChoice::new(StreamsConfig::default());
    let ours = |name, us| {
        let stops = Stops::Within(Nanos::from_micros(us));
        case(name, PolicyChoice::default(), stops)
    };
    [
        Case {
            best_effort: false,
            ..case("real-time only", seq(), Stops::AfterTheStage)
        },
        case("seq", seq(), Stops::AfterTheStage),
        case("streams", streams, Stops::AfterTheStage),
        ours("punctual, 40 us", 40),
        ours("punctual, 100 us", 100),
        ours("punctual, 300 us", 300),
        case(
            "punctual, one stage",
            PolicyChoice::default(),
            Stops::AfterTheStage,
        ),
    ]
}

struct Figures {
    /// Requests of real-time tasks.
    real_time: Tally,
    /// Answers a second, of real-time tasks and of all.
    real_time_hz: f64,
    total_hz: f64,
}

fn figures(workload: &str, case: &Case, length: Option<Nanos>) -> Figures {
    let scenario = scenario(workload, case, length);
    let settings = Settings {
        seed: SEED,
        keep_requests: false,
    };
    let outcome = simulate(&scenario, &case.policy, 1.0, settings, &mut ());
    let outcome = outcome.expect("DISB can be planned and played");
    let mut real_time = Tally::default();
    for (task, tally) in scenario.tasks.iter().zip(&outcome.tasks) {
        if task.config.criticality == Criticality::RealTime {
            real_time.add(tally);
        }
    }
    let a_second = |answers: u64| answers as f64 * 1e9 / scenario.length.as_nanos() as f64;
    Figures {
        real_time_hz: a_second(real_time.answers()),
        total_hz: a_second(outcome.total.answers()),
        real_time,
    }
}

fn scenario(workload: &str, case: &Case, length: Option<Nanos>) -> Scenario {
    let mut scenario = workloads::by_name(workload).expect("built in");
    let budgets = scenario.models.iter().flat_map(|model| &model.stages);
    let budgets = budgets.map(|stage| stage.time(1, scenario.board.units).budget);
    let longest = budgets.max().expect("DISB has models");
    scenario.board.preemption_bound = match case.stops {
        Stops::Within(bound) => bound,
        Stops::AfterTheStage => longest,
    };
    scenario.length = length.unwrap_or(scenario.length);
    let mut tasks = scenario.tasks;
    tasks.retain(|task| case.best_effort || task.config.criticality == Criticality::RealTime);
    for task in &mut tasks {
        if task.config.criticality == Criticality::RealTime {
            task.config.deadline = Some(DEADLINE);
            task.config.reserved = false;
        }
    }
    Scenario::new(scenario.models, tasks, scenario.board, scenario.length)
}

fn tables(workloads: &[&str], length: Option<Nanos>) -> String {
    let headings = [
        "workload",
        "policy",
        "real-time mean, ms",
        "over real-time only",
        "p99, ms",
        "missed",
        "real-time/s",
        "all/s",
        "over real-time only",
    ];
    let mut table = Table::new(&headings, 2);
    for workload in workloads {
        let mut alone: Option<(f64, f64)> = None;
        for case in cases() {
            let found = figures(workload, &case, length);
            let mean = found.real_time.latencies.mean() / 1e6;
            let p99 = found.real_time.latencies.value_at_quantile(0.99) as f64 / 1e6;
            let (alone_mean, alone_hz) = *alone.get_or_insert((mean, found.total_hz));
            let missed = found.real_time.missed() as f64 / found.real_time.submitted as f64;
            table.row([
                (*workload).to_owned(),
                case.name.to_owned(),
                format!("{mean:.2}"),
                format!("{:+.1}%", (mean / alone_mean - 1.0) * 100.0),
                format!("{p99:.2}"),
                percent(missed),
                format!("{:.1}", found.real_time_hz),
                format!("{:.1}", found.total_hz),
                format!("{:.2}x", found.total_hz / alone_hz),
            ]);
        }
    }
    table.markdown()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Option<Nanos> = Some(Nanos::from_millis(5_000));

    fn of(workload: &str) -> Vec<Figures> {
        let figures = |case: &Case| figures(workload, case, SHORT);
        cases().iter().map(figures).collect()
    }

    #[test]
    fn best_effort_work_delays_real_time_work_by_no_more_than_the_bound() {
        let found = of("disb-a");
        let mean = |index: usize| found[index].real_time.latencies.mean();
        for (index, bound_us) in [(3, 40.0), (4, 100.0), (5, 300.0)] {
            let delay_us = (mean(index) - mean(0)) / 1e3;
            // Histograms keep three digits.
            assert!(delay_us <= bound_us + 10.0, "{index}: {delay_us} us");
        }
    }

    #[test]
    fn seq_and_streams_cost_real_time_work_more_and_all_get_more_done_than_it_alone() {
        let found = of("disb-c");
        let mean = |index: usize| found[index].real_time.latencies.mean();
        assert!(mean(1) > 1.2 * mean(3), "seq");
        assert!(mean(2) > 1.5 * mean(3), "streams");
        for figures in &found[1..] {
            assert!(figures.total_hz > 1.2 * found[0].total_hz);
        }
    }

    #[test]
    fn real_time_work_is_late_or_refused_only_where_streams_fall_behind() {
        for (index, figures) in of("disb-d").iter().enumerate() {
            assert_eq!(figures.real_time.missed() > 0, index == 2, "{index}");
        }
    }
}
