//! Networks that begin alike (Nexus, sections 2.2, 5.3 and 6.3): ResNet50 with its last layer
//! trained again for each of 2 to 10 tasks. Apart, each has its own batches; as a group, what they
//! have in common runs in one batch for all of them, and only the last layers run apart.
//!
//! Times of the whole network are given (Clockwork, Table 1). What of them is the last layer's is
//! synthetic: a fiftieth, alone or in a batch.

use std::convert::Infallible;

use punctual_core::{ModelId, Nanos, PunctualConfig, StageId};
use punctual_model::{Calibration, CalibrationExit, CalibrationSample};

use crate::profiles::clockwork::resnet50;
use punctual_report::Table;
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage, Task};

use super::Experiment;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "prefix",
    about: "networks that begin alike, batched together and apart: requests a second in time",
    results: "docs/results/prefix.md",
    run: || tables(Nanos::from_millis(20_000), &[1, 2]),
};

pub const HEADS: [usize; 6] = [1, 2, 4, 6, 8, 10];

/// Of all their tasks together, at a load of 1.
const RATE_HZ: f64 = 1_000.0;

pub const DEADLINE: Nanos = Nanos::from_millis(50);

/// The last layer's part of a network's time.
const HEAD_PART: u64 = 50;

/// Bytes of the last layer: 2,048 features to 1,000 classes, and a bias.
const HEAD_MB: f64 = (2_048 * 1_000 + 1_000) as f64 * 4.0 / 1e6;

/// The share of requests that may get no answer in time.
const BAD_MAX: f64 = 0.01;

/// Halvings of the interval in which the highest rate is looked for.
const HALVINGS: u32 = 8;

/// Networks that differ in their last layer, by the times of both parts.
#[derive(Clone, Debug)]
pub struct Family {
    pub source: String,
    /// What they have in common.
    pub beginning: Vec<Measured>,
    /// The last layer.
    pub head: Vec<Measured>,
    /// Of all their tasks together, at a load of 1.
    pub rate_hz: f64,
    pub deadline: Nanos,
}

impl Family {
    /// Clockwork's ResNet50.
    fn resnet50() -> Self {
        let whole = resnet50().model("resnet50");
        let part = |head: bool| {
            let mut times = whole.stages[0].times.clone();
            for measured in &mut times {
                for time in [&mut measured.time.budget, &mut measured.time.max_seen] {
                    let own = time.as_nanos() / HEAD_PART;
                    *time = Nanos::new(if head { own } else { time.as_nanos() - own });
                }
            }
            times
        };
        Self {
            source: whole.source,
            beginning: part(false),
            head: part(true),
            rate_hz: RATE_HZ,
            deadline: DEADLINE,
        }
    }

    /// One of the networks; with `lender`, its beginning is that network's as well.
    fn network(&self, index: usize, lender: Option<usize>) -> Model {
        let exit = CalibrationExit::judged;
        Model {
            name: format!("head-{index}"),
            source: self.source.clone(),
            stages: vec![
                Stage {
                    times: self.beginning.clone(),
                    headless: true,
                    runs_as: lender.filter(|&lender| lender != index),
                },
                Stage {
                    times: self.head.clone(),
                    ..Stage::default()
                },
            ],
            calibration: Calibration {
                samples: vec![CalibrationSample {
                    exits: vec![exit(0, false), exit(u16::MAX, true)],
                }],
            },
            weights: None,
        }
    }

    /// Tasks that ask a network each.
    #[must_use]
    pub fn scenario(&self, heads: usize, together: bool, length: Nanos) -> Scenario {
        let models: Vec<Model> = (0..heads)
            .map(|index| self.network(index, together.then_some(0)))
            .collect();
        let tasks = (0..heads).map(|index| {
            let rate_hz = self.rate_hz / heads as f64;
            let (name, model) = (format!("task-{index}"), ModelId(index as u16));
            let pattern = Pattern::Poisson { rate_hz };
            Task::real_time(&name, model, self.deadline, pattern).mandatory(StageId(1))
        });
        Scenario::new(models, tasks.collect(), Board::of(1), length)
    }
}

fn scenario(heads: usize, together: bool, length: Nanos) -> Scenario {
    Family::resnet50().scenario(heads, together, length)
}

/// The share of requests that got no answer in time.
fn bad(scenario: &Scenario, load: f64, seeds: &[u64]) -> f64 {
    let (mut missed, mut submitted) = (0, 0);
    for &seed in seeds {
        let settings = Settings {
            seed,
            keep_requests: false,
        };
        let outcome = simulate(
            scenario,
            &PunctualConfig::default(),
            load,
            settings,
            &mut (),
        );
        let total = outcome.expect("plan and pattern are valid").total;
        missed += total.missed();
        submitted += total.submitted;
    }
    missed as f64 / submitted as f64
}

/// The highest load at which 99% of the requests are in time; `bad` is the share of them that is not.
///
/// # Errors
/// The first of `bad`.
pub fn highest_load<E>(
    halvings: u32,
    mut bad: impl FnMut(f64) -> Result<f64, E>,
) -> Result<f64, E> {
    let (mut good, mut too_much) = (0.02, 1.5);
    for _ in 0..halvings {
        let middle = (good + too_much) / 2.0;
        if bad(middle)? <= BAD_MAX {
            good = middle;
        } else {
            too_much = middle;
        }
    }
    Ok(good)
}

/// The highest rate of all tasks together, in requests a second, at which 99% are in time.
fn throughput(scenario: &Scenario, seeds: &[u64]) -> f64 {
    let load = highest_load(HALVINGS, |load| {
        Ok::<f64, Infallible>(bad(scenario, load, seeds))
    });
    load.unwrap_or_default() * RATE_HZ
}

fn tables(length: Nanos, seeds: &[u64]) -> String {
    let headings = [
        "networks",
        "apart, requests/s",
        "together",
        "gain",
        "weights apart, MB",
        "together",
    ];
    let mut table = Table::new(&headings, 0);
    for heads in HEADS {
        let [apart, together] =
            [false, true].map(|together| throughput(&scenario(heads, together, length), seeds));
        let whole = resnet50().weights_mb;
        let count = heads as f64;
        table.row([
            heads.to_string(),
            format!("{apart:.0}"),
            format!("{together:.0}"),
            format!("{:.2}x", together / apart),
            format!("{:.0}", whole * count),
            format!("{:.0}", whole + HEAD_MB * (count - 1.0)),
        ]);
    }
    format!(
        "Requests a second of all tasks together of which 99% are answered within 50 ms:\n\n{}",
        table.markdown()
    )
}

#[cfg(test)]
mod tests {
    use punctual_core::PolicySpec as _;

    use super::*;

    const SHORT: Nanos = Nanos::from_millis(5_000);

    #[test]
    fn alone_a_network_gains_nothing_and_six_together_gain_much() {
        let at = |heads, together| throughput(&scenario(heads, together, SHORT), &[1]);
        let (one, alike) = (at(1, false), at(1, true));
        assert!((one - alike).abs() < 1.0, "{one} and {alike}");
        let (apart, together) = (at(6, false), at(6, true));
        assert!(together > 1.15 * apart, "{together} against {apart}");
    }

    #[test]
    fn the_auditor_has_nothing_against_a_group() {
        let scenario = scenario(6, true, SHORT);
        let policy = PunctualConfig::default();
        let mut auditor =
            punctual_simulator::audit::Auditor::new(&scenario.config(&policy), policy.contract());
        let settings = Settings {
            seed: 1,
            keep_requests: false,
        };
        simulate(&scenario, &policy, 0.4, settings, &mut auditor).expect("runs");
        assert_eq!(auditor.findings().first(), None);
    }
}
