//! Two devices, one network: frames that a fast device has no time for run on two cores next to it.
//!
//! Times on the cores are measured (`profiles::signs`). The fast device is made up: a fifth of one
//! core's time, and half of that for each further image of a batch. No GPU was measured.

use punctual_core::{ModelId, Nanos, PunctualConfig, StageTime, TaskId, Units};

use crate::profiles::signs;
use punctual_report::{Table, percent};
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::faults::Fault;
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage, Task};

use super::{Experiment, audited};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spill",
    about: "frames that a fast device has no time for, on two cores beside it: answered in time",
    results: "docs/results/spill.md",
    run,
};

/// Requests a second.
const RATES_HZ: [f64; 6] = [2_000.0, 4_000.0, 6_000.0, 7_000.0, 8_000.0, 10_000.0];

const DEADLINE: Nanos = Nanos::from_millis(15);

/// From capture to prepared, at most.
const JITTER: Nanos = Nanos::from_millis(1);

/// How many times faster than a core the fast device is.
const FASTER: u64 = 5;

const LENGTH: Nanos = Nanos::from_millis(10_000);

const SEEDS: [u64; 2] = [1, 2];

/// The rate at which a device that falls silent is looked at, and its last action that is heard of.
const SILENT_HZ: f64 = 1_000.0;
const SILENT_AFTER: u64 = 8_000;

/// The network on the fast device, which is one unit.
fn on_fast_device() -> Model {
    let whole = signs::model();
    let on_one_core = |stage: &Stage| stage.time(1, 1);
    let scaled = |span: Nanos, batch: u8| {
        // Half of the first image's time for each further one.
        let halves = u64::from(batch) + 1;
        Nanos::new(span.as_nanos() * halves / (2 * FASTER))
    };
    let times = |stage: &Stage| {
        let core = on_one_core(stage);
        let at = |batch| Measured {
            batch,
            units: 1,
            time: StageTime {
                budget: scaled(core.budget, batch),
                max_seen: scaled(core.max_seen, batch),
            },
        };
        [1, 2, 4, 8].map(at).to_vec()
    };
    Model {
        name: "signs-fast".into(),
        source: "synthetic: a fifth of a core's time".into(),
        stages: (whole.stages.iter())
            .map(|stage| Stage {
                times: times(stage),
                ..Stage::default()
            })
            .collect(),
        ..whole
    }
}

/// A task on the fast device, and one on two cores that has no frames of its own.
fn scenario(rate_hz: f64, spills: bool, length: Nanos) -> Scenario {
    let task = |name, model, pattern| {
        let mut task = Task::real_time(name, ModelId(model), DEADLINE, pattern);
        task.config.jitter = JITTER;
        task.config.prepare = signs::PREPARE;
        task.config.batch_max = 8;
        // No client waits for another's preparation.
        task.clients = 32;
        task
    };
    let mut fast = task("fast", 0, Pattern::Poisson { rate_hz });
    fast.config.offload_to = spills.then_some(TaskId(1));
    let nothing = Pattern::Trace {
        entries: Vec::new(),
        span: None,
    };
    let cores = task("cores", 1, nothing);
    let board = Board {
        preemption_bound: signs::PREEMPTION,
        ..Board::of(3)
    };
    let models = vec![on_fast_device(), signs::model()];
    let mut scenario = Scenario::new(models, vec![fast, cores], board, length);
    let units = |first, count| Units { first, count };
    scenario.planned = vec![(units(0, 1), vec![0]), (units(1, 2), vec![1])];
    scenario
}

/// The outcomes of the requests, over some seeds.
#[derive(Debug, Default)]
struct Figures {
    submitted: u64,
    on_time: u64,
    correct: u64,
    /// Taken on, and not answered in time.
    broken: u64,
    offloaded: u64,
}

fn figures(scenario: &Scenario, seeds: &[u64]) -> Figures {
    let mut all = Figures::default();
    for &seed in seeds {
        let outcome = audited(scenario, &PunctualConfig::default(), seed);
        let total = &outcome.total;
        all.submitted += total.submitted;
        all.on_time += total.on_time;
        all.correct += total.correct_on_time;
        all.broken += total.late + total.failed.sum() + total.lost;
        all.offloaded += outcome.effort.offloaded;
    }
    all
}

impl Figures {
    fn share(&self, count: u64) -> f64 {
        count as f64 / self.submitted.max(1) as f64
    }
}

fn run() -> String {
    let both =
        |rate_hz| [false, true].map(|spills| figures(&scenario(rate_hz, spills, LENGTH), &SEEDS));
    let headings = [
        "requests/s",
        "answered in time, alone",
        "with the cores",
        "right and in time, alone",
        "with the cores",
        "offloaded",
        "accepted and missed",
    ];
    let mut table = Table::new(&headings, 0);
    for rate_hz in RATES_HZ {
        let [alone, with] = both(rate_hz);
        table.row([
            format!("{rate_hz:.0}"),
            percent(alone.share(alone.on_time)),
            percent(with.share(with.on_time)),
            percent(alone.share(alone.correct)),
            percent(with.share(with.correct)),
            percent(with.share(with.offloaded)),
            (alone.broken + with.broken).to_string(),
        ]);
    }
    let [alone, with] = [false, true].map(|spills| figures(&silent(spills, LENGTH), &SEEDS));
    format!(
        "Two seeds of {LENGTH} each:\n\n{}\n{SILENT_HZ:.0} requests a second, and the fast device \
         reports nothing any more after {SILENT_AFTER} stages: {} are answered in time alone, {} \
         with the cores.\n",
        table.markdown(),
        percent(alone.share(alone.on_time)),
        percent(with.share(with.on_time)),
    )
}

fn silent(spills: bool, length: Nanos) -> Scenario {
    let mut scenario = scenario(SILENT_HZ, spills, length);
    scenario.faults = vec![Fault::CompletionLost { nth: SILENT_AFTER }];
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_millis(2_000);

    fn on_time(rate_hz: f64, spills: bool) -> Figures {
        figures(&scenario(rate_hz, spills, SHORT), &[1])
    }

    #[test]
    fn in_overload_the_cores_answer_what_the_fast_device_would_refuse_and_no_promise_is_broken() {
        let (alone, with) = (on_time(9_000.0, false), on_time(9_000.0, true));
        assert_eq!((alone.broken, with.broken), (0, 0));
        assert!(with.offloaded > 500, "{with:?}");
        let gained = with.on_time - alone.on_time;
        assert!(gained * 10 > with.offloaded * 9, "{gained} of {with:?}");
    }

    #[test]
    fn with_time_to_spare_nothing_spills() {
        let with = on_time(1_000.0, true);
        assert_eq!((with.offloaded, with.on_time), (0, with.submitted));
    }

    #[test]
    fn the_cores_answer_for_a_fast_device_that_is_silent() {
        let of = |spills| {
            let mut scenario = silent(spills, SHORT);
            scenario.faults = vec![Fault::CompletionLost { nth: 500 }];
            let figures = figures(&scenario, &[1]);
            figures.share(figures.on_time)
        };
        let (alone, with) = (of(false), of(true));
        assert!(alone < 0.5 && with > 0.85, "{alone} and {with}");
    }
}
