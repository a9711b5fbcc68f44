//! Profiles of networks, with the source of each figure: what a paper's table says is *given*,
//! what was worked out from its text and figures is *reconstructed*, what nothing was published
//! about is *synthetic*. Each module says which is which; a profile's `source` says it in a line.

pub mod clockwork;
pub mod nexus;
pub mod reef;
pub mod robot;
pub mod seeb;
pub mod signs;
mod synthetic;

use punctual_core::{Nanos, StageTime};
use punctual_model::{Calibration, CalibrationExit, CalibrationSample};

use punctual_simulator::scenario::{Measured, Model, Stage};

pub use synthetic::{Exits, calibration};

/// Every profile by name, family by family.
#[must_use]
pub fn all() -> Vec<Model> {
    let mut all = vec![signs::model(), robot::detection(), robot::monitoring()];
    all.extend(seeb::models());
    all.extend(reef::NETWORKS.iter().map(reef::Network::model));
    all.extend(nexus::table_2());
    all.push(nexus::ssd());
    // Some networks are in several papers: under their bare names, the early-exit ones are
    // SEEB-GPU's.
    let clockwork = clockwork::networks();
    all.extend(
        clockwork
            .iter()
            .map(|network| network.model(&format!("v100-{}", network.name))),
    );
    all
}

#[must_use]
pub fn by_name(name: &str) -> Option<Model> {
    all().into_iter().find(|model| model.name == name)
}

#[must_use]
pub fn millis(ms: f64) -> Nanos {
    Nanos::new((ms * 1e6).round() as u64)
}

/// A network without early exits, on a device that is not divided: one stage, its times by batch
/// in milliseconds. Its answers are always right: what is studied with it is time.
#[must_use]
pub fn single_exit(name: &str, source: &str, units: u16, times_ms: &[(u8, f64)]) -> Model {
    Model {
        name: name.into(),
        source: source.into(),
        stages: vec![Stage {
            times: measured(units, times_ms),
            ..Stage::default()
        }],
        calibration: always_right(),
        weights: None,
    }
}

/// Times by batch in milliseconds on one size of partition; the longest seen is the budget.
fn measured(units: u16, times_ms: &[(u8, f64)]) -> Vec<Measured> {
    let times = times_ms.iter().map(|&(batch, ms)| Measured {
        batch,
        units,
        time: exactly(millis(ms)),
    });
    times.collect()
}

fn exactly(budget: Nanos) -> StageTime {
    StageTime {
        budget,
        max_seen: budget,
    }
}

fn always_right() -> Calibration {
    let exits = vec![CalibrationExit::judged(u16::MAX, true)];
    Calibration {
        samples: vec![CalibrationSample { exits }],
    }
}
