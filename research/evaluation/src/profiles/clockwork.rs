//! The networks of Clockwork on an NVIDIA Tesla V100.
//!
//! | figure | origin |
//! | --- | --- |
//! | weights, transfer and latency at batches 1 to 16 of six networks: [`TABLE_1`] | given: Table 1 (the paper's selection) |
//! | the names of all 61: [`models`] | given: Table 2 |
//! | the other 55 networks' figures | reconstructed: latencies of the most similar network of Table 1, scaled by their arithmetic; weights by their published number of parameters; transfers at 12.3 GB/s as in Table 1 |
//! | a page of weights: 16 MB | given: section 5.2 |
//! | pages of a GPU: [`GPU_PAGES`] | reconstructed: 201 copies of ResNet50 fill it (section 6.2) |
//! | error of predicted times: [`PREDICTION_ERROR_US`] | given: section 6.5 and Figure 10 |

use punctual_core::Weights;

use super::{millis, single_exit};
use punctual_simulator::scenario::Model;

/// A network: weights in MB, their transfer in ms, and latencies in ms at batches 1, 2, 4, 8, 16.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub name: &'static str,
    pub weights_mb: f64,
    /// Time of their transfer to the device.
    pub transfer_ms: f64,
    /// Latency by batch.
    pub batches_ms: [f64; 5],
}

pub const TABLE_1: [Network; 6] = [
    row("densenet169", 56.5, 4.50, [5.18, 6.29, 8.57, 12.82, 21.85]),
    row("inceptionv3", 95.3, 7.77, [4.46, 6.85, 10.99, 16.45, 26.17]),
    row(
        "mobile_pose_mobilenetv3",
        19.0,
        1.55,
        [1.29, 1.92, 3.13, 5.71, 11.62],
    ),
    row("resnet18", 46.7, 3.81, [1.27, 1.86, 2.73, 4.06, 7.02]),
    row("resnet50", 102.3, 8.33, [2.61, 3.78, 5.61, 9.13, 15.67]),
    row(
        "resnet152",
        240.9,
        19.58,
        [7.71, 11.14, 16.21, 26.48, 44.60],
    ),
];

pub const PAGE_MB: f64 = 16.0;

/// Pages of weights that a GPU holds: 201 copies of ResNet50 of 7 pages each.
pub const GPU_PAGES: u32 = 201 * 7;

/// MB that are transferred in a millisecond.
const TRANSFER_MB_PER_MS: f64 = 12.3;

/// 99th percentiles of over- and underprediction of a stage's time, in microseconds.
pub const PREDICTION_ERROR_US: (f64, f64) = (144.0, 55.0);

/// Time factor and weights of the networks that Table 1 leaves out, by the row they resemble.
const OTHERS: [(&str, usize, f64, f64); 55] = [
    ("densenet121", 0, 0.75, 32.0),
    ("densenet161", 0, 1.9, 115.0),
    ("densenet201", 0, 1.25, 80.0),
    ("dla34", 4, 0.85, 63.0),
    ("googlenet", 3, 1.0, 27.0),
    ("xception", 1, 1.4, 92.0),
    ("mobile_pose_sprn18", 3, 1.2, 62.0),
    ("mobile_pose_resnet18", 3, 1.1, 52.0),
    ("mobile_pose_resnet50", 4, 1.1, 110.0),
    ("resnest14", 4, 0.75, 42.0),
    ("resnest26", 4, 1.0, 68.0),
    ("resnest40", 4, 1.4, 108.0),
    ("resnest101", 5, 1.1, 193.0),
    ("resnet18b", 3, 1.0, 46.7),
    ("resnet34", 3, 1.9, 87.2),
    ("resnet34b", 3, 1.9, 87.2),
    ("resnet50b", 4, 1.0, 102.3),
    ("resnet50c", 4, 1.05, 102.4),
    ("resnet50d", 4, 1.06, 102.4),
    ("resnet50s", 4, 1.07, 102.8),
    ("resnet50_1.8x", 4, 0.55, 56.0),
    ("resnet101", 5, 0.68, 178.0),
    ("resnet101b", 5, 0.68, 178.0),
    ("resnet101c", 5, 0.7, 178.1),
    ("resnet101d", 5, 0.7, 178.1),
    ("resnet101s", 5, 0.71, 178.5),
    ("resnet101_1.9x", 5, 0.36, 94.0),
    ("resnet101_2.2x", 5, 0.31, 81.0),
    ("resnet152b", 5, 1.0, 240.9),
    ("resnet152c", 5, 1.02, 241.0),
    ("resnet152d", 5, 1.02, 241.0),
    ("resnet152s", 5, 1.03, 241.4),
    ("resnet18_v2", 3, 1.0, 46.7),
    ("resnet34_v2", 3, 1.9, 87.2),
    ("resnet50_v2", 4, 1.0, 102.3),
    ("resnet101_v2", 5, 0.68, 178.0),
    ("resnet152_v2", 5, 1.0, 240.9),
    ("resnext50_32", 4, 1.15, 100.0),
    ("resnext101_32", 5, 0.85, 177.0),
    ("resnext101_64", 5, 1.5, 334.0),
    ("senet50_32", 4, 1.25, 110.0),
    ("senet101_32", 5, 0.9, 196.0),
    ("tsn_inceptionv1", 3, 1.0, 27.0),
    ("tsn_inceptionv3", 1, 1.0, 95.3),
    ("tsn_resnet18", 3, 1.0, 46.7),
    ("tsn_resnet34", 3, 1.9, 87.2),
    ("tsn_resnet50", 4, 1.0, 102.3),
    ("tsn_resnet101", 5, 0.68, 178.0),
    ("tsn_resnet152", 5, 1.0, 240.9),
    ("wide_resnet16_10", 4, 0.7, 69.0),
    ("wide_resnet28_10", 4, 1.4, 146.0),
    ("wide_resnet40_8", 4, 1.5, 143.0),
    ("winograd_resnet18", 3, 0.8, 46.7),
    ("winograd_resnet50", 4, 0.9, 102.3),
    ("winograd_resnet101", 5, 0.61, 178.0),
];

const fn row(
    name: &'static str,
    weights_mb: f64,
    transfer_ms: f64,
    batches_ms: [f64; 5],
) -> Network {
    Network {
        name,
        weights_mb,
        transfer_ms,
        batches_ms,
    }
}

/// All 61 networks of Table 2, those of Table 1 first.
#[must_use]
pub fn networks() -> Vec<Network> {
    let others = OTHERS
        .iter()
        .map(|&(name, like, factor, weights_mb)| Network {
            name,
            weights_mb,
            transfer_ms: weights_mb / TRANSFER_MB_PER_MS,
            batches_ms: TABLE_1[like].batches_ms.map(|ms| ms * factor),
        });
    TABLE_1.into_iter().chain(others).collect()
}

/// ResNet50, of which most experiments use copies.
#[must_use]
pub fn resnet50() -> Network {
    TABLE_1[4]
}

impl Network {
    /// Its profile under a name of its own: copies of a network are networks with weights of their
    /// own, whose requests cannot share a batch.
    #[must_use]
    pub fn model(&self, name: &str) -> Model {
        let batches = [1, 2, 4, 8, 16];
        let times: Vec<(u8, f64)> = batches.into_iter().zip(self.batches_ms).collect();
        let given = TABLE_1.iter().any(|row| row.name == self.name);
        let source = if given {
            "Clockwork, Table 1"
        } else {
            "Clockwork, Table 2; figures reconstructed"
        };
        let mut model = single_exit(name, source, 1, &times);
        model.weights = Some(Weights {
            pages: (self.weights_mb / PAGE_MB).ceil() as u32,
            load: millis(self.transfer_ms),
        });
        model
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_the_61_networks_of_table_2_each_with_another_name() {
        let networks = networks();
        let mut names: Vec<&str> = networks.iter().map(|network| network.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((networks.len(), names.len()), (61, 61));
    }

    #[test]
    fn larger_batches_take_longer_and_less_for_each_image() {
        for network in networks() {
            let times = network.batches_ms;
            for (smaller, larger) in times.iter().zip(&times[1..]) {
                assert!(larger > smaller && *larger < 2.1 * smaller, "{network:?}");
            }
        }
    }

    #[test]
    fn the_device_holds_201_copies_of_resnet50() {
        let pages = resnet50().model("copy").weights.expect("paged").pages;
        assert_eq!(GPU_PAGES / pages, 201);
    }
}
