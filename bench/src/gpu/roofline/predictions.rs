//! What the roofline predicts for each stage of some networks, for batches of 1 and 8, on all TPCs of each device and on half.

use punctual_device_cuda::PAGE_BYTES;
use punctual_device_cuda::lower::{LaunchList, LowerError, Program, Target};
use punctual_device_cuda::queue::QueueSpec;
use punctual_model::{AnswerKind, Network, OutputLayout, Package, PackageError};
use punctual_roofline::structures::Structure;
use punctual_roofline::{Device, Limit, Partition, RooflineError, StageTime};
use serde::Serialize;

use super::devices::{self, Fact, Source};
use punctual::demo;

const BATCHES: [u8; 2] = [1, 8];
/// Rows and columns of the pictures of networks that are made for any.
const SIDE: u32 = 224;

#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    #[error("a demonstration network: {0}")]
    Package(#[from] PackageError),
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Roofline(#[from] RooflineError),
}

#[derive(Debug, Serialize)]
pub struct Predictions {
    pub devices: Vec<Figures>,
    pub sources: Vec<Source>,
    pub networks: Vec<Subject>,
    pub stages: Vec<Predicted>,
}

/// The figures of a device.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub device: String,
    /// Its file in `boards`, if it has one.
    pub board: Option<String>,
    pub tpcs: u32,
    pub integrated: bool,
    pub facts: Vec<Fact>,
}

#[derive(Debug, Serialize)]
pub struct Subject {
    pub name: String,
    pub about: &'static str,
    pub input: String,
    pub stages: usize,
}

/// Of a stage for a batch on a part of a device.
#[derive(Clone, Debug, Serialize)]
pub struct Predicted {
    pub network: String,
    pub stage: usize,
    pub batch: u8,
    pub device: String,
    pub tpcs: u32,
    pub multiprocessors: u32,
    pub us: f64,
    /// What products, and bytes that the cache has no room for, allow.
    pub at_least_us: f64,
    /// As if launches did not look at the epoch.
    pub without_looks_us: f64,
    /// What limits most of its time.
    pub limit: &'static str,
    pub launches: Vec<Launch>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Launch {
    pub kernel: &'static str,
    pub us: f64,
    pub at_least_us: f64,
    pub limit: &'static str,
    pub blocks: u32,
    pub blocks_on_a_multiprocessor: u32,
    pub waves: u32,
    pub products: f64,
    pub memory_bytes: u64,
    pub host_bytes: u64,
    pub cached_bytes: u64,
}

/// Of all devices and networks.
pub fn all() -> Result<Predictions, PredictError> {
    let networks = networks()?;
    let known = devices::builtin();
    let mut stages = Vec::new();
    for (network, _) in &networks {
        for described in &known.devices {
            let device = &described.device;
            for tpcs in [device.tpcs, device.tpcs / 2] {
                stages.extend(on(network, device, tpcs)?);
            }
        }
    }
    let subject = |(network, about): &(Network, &'static str)| {
        let tensor = network.input.tensor();
        Subject {
            name: network.name.clone(),
            about,
            input: format!("{}x{}", tensor.height, tensor.width),
            stages: network.stages.len(),
        }
    };
    let figures = known.devices.iter().map(|described| Figures {
        device: described.device.name.clone(),
        board: described.board.clone(),
        tpcs: described.device.tpcs,
        integrated: described.device.integrated,
        facts: described.facts.clone(),
    });
    Ok(Predictions {
        devices: figures.collect(),
        sources: known.sources.clone(),
        networks: networks.iter().map(subject).collect(),
        stages,
    })
}

/// Structures without their weights, and the demonstration networks.
fn networks() -> Result<Vec<(Network, &'static str)>, PredictError> {
    let of = |structure: Structure| structure.outline(SIDE);
    Ok(vec![
        (of(Structure::ResNet50), "classifier with eight exits"),
        (of(Structure::MobileNetV2), "classifier with eleven exits"),
        (package(demo::SIGNS)?, "small classifier with three exits"),
        (package(demo::STREETS)?, "detector with three exits"),
        (of(Structure::UNet), "segmenter"),
        (of(Structure::VitB16), "transformer with four exits"),
    ])
}

fn package(bytes: &[u8]) -> Result<Network, PredictError> {
    Ok(Package::decode(bytes)?.network().clone())
}

/// All stages on some TPCs. What is no class is an output that clients want.
fn on(network: &Network, device: &Device, tpcs: u32) -> Result<Vec<Predicted>, PredictError> {
    let multiprocessors = device.multiprocessors / device.tpcs * tpcs;
    let target = Target {
        multiprocessors,
        compute_capability: device.compute_capability,
        page_bytes: PAGE_BYTES,
    };
    let layout = OutputLayout::of(network, |_| true);
    let outputs = (network.answer != AnswerKind::Classes).then_some(&layout);
    let program = Program::with_outputs(network, outputs, &BATCHES, &target, &[])?;
    let mut found = Vec::new();
    for (stage, lowered) in program.stages.iter().enumerate() {
        for list in &lowered.lists {
            let time = stage_time(device, list, multiprocessors)?;
            found.push(Predicted {
                network: network.name.clone(),
                stage,
                batch: list.batch,
                device: device.name.clone(),
                tpcs,
                multiprocessors,
                us: time.ns / 1e3,
                at_least_us: time.at_least_ns / 1e3,
                without_looks_us: without_looks_us(device, list, multiprocessors)?,
                limit: limit(&time).name(),
                launches: launches(&time),
            });
        }
    }
    Ok(found)
}

/// A stage as the device's queues run it.
pub fn stage_time(
    device: &Device,
    list: &LaunchList,
    multiprocessors: u32,
) -> Result<StageTime, RooflineError> {
    let partition = Partition {
        multiprocessors,
        check_stride: QueueSpec::of_kind(device.integrated).check_stride,
    };
    device.stage(list, partition)
}

fn without_looks_us(
    device: &Device,
    list: &LaunchList,
    multiprocessors: u32,
) -> Result<f64, RooflineError> {
    let mut blind = device.clone();
    blind.times.look = 0.0;
    let partition = Partition {
        multiprocessors,
        check_stride: 0,
    };
    Ok(blind.stage(list, partition)?.ns / 1e3)
}

/// What limits most of a stage's time.
pub fn limit(time: &StageTime) -> Limit {
    let mut limits = std::collections::BTreeMap::<Limit, f64>::new();
    for launch in &time.launches {
        *limits.entry(launch.limit).or_default() += launch.ns;
    }
    let most = limits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.expect("a stage has launches").0
}

fn launches(time: &StageTime) -> Vec<Launch> {
    let launch = |launch: &punctual_roofline::LaunchTime| Launch {
        kernel: launch.kernel,
        us: launch.ns / 1e3,
        at_least_us: launch.at_least_ns / 1e3,
        limit: launch.limit.name(),
        blocks: launch.blocks,
        blocks_on_a_multiprocessor: launch.resident,
        waves: launch.waves,
        products: launch.products,
        memory_bytes: launch.moved.memory,
        host_bytes: launch.moved.host,
        cached_bytes: launch.moved.cached,
    };
    time.launches.iter().map(launch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_predicted_for_both_batches_on_all_and_on_half_of_every_device() {
        let all = all().expect("predictions");
        let stages: usize = all.networks.iter().map(|network| network.stages).sum();
        assert_eq!(
            all.stages.len(),
            stages * BATCHES.len() * 2 * all.devices.len()
        );
        for predicted in &all.stages {
            let Predicted {
                us,
                at_least_us,
                without_looks_us,
                ..
            } = *predicted;
            assert!(us > at_least_us && us >= without_looks_us, "{predicted:?}");
            let launches: f64 = predicted.launches.iter().map(|launch| launch.us).sum();
            assert!(us > launches, "{predicted:?}");
        }
    }
}
