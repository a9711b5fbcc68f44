//! Which device runs a partition's stages, and which a model is on.

use punctual_diagnostics::{Problems, Rule};
use thiserror::Error;

use crate::inputs::DeviceKind;
use crate::inputs::Host;
use crate::manifest::{Manifest, RawPartition};

/// What is wrong with the device of a partition, or of a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceRule {
    /// The GPU without a part of it.
    #[error("a partition of the GPU without `tpcs`")]
    NoTpcs,
    /// `tpcs`, and the device that does not use them.
    #[error("`tpcs` of a partition that {:?} runs", device.name())]
    TpcsElsewhere { device: DeviceKind },
    #[error("{reason}")]
    NoLibrary { reason: String },
    /// An operator that is not handed to the library.
    #[error("the memory that model {model:?} takes with ONNX Runtime is not known")]
    NotWritten { model: String },
    #[error(
        "model {model:?} is run by {one:?}, {}, and by {other:?}, {}",
        of(*one_device), of(*other_device)
    )]
    BothDevices {
        model: String,
        one: String,
        one_device: DeviceKind,
        other: String,
        other_device: DeviceKind,
    },
}

const fn of(device: DeviceKind) -> &'static str {
    match device {
        DeviceKind::Cpu => "of cores",
        DeviceKind::Cuda => "of the GPU",
        DeviceKind::Ort => "of ONNX Runtime",
        DeviceKind::OrtCuda => "of ONNX Runtime on the GPU",
        DeviceKind::OrtTensorrt => "of TensorRT on the GPU",
    }
}

impl Rule for DeviceRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NoTpcs | Self::TpcsElsewhere { .. } => {
                "a partition of the GPU is made of TPCs, every other one of cores"
            }
            Self::NoLibrary { .. } => "a plan with ONNX Runtime is made where its library is",
            Self::NotWritten { .. } => {
                "a network that ONNX Runtime runs can be written as ONNX, stage by stage"
            }
            Self::BothDevices { .. } => "a model is on one device",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NoTpcs => "say how many, e.g. tpcs = 4".into(),
            Self::TpcsElsewhere { .. } => "remove `tpcs`, or `device`".into(),
            Self::NoLibrary { .. } => {
                "set ORT_DYLIB_PATH to libonnxruntime.so, or remove `device`".into()
            }
            Self::NotWritten { .. } => {
                "give its tasks a partition of cores without `device`".into()
            }
            Self::BothDevices { .. } => {
                "name the package twice, as two [[model]]s of different names".into()
            }
        }
    }
}

/// Notes partitions whose keys contradict their device, and a device that is not there.
pub(super) fn check(manifest: &Manifest, host: &Host, problems: &mut Problems<'_>) {
    let mut missing = host.ort.as_ref().err();
    for partition in &manifest.partitions {
        let place = partition.device_place.as_ref();
        let place = place.unwrap_or(&partition.place);
        match (partition.device, &partition.tpcs) {
            (device, None) if !device.runs_on_cores() && partition.fill.is_none() => {
                problems.add(place, DeviceRule::NoTpcs)
            }
            (device, Some(_)) if device.runs_on_cores() => {
                problems.add(place, DeviceRule::TpcsElsewhere { device });
            }
            (DeviceKind::Ort, None) => {
                // Once is enough.
                if let Some(reason) = missing.take() {
                    let reason = reason.clone();
                    problems.add(place, DeviceRule::NoLibrary { reason });
                }
            }
            _ => {}
        }
    }
}

/// The device of each model of the manifest: that of the partitions of its tasks. A model that no
/// task uses is where everything else is, or else on the processor.
pub(crate) fn of_models(manifest: &Manifest, problems: &mut Problems<'_>) -> Vec<DeviceKind> {
    let all = manifest.partitions.first().map(|first| first.device);
    let all = all.filter(|all| manifest.partitions.iter().all(|p| p.device == *all));
    let mut devices = Vec::new();
    for model in &manifest.models {
        let users = partitions_of(manifest, &model.name.value);
        let first = users.iter().min_by_key(|partition| partition.device);
        let other = first.and_then(|first| users.iter().find(|p| p.device != first.device));
        if let (Some(one), Some(other)) = (first, other) {
            let cause = DeviceRule::BothDevices {
                model: model.name.value.clone(),
                one: one.name.value.clone(),
                one_device: one.device,
                other: other.name.value.clone(),
                other_device: other.device,
            };
            problems.add(&model.name.place, cause);
        }
        let used = other.or(first).map(|partition| partition.device);
        devices.push(used.or(all).unwrap_or(DeviceKind::Cpu));
    }
    devices
}

/// The partitions of the tasks that use a model.
fn partitions_of<'m>(manifest: &'m Manifest, model: &str) -> Vec<&'m RawPartition> {
    let tasks = manifest.tasks.iter();
    let tasks = tasks.filter(|task| task.model.as_ref().is_some_and(|at| at.value == model));
    tasks
        .filter_map(|task| manifest.partition_of(task))
        .collect()
}
