//! A model whose stages take longer than its profile says, together with others that keep theirs.

use punctual_core::{ModelId, Nanos, PunctualConfig, StageId};

use crate::profiles::signs;
use punctual_report::{Table, percent};
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::faults::Fault;
use punctual_simulator::scenario::{Board, Model, Scenario, Task};

use super::{Experiment, audited};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "demotion",
    about: "a model that takes 1.5, 3 and 10 times its profile: what it costs the others",
    results: "docs/results/demotion.md",
    run,
};

const FACTORS: [f64; 4] = [1.0, 1.5, 3.0, 10.0];

/// Three cameras, each with a network of its own of the same times.
const NAMES: [&str; 3] = ["liar", "second", "third"];
const RATE_HZ: f64 = 30.0;
const DEADLINE: Nanos = Nanos::from_millis(33);
const JITTER: Nanos = Nanos::from_millis(1);

const LENGTH: Nanos = Nanos::from_millis(30_000);
const SEEDS: [u64; 2] = [1, 2];

/// One core: the first camera's network takes `factor` times what its profile says.
fn scenario(factor: f64, length: Nanos) -> Scenario {
    let models = NAMES.map(|name| Model {
        name: name.into(),
        ..signs::model()
    });
    let period = Nanos::new((1e9 / RATE_HZ) as u64);
    let task = |(index, name): (usize, &&str)| {
        let pattern = Pattern::Periodic {
            rate_hz: RATE_HZ,
            phase: Nanos::ZERO,
            jitter: Nanos::ZERO,
        };
        let mut task = Task::real_time(name, ModelId(index as u16), DEADLINE, pattern);
        task.config.jitter = JITTER;
        task.config.prepare = signs::PREPARE;
        task.config.mandatory_exit = StageId(1);
        task.reserved(period)
    };
    let tasks = NAMES.iter().enumerate().map(task).collect();
    let board = Board {
        preemption_bound: signs::PREEMPTION,
        ..Board::of(1)
    };
    let mut scenario = Scenario::new(models.to_vec(), tasks, board, length);
    scenario.faults = vec![Fault::ProfileLies {
        model: ModelId(0),
        factor,
    }];
    scenario
}

/// Frames of the liar and of the others: answered in time, of all; and how often it was demoted.
#[derive(Debug, Default)]
struct Figures {
    liar: (u64, u64),
    others: (u64, u64),
    demotions: u64,
}

fn figures(factor: f64, demotion: bool, length: Nanos, seeds: &[u64]) -> Figures {
    let scenario = scenario(factor, length);
    let policy = PunctualConfig {
        demotion,
        ..PunctualConfig::default()
    };
    let mut all = Figures::default();
    for &seed in seeds {
        let outcome = audited(&scenario, &policy, seed);
        let add = |to: &mut (u64, u64), task: usize| {
            to.0 += outcome.tasks[task].on_time;
            to.1 += outcome.tasks[task].submitted;
        };
        add(&mut all.liar, 0);
        add(&mut all.others, 1);
        add(&mut all.others, 2);
        all.demotions += outcome.effort.demotions;
    }
    all
}

fn run() -> String {
    let headings = [
        "times its profile",
        "others on time, all pay",
        "demoted",
        "others missed, all pay",
        "demoted",
        "liar on time, all pay",
        "demoted",
        "demotions",
    ];
    let mut table = Table::new(&headings, 0);
    let share = |(on_time, of): (u64, u64)| percent(on_time as f64 / of.max(1) as f64);
    for factor in FACTORS {
        let [off, on] = [false, true].map(|demotion| figures(factor, demotion, LENGTH, &SEEDS));
        table.row([
            factor.to_string(),
            share(off.others),
            share(on.others),
            (off.others.1 - off.others.0).to_string(),
            (on.others.1 - on.others.0).to_string(),
            share(off.liar),
            share(on.liar),
            on.demotions.to_string(),
        ]);
    }
    format!("Two seeds of {LENGTH} each:\n\n{}", table.markdown())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_millis(5_000);

    #[test]
    fn others_keep_all_promises_but_those_that_it_took_to_see_it() {
        for factor in [1.5, 3.0, 10.0] {
            let with = figures(factor, true, SHORT, &[1]);
            assert!(with.demotions >= 1, "{factor}: {with:?}");
            let missed = with.others.1 - with.others.0;
            assert!(missed <= 8, "{factor}: {with:?}");
        }
    }

    #[test]
    fn who_keeps_its_profile_is_not_demoted() {
        let honest = figures(1.0, true, SHORT, &[1]);
        assert_eq!(honest.demotions, 0);
        assert_eq!(honest.others.0, honest.others.1);
    }
}
