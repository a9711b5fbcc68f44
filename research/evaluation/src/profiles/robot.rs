//! The robot's two further networks, in addition to [`signs`](super::signs): synthetic, on cores like
//! those that `signs` was measured on.

use super::signs::on_cores;
use super::{Exits, calibration};
use punctual_simulator::scenario::{Model, Stage};

const SAMPLES: usize = 4_000;

/// Object detection: three exits of 8 ms each on one core.
#[must_use]
pub fn detection() -> Model {
    early_exit("detection", &[8.0, 8.0, 8.0], &[0.80, 0.90, 0.95])
}

/// Driver monitoring: two exits of 10 ms each on one core.
#[must_use]
pub fn monitoring() -> Model {
    early_exit("monitoring", &[10.0, 10.0], &[0.85, 0.94])
}

fn early_exit(name: &str, stages_ms: &[f64], accuracies: &[f64]) -> Model {
    let exits = Exits {
        accuracies,
        sharpness: 6.0,
        misjudgement: 0.5,
    };
    let stage = |ms: &f64| Stage {
        times: on_cores(ms * 1e6, ms * 1.2e6),
        ..Stage::default()
    };
    Model {
        name: name.into(),
        source: "synthetic".into(),
        stages: stages_ms.iter().map(stage).collect(),
        calibration: calibration(name, exits, SAMPLES),
        weights: None,
    }
}
