//! The five networks of DISB on an AMD Radeon Instinct MI50 (REEF, Table 1 and section 7).
//!
//! | figure | origin |
//! | --- | --- |
//! | kernels of a network: [`Network::kernels`] | given, Table 1 |
//! | time of an inference: [`Network::time_ms`] | given, Table 1. Two values lost their decimal point in the text at hand; 3.5 and 4.4 ms are what section 7.1 implies (220 requests a second of VGG saturate the device) |
//! | kernels of VGG take 10 to 255 us | given, section 2.1 |
//! | stages | reconstructed: about one a millisecond, of equal length; the network has one exit, at its end |
//! | batches | none: DISB's clients ask for one image at a time |

use super::{always_right, measured};
use punctual_model::{Calibration, CalibrationExit, CalibrationSample};
use punctual_simulator::scenario::{Model, Stage};

/// Compute units of an MI50.
pub const COMPUTE_UNITS: u16 = 60;

#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Its name in DISB's files.
    pub model_name: &'static str,
    pub kernels: u32,
    pub time_ms: f64,
}

pub const NETWORKS: [Network; 5] = [
    Network {
        model_name: "resnet152-imagenet",
        kernels: 307,
        time_ms: 13.6,
    },
    Network {
        model_name: "densenet201-imagenet",
        kernels: 207,
        time_ms: 3.5,
    },
    Network {
        model_name: "vgg19-imagenet",
        kernels: 55,
        time_ms: 4.4,
    },
    Network {
        model_name: "inceptionv3-imagenet",
        kernels: 146,
        time_ms: 8.3,
    },
    Network {
        model_name: "distilbert",
        kernels: 205,
        time_ms: 5.4,
    },
];

impl Network {
    /// The network of that name in DISB's files.
    #[must_use]
    pub fn by_name(model_name: &str) -> Option<Self> {
        NETWORKS
            .into_iter()
            .find(|network| network.model_name == model_name)
    }

    #[must_use]
    pub fn stages(&self) -> usize {
        (self.time_ms.round() as usize).max(1)
    }

    #[must_use]
    pub fn model(&self) -> Model {
        let stages = self.stages();
        let stage = Stage {
            times: measured(COMPUTE_UNITS, &[(1, self.time_ms / stages as f64)]),
            ..Stage::default()
        };
        Model {
            name: self.model_name.into(),
            source: "REEF, Table 1; stages reconstructed".into(),
            stages: vec![stage; stages],
            calibration: right_at_the_end(stages),
            weights: None,
        }
    }
}

/// Records of a network that says nothing before its last exit.
#[must_use]
pub fn right_at_the_end(stages: usize) -> Calibration {
    let mut exits = vec![CalibrationExit::judged(0, false); stages - 1];
    exits.extend(always_right().samples.remove(0).exits);
    Calibration {
        samples: vec![CalibrationSample { exits }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::STAGES_MAX;

    #[test]
    fn stages_add_up_to_the_published_time() {
        for network in NETWORKS {
            let model = network.model();
            assert!(model.stages.len() <= STAGES_MAX);
            let total: u64 = model
                .stages
                .iter()
                .map(|stage| stage.time(1, COMPUTE_UNITS).budget.as_nanos())
                .sum();
            let off = total as f64 / 1e6 - network.time_ms;
            assert!(off.abs() < 1e-4, "{}: {off}", network.model_name);
        }
    }
}
