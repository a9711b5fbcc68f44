//! How old an answer is when frames come faster than they can be answered: every frame in its turn,
//! or the latest one instead of those that still wait.

use punctual_core::{Delivery, ModelId, Nanos, PunctualConfig, StageId};

use crate::profiles::signs;
use punctual_report::{Table, percent};
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::scenario::{Board, Scenario, Task};
use punctual_simulator::summary::Tally;
use punctual_simulator::timing::{Durations, Quantile};

use super::{Experiment, audited};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "delivery",
    about: "a camera in overload: the age of its answers, every frame against the latest frame",
    results: "docs/results/delivery.md",
    run,
};

/// Frames a second of the camera; while its neighbour runs too, whole answers take about 150 a second.
const RATES_HZ: [f64; 6] = [60.0, 120.0, 180.0, 240.0, 360.0, 600.0];

/// Of the camera's frames: an answer may be this old.
const DEADLINE: Nanos = Nanos::from_millis(100);

/// The neighbour's rate and deadline; its frames are promised.
const NEIGHBOUR_HZ: f64 = 30.0;
const NEIGHBOUR_DEADLINE: Nanos = Nanos::from_millis(33);

/// From capture to prepared, at most.
const JITTER: Nanos = Nanos::from_millis(1);

const LENGTH: Nanos = Nanos::from_millis(20_000);

const SEEDS: [u64; 2] = [1, 2];

/// One core: a camera without a reservation that wants whole answers, and a neighbour with one.
fn scenario(rate_hz: f64, delivery: Delivery, length: Nanos) -> Scenario {
    let task = |name, deadline, rate_hz: f64| {
        let pattern = Pattern::Periodic {
            rate_hz,
            phase: Nanos::ZERO,
            jitter: Nanos::ZERO,
        };
        let mut task = Task::real_time(name, ModelId(0), deadline, pattern);
        task.config.jitter = JITTER;
        task.config.prepare = signs::PREPARE;
        task.config.batch_max = 1;
        task
    };
    let mut camera = task("camera", DEADLINE, rate_hz);
    camera.config.mandatory_exit = StageId(2);
    camera.config.queue_max = 32;
    camera.config.delivery = delivery;
    let period = Nanos::new((1e9 / NEIGHBOUR_HZ) as u64);
    let neighbour = task("neighbour", NEIGHBOUR_DEADLINE, NEIGHBOUR_HZ).reserved(period);
    let board = Board {
        preemption_bound: signs::PREEMPTION,
        ..Board::of(1)
    };
    let mut scenario = Scenario::new(vec![signs::model()], vec![camera, neighbour], board, length);
    let points = [(0.0, 0.7), (0.5, signs::MEDIAN_SHARE), (1.0, 1.0)];
    scenario.durations = Durations {
        quantiles: points
            .map(|(share, factor)| Quantile { share, factor })
            .to_vec(),
        ..scenario.durations
    };
    scenario
}

/// The camera and its neighbour, over some seeds.
struct Figures {
    camera: Tally,
    neighbour: Tally,
    seconds: f64,
}

fn figures(rate_hz: f64, delivery: Delivery, length: Nanos, seeds: &[u64]) -> Figures {
    let scenario = scenario(rate_hz, delivery, length);
    let (mut camera, mut neighbour, mut seconds) = (Tally::default(), Tally::default(), 0.0);
    for &seed in seeds {
        let outcome = audited(&scenario, &PunctualConfig::default(), seed);
        camera.add(&outcome.tasks[0]);
        neighbour.add(&outcome.tasks[1]);
        seconds += length.as_nanos() as f64 / 1e9;
    }
    Figures {
        camera,
        neighbour,
        seconds,
    }
}

impl Figures {
    fn answers_hz(&self) -> f64 {
        self.camera.on_time as f64 / self.seconds
    }

    /// A quantile of the answers' age, in milliseconds.
    fn age_ms(&self, quantile: f64) -> f64 {
        self.camera.latencies.value_at_quantile(quantile) as f64 / 1e6
    }
}

fn run() -> String {
    let headings = [
        "frames/s",
        "answers/s, every",
        "latest",
        "age p50 (p99), every, ms",
        "latest",
        "superseded",
        "neighbour on time, every",
        "latest",
    ];
    let mut table = Table::new(&headings, 0);
    for rate_hz in RATES_HZ {
        let [every, latest] = [Delivery::EveryFrame, Delivery::LatestFrame]
            .map(|delivery| figures(rate_hz, delivery, LENGTH, &SEEDS));
        let age = |f: &Figures| format!("{:.1} ({:.1})", f.age_ms(0.5), f.age_ms(0.99));
        let on_time =
            |f: &Figures| percent(f.neighbour.on_time as f64 / f.neighbour.submitted as f64);
        let made_way = latest.camera.rejected.superseded as f64 / latest.camera.submitted as f64;
        table.row([
            format!("{rate_hz:.0}"),
            format!("{:.0}", every.answers_hz()),
            format!("{:.0}", latest.answers_hz()),
            age(&every),
            age(&latest),
            percent(made_way),
            on_time(&every),
            on_time(&latest),
        ]);
    }
    format!("Two seeds of {LENGTH} each:\n\n{}", table.markdown())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_millis(3_000);

    #[test]
    fn in_overload_the_latest_frames_answers_are_much_younger_and_as_many() {
        let every = figures(360.0, Delivery::EveryFrame, SHORT, &[1]);
        let latest = figures(360.0, Delivery::LatestFrame, SHORT, &[1]);
        let (old, young) = (every.age_ms(0.5), latest.age_ms(0.5));
        assert!(young * 3.0 < old, "{young} ms against {old} ms");
        assert!(latest.answers_hz() > every.answers_hz() * 0.95);
        for figures in [&every, &latest] {
            assert_eq!(figures.neighbour.on_time, figures.neighbour.submitted);
            assert_eq!(figures.camera.late + figures.camera.failed.sum(), 0);
        }
    }

    #[test]
    fn while_frames_can_be_answered_no_frame_makes_way() {
        let latest = figures(60.0, Delivery::LatestFrame, SHORT, &[1]);
        assert_eq!(latest.camera.rejected.superseded, 0);
        assert_eq!(latest.camera.on_time, latest.camera.submitted);
    }
}
