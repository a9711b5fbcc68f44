//! `signs`, the project's own network: measured, its records too.
//!
//! | figure | origin |
//! | --- | --- |
//! | stage times at batch 1 on one core: p99 as the budget, the longest seen | measured: `punctual profile` on one core of an AMD EPYC with AVX-512, 3,105 samples, the machine of `docs/results/demo.md` |
//! | batches | reconstructed: 0.98 of the time of as many images, as `docs/results/engine.md` has it for 8 |
//! | two cores | reconstructed: 1.8 times faster |
//! | records | measured: `models/signs/calibration.json`, 8,600 held-out pictures |

use std::sync::LazyLock;

use punctual_core::{Nanos, StageTime};
use punctual_model::Calibration;

use punctual_simulator::scenario::{Measured, Model, Stage};

/// p99 and longest time of each stage at batch 1, in nanoseconds.
const STAGES_NS: [(u64, u64); 3] = [
    (1_331_498, 6_030_537),
    (1_644_362, 2_822_833),
    (1_902_436, 4_357_958),
];

/// p50 over p99 of a whole image: 4.17 of 4.88 ms.
pub const MEDIAN_SHARE: f64 = 0.855;

/// p99 of one preparation (640x480, `rgb8`).
pub const PREPARE: Nanos = Nanos::new(178_295);

/// Longest time until a core was free of best-effort work, in the same measurement.
pub const PREEMPTION: Nanos = Nanos::new(536_768);

static RECORDS: LazyLock<Calibration> = LazyLock::new(|| {
    Calibration::from_json(include_str!("../../../../models/signs/calibration.json"))
        .expect("the committed records can be read")
});

/// The network, on one or two cores.
#[must_use]
pub fn model() -> Model {
    let stages = STAGES_NS.map(|(budget, longest)| Stage {
        times: on_cores(budget as f64, longest as f64),
        ..Stage::default()
    });
    Model {
        name: "signs".into(),
        source: "measured on one core; batches and two cores reconstructed".into(),
        stages: stages.to_vec(),
        calibration: RECORDS.clone(),
        weights: None,
    }
}

/// Times at all batches on one and two cores from those at batch 1 on one.
pub(super) fn on_cores(budget_ns: f64, longest_ns: f64) -> Vec<Measured> {
    let batches = [(1, 1.0), (2, 1.96), (4, 3.92), (8, 7.84)];
    let cores = [(1, 1.0), (2, 1.0 / 1.8)];
    let sizes = cores
        .iter()
        .flat_map(|core| batches.iter().map(move |batch| (core, batch)));
    let times = sizes.map(|((units, faster), (batch, images))| Measured {
        batch: *batch,
        units: *units,
        time: StageTime {
            budget: Nanos::new((budget_ns * images * faster) as u64),
            max_seen: Nanos::new((longest_ns * images * faster) as u64),
        },
    });
    times.collect()
}
