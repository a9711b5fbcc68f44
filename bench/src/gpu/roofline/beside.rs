//! What was measured, next to what the roofline predicted.

use punctual_device_cuda::lower::{LowerError, Program, Target};
use punctual_model::Network;
use punctual_roofline::Device;

use super::super::machine::Machine;
use super::super::result::{Compared, Prediction};
use super::super::rig;
use super::super::step::{Session, StepError};
use super::devices;
use super::predictions::{limit, stage_time};

/// The figures to predict with on this machine.
pub struct Roofline {
    device: Result<&'static Device, &'static str>,
    compute_capability: (u32, u32),
    page_bytes: u32,
}

/// Times of a network's stages.
pub struct Predicted {
    multiprocessors: u32,
    stages: Result<Vec<Stage>, String>,
}

#[derive(Clone)]
struct Stage {
    us: f64,
    at_least_us: f64,
    limit: &'static str,
}

impl Roofline {
    /// By the device that is nearest to the session's GPU.
    pub fn find(session: &Session<'_>) -> Result<Self, StepError> {
        let machine = Machine::find(session.device)?;
        Ok(Self {
            device: nearest(&machine),
            compute_capability: session.gpu()?.compute_capability()?,
            page_bytes: rig::cuda_spec(session).page_bytes,
        })
    }

    /// Which figures these are, as a note next to predictions.
    pub fn about(&self) -> String {
        match self.device {
            Ok(device) => format!(
                "Predictions are the roofline's, by the figures of {} for as many multiprocessors as the partition has \
                 (docs/results/gpu-predictions.md).",
                device.name
            ),
            Err(why) => format!("{why}."),
        }
    }

    /// What a multiprocessor multiplies and adds in a clock by `mma.sync`; none where no known device has the same compute
    /// capability.
    pub fn tensor_products_a_clock(&self) -> Option<f64> {
        let same = |device: &&Device| device.compute_capability == self.compute_capability;
        let device = self.device.ok().filter(same)?;
        Some(device.per_clock.tensor_products)
    }

    /// What is predicted for a network's stages, for a batch on this number of multiprocessors.
    pub fn network(&self, network: &Network, batch: u8, multiprocessors: u32) -> Predicted {
        let stages = self.device.map_err(str::to_owned).and_then(|device| {
            let target = Target {
                multiprocessors,
                compute_capability: self.compute_capability,
                page_bytes: self.page_bytes,
            };
            stages(device, network, batch, &target)
        });
        Predicted {
            multiprocessors,
            stages,
        }
    }
}

impl Predicted {
    /// One stage next to its measured time.
    pub fn stage(&self, of: &str, stage: usize, measured_us: f64) -> Compared {
        let found = self.stages.as_ref().map(|stages| stages[stage].clone());
        self.compared(of, measured_us, found)
    }

    /// All stages, one after the other.
    pub fn whole(&self, of: &str, measured_us: f64) -> Compared {
        let found = self.stages.as_ref().map(|stages| Stage {
            us: stages.iter().map(|stage| stage.us).sum(),
            at_least_us: stages.iter().map(|stage| stage.at_least_us).sum(),
            limit: stages
                .iter()
                .max_by(|a, b| a.us.total_cmp(&b.us))
                .map_or("", |longest| longest.limit),
        });
        self.compared(of, measured_us, found)
    }

    fn compared(&self, of: &str, measured_us: f64, found: Result<Stage, &String>) -> Compared {
        Compared {
            of: of.to_owned(),
            multiprocessors: self.multiprocessors,
            measured_us,
            why: found.as_ref().err().map(|why| (*why).clone()),
            predicted: found.ok().map(|stage| Prediction {
                us: stage.us,
                at_least_us: stage.at_least_us,
                limit: stage.limit.to_owned(),
                ratio: measured_us / stage.us,
            }),
        }
    }
}

/// The device whose figures are nearest: by compute capability, then by the number of multiprocessors. A driver that
/// emulates one says nothing about time.
fn nearest(machine: &Machine) -> Result<&'static Device, &'static str> {
    if machine.emulated {
        return Err("emulated: no prediction");
    }
    let capability = devices::capability_of(&machine.compute_capability);
    let (major, minor) = capability.ok_or("the compute capability is not known")?;
    let known = devices::builtin().devices.iter();
    let known = known.map(|described| &described.device);
    let nearest = known.min_by_key(|device| {
        let (of_major, of_minor) = device.compute_capability;
        (
            of_major.abs_diff(major),
            of_minor.abs_diff(minor),
            device.multiprocessors.abs_diff(machine.multiprocessors),
            !is_named(device, machine),
        )
    });
    nearest.ok_or("no device is known")
}

/// Whether the machine's name for its GPU has the device's first word, which tells cards with one chip apart.
fn is_named(device: &Device, machine: &Machine) -> bool {
    let word = device.name.split_whitespace().next();
    word.is_some_and(|word| machine.device.contains(word))
}

/// Times of a network's stages; in words why there are none.
fn stages(
    device: &Device,
    network: &Network,
    batch: u8,
    target: &Target,
) -> Result<Vec<Stage>, String> {
    let said = |error: LowerError| error.to_string();
    let program = Program::lower(network, &[batch], target, &[]).map_err(said)?;
    let lists = program.stages.iter().flat_map(|stage| &stage.lists);
    let time = |list| {
        let time = stage_time(device, list, target.multiprocessors);
        let time = time.map_err(|error| error.to_string())?;
        Ok(Stage {
            us: time.ns / 1e3,
            at_least_us: time.at_least_ns / 1e3,
            limit: limit(&time).name(),
        })
    };
    lists.map(time).collect()
}

#[cfg(test)]
mod tests {
    use punctual_roofline::structures::Structure;

    use super::super::super::fixtures::machine;
    use super::*;

    fn with(compute_capability: &str, multiprocessors: u32) -> Machine {
        Machine {
            compute_capability: compute_capability.into(),
            multiprocessors,
            ..machine("a")
        }
    }

    fn roofline(machine: &Machine) -> Roofline {
        Roofline {
            device: nearest(machine),
            compute_capability: (8, 7),
            page_bytes: punctual_device_cuda::PAGE_BYTES,
        }
    }

    #[test]
    fn the_nearest_device_has_the_compute_capability_and_as_many_multiprocessors() {
        let name = |capability, multiprocessors| {
            let found = nearest(&with(capability, multiprocessors));
            found.expect("a real one").name.clone()
        };
        assert!(name("8.7", 14).contains("AGX Orin"));
        assert!(name("8.7", 8).contains("Orin Nano"));
        assert!(name("9.0", 114).contains("H100"));
        assert!(name("11.0", 20).contains("Thor"));
        assert!(name("8.6", 84).contains("AGX Orin"));
    }

    #[test]
    fn a_measured_stage_stands_beside_its_prediction_with_the_quotient() {
        let roofline = roofline(&with("8.7", 16));
        let predicted = roofline.network(&Structure::MobileNetV2.outline(128), 1, 8);
        let of = |us| predicted.stage("mobilenet_v2, stage 3, batch 1", 3, us);
        let us = of(1.0).predicted.expect("it is predicted").us;
        let beside = of(2.0 * us);
        assert_eq!((beside.multiprocessors, beside.why), (8, None));
        assert_eq!(beside.predicted.expect("it is predicted").ratio, 2.0);
        let whole = predicted.whole("mobilenet_v2, batch 1", 1.0);
        assert!(whole.predicted.expect("it is predicted").us > 5.0 * us);
    }

    #[test]
    fn an_emulated_device_has_times_and_no_prediction() {
        let emulated = Machine {
            emulated: true,
            ..with("8.7", 16)
        };
        let roofline = roofline(&emulated);
        let predicted = roofline.network(&Structure::MobileNetV2.outline(128), 1, 8);
        let beside = predicted.stage("stage 0", 0, 5.0);
        assert_eq!((beside.measured_us, beside.predicted), (5.0, None));
        assert_eq!(beside.why.as_deref(), Some("emulated: no prediction"));
    }
}
