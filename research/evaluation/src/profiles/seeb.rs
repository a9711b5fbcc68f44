//! The four early-exit networks of SEEB-GPU (Table 2) on an RTX 3090 (41 TPCs at 1395 MHz).
//!
//! | figure | value | origin |
//! | --- | --- | --- |
//! | networks, tasks | Table 2 | given |
//! | TPCs | 41 (82 SMs in pairs) | given, section 4 |
//! | TPCs beyond which latency hardly falls: ShuffleNet, ResNet34, MobileNetV2 | 3, 8, 15 | given, section 2.2.2 |
//! | the same for ResNet50 | 12 | reconstructed: between ResNet34 and MobileNetV2 |
//! | latency rises modestly up to a batch of 8, much beyond | | given for 42 TPCs, section 2.2.3; here by [`stretch`] |
//! | accuracy at full depth | 96.3% | given (Table 3), for all four together |
//! | accuracy of BranchyNet, of SEEB-GPU; at a threshold of 0.9 | 76.6%, 83.5%; over 90% | given (Table 3, section 5.4); the synthetic records reach 76.6% at [`BRANCHYNET_THRESHOLD`] |
//! | accuracy at a threshold of 0.3 | about 40% | given (section 5.4); the records have 47% |
//! | ResNet34: over 90% of the accuracy for half of the latency | | given (Figure 3); here for 70% of it |
//! | exits of MobileNetV2 | 10 | given (section 4) |
//! | exits of the other three | 8 | reconstructed: one each two of their 16 blocks, about as dense |
//! | latency at full depth, batch 1 | 24, 14, 17, 18 ms | reconstructed: the paper gives means of 43 to 152 ms for groups of unstated size |
//! | share of the time at each exit | [`TIME_AT`] | reconstructed from Figure 3a |
//! | records of confidence | | synthetic |

use punctual_core::StageTime;

use super::{Exits, calibration, millis};
use punctual_simulator::scenario::{Measured, Model, Stage};

/// TPCs of an RTX 3090.
pub const TPCS: u16 = 41;

/// The threshold at which the records give BranchyNet the accuracy of Table 3.
pub const BRANCHYNET_THRESHOLD: f64 = 0.72;

/// Batch sizes: powers of two, as Algorithm 2 tries them, up to what an action can hold.
pub const BATCHES: [u8; 6] = [1, 2, 4, 8, 16, 32];

/// The batch for which the TPC counts of section 2.2.2 are taken to hold.
const BATCH_AT_KNEE: f64 = 4.0;

/// Share of the whole time at which a share of the depth is done. First layers are the wide ones,
/// but each exit has a head to run.
const TIME_AT: [(f64, f64); 5] = [
    (0.0, 0.0),
    (0.25, 0.2),
    (0.5, 0.4),
    (0.75, 0.65),
    (1.0, 1.0),
];

/// Accuracy of an exit at a share of the depth.
const ACCURACY_AT: [(f64, f64); 5] = [
    (0.0, 0.2),
    (0.25, 0.42),
    (0.5, 0.66),
    (0.75, 0.86),
    (1.0, 0.963),
];

const SAMPLES: usize = 4_000;

/// One network's figures.
struct Network {
    name: &'static str,
    exits: usize,
    knee_tpcs: f64,
    full_depth_ms: f64,
}

/// In the order of Table 2.
const NETWORKS: [Network; 4] = [
    Network {
        name: "resnet50",
        exits: 8,
        knee_tpcs: 12.0,
        full_depth_ms: 24.0,
    },
    Network {
        name: "shufflenet",
        exits: 8,
        knee_tpcs: 3.0,
        full_depth_ms: 14.0,
    },
    Network {
        name: "mobilenetv2",
        exits: 10,
        knee_tpcs: 15.0,
        full_depth_ms: 17.0,
    },
    Network {
        name: "resnet34",
        exits: 8,
        knee_tpcs: 8.0,
        full_depth_ms: 18.0,
    },
];

/// The four networks, in the order of Table 2.
#[must_use]
pub fn models() -> Vec<Model> {
    NETWORKS.iter().map(Network::model).collect()
}

/// How much longer a batch takes on `tpcs` TPCs than one image on very many: up to a quarter
/// while its work still finds idle TPCs, in proportion to the work beyond.
#[must_use]
pub fn stretch(knee_tpcs: f64, batch: u8, tpcs: u16) -> f64 {
    let filled = knee_tpcs * f64::from(batch) / BATCH_AT_KNEE / f64::from(tpcs);
    if filled <= 1.0 {
        1.0 + 0.25 * filled
    } else {
        1.25 * filled
    }
}

impl Network {
    fn model(&self) -> Model {
        let depth = |exit: usize| (exit + 1) as f64 / self.exits as f64;
        let accuracies: Vec<f64> = (0..self.exits)
            .map(|exit| between(&ACCURACY_AT, depth(exit)))
            .collect();
        let exits = Exits {
            accuracies: &accuracies,
            sharpness: 6.0,
            misjudgement: 0.6,
        };
        Model {
            name: self.name.into(),
            source: "SEEB-GPU, Table 2 and section 2.2; times reconstructed, records synthetic"
                .into(),
            stages: (0..self.exits).map(|exit| self.stage(exit)).collect(),
            calibration: calibration(self.name, exits, SAMPLES),
            weights: None,
        }
    }

    fn stage(&self, exit: usize) -> Stage {
        let until = |exits: usize| between(&TIME_AT, exits as f64 / self.exits as f64);
        let share = until(exit + 1) - until(exit);
        let sizes = BATCHES
            .iter()
            .flat_map(|&batch| (1..=TPCS).map(move |units| (batch, units)));
        let times = sizes.map(|(batch, units)| {
            let ms = self.full_depth_ms * share * stretch(self.knee_tpcs, batch, units);
            Measured {
                batch,
                units,
                time: StageTime {
                    budget: millis(ms),
                    max_seen: millis(ms),
                },
            }
        });
        Stage {
            times: times.collect(),
            ..Stage::default()
        }
    }
}

fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let above = points
        .partition_point(|(x, _)| *x < at)
        .clamp(1, points.len() - 1);
    let ((x0, y0), (x1, y1)) = (points[above - 1], points[above]);
    y0 + (y1 - y0) * (at - x0) / (x1 - x0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Confidence;

    /// Accuracy of the four networks together when all leave at a threshold.
    fn accuracy(threshold: f64) -> f64 {
        let threshold = Confidence((threshold * f64::from(u16::MAX)) as u16);
        let of = |model: &Model| {
            model
                .calibration
                .threshold_effect(threshold)
                .expect("records")
        };
        models().iter().map(|model| of(model).accuracy).sum::<f64>() / 4.0
    }

    #[test]
    fn the_records_have_the_published_accuracies() {
        for (threshold, published) in [(1.0, 0.963), (BRANCHYNET_THRESHOLD, 0.766)] {
            let found = accuracy(threshold);
            assert!(
                (found - published).abs() < 0.006,
                "{threshold}: {found}, not {published}"
            );
        }
        assert!(accuracy(0.9) > 0.9);
        assert!(accuracy(0.3) < 0.5);
    }

    #[test]
    fn beyond_the_published_count_of_tpcs_latency_hardly_falls() {
        for model in models() {
            let knee = NETWORKS
                .iter()
                .find(|n| n.name == model.name)
                .expect("it is one");
            let at = |units| model.stages[0].time(4, units).budget.as_nanos() as f64;
            let knee = knee.knee_tpcs as u16;
            assert!(at(knee) < at(TPCS) * 1.25, "{}", model.name);
            assert!(at(knee / 2) > at(knee) * 1.4, "{}", model.name);
        }
    }

    #[test]
    fn batches_up_to_eight_cost_little_and_larger_ones_much_on_the_whole_gpu() {
        let model = &models()[2];
        let at = |batch| model.stages[0].time(batch, TPCS).budget.as_nanos() as f64;
        assert!(at(8) < 1.25 * at(1));
        assert!(at(32) > 3.0 * at(8));
    }

    #[test]
    fn stages_add_up_to_the_full_depth() {
        for (model, network) in models().iter().zip(&NETWORKS) {
            let stages = model
                .stages
                .iter()
                .map(|stage| stage.time(1, TPCS).budget.as_nanos());
            let ms = stages.sum::<u64>() as f64 / 1e6;
            let stretched = network.full_depth_ms * stretch(network.knee_tpcs, 1, TPCS);
            assert!((ms - stretched).abs() < 0.001, "{ms}");
        }
    }
}
