//! Engines of others on the GPU: partitions of TPCs whose stages ONNX Runtime runs, by its CUDA or TensorRT execution
//! provider.

use punctual_diagnostics::{Problems, Rule};
use thiserror::Error;

use super::placement::Placed;
use crate::inputs::{DeviceKind, GpuHost};
use crate::manifest::{Manifest, RawPartition};

/// What is wrong with a partition that an engine of others runs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineRule {
    /// The library, its provider, or a way to keep it to the TPCs is missing.
    #[error("{:?} cannot be used here: {reason}", device.name())]
    NotThere { device: DeviceKind, reason: String },
    #[error("engines are given, and TensorRT runs no partition")]
    Unused,
    #[error("partition {filler:?} fills")]
    BesideFill { filler: String },
    #[error("core {core} leads this partition and {other:?}")]
    LeaderShared { core: u16, other: String },
}

impl Rule for EngineRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NotThere { .. } => {
                "an engine on the GPU is in the library that was loaded, and kept to its TPCs by its stream's mask"
            }
            Self::Unused => "`engines` are TensorRT's",
            Self::BesideFill { .. } => {
                "launches fill only beside launches of which the times are known, and those of an engine are its own"
            }
            Self::LeaderShared { .. } => "an engine's partition has a leader of its own",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NotThere { .. } => {
                "set ORT_DYLIB_PATH to the libonnxruntime.so of the package onnxruntime-gpu, or remove `device`: then our \
                 kernels run it"
                    .into()
            }
            Self::Unused => "remove it, or give a partition device = \"ort-tensorrt\"".into(),
            Self::BesideFill { .. } => "remove `fill` there, or `device` here".into(),
            Self::LeaderShared { .. } => "name another core in `cores`".into(),
        }
    }
}

fn engines(manifest: &Manifest) -> impl Iterator<Item = &RawPartition> {
    let partitions = manifest.partitions.iter();
    partitions.filter(|partition| partition.device.is_engine())
}

/// Notes engines that are not there, each once, and partitions that exclude them.
pub(super) fn check(manifest: &Manifest, gpu: Option<&GpuHost>, problems: &mut Problems<'_>) {
    let mut partitions = engines(manifest);
    if let Some(given) = &manifest.daemon.engines
        && !partitions.any(|partition| partition.device == DeviceKind::OrtTensorrt)
    {
        problems.add(&given.place, EngineRule::Unused);
    }
    for device in DeviceKind::ENGINES {
        let Some(partition) = engines(manifest).find(|p| p.device == device) else {
            continue;
        };
        let place = partition.device_place.as_ref();
        let place = place.unwrap_or(&partition.place);
        let looked = gpu.and_then(|gpu| gpu.engines.get(&device));
        // That there is no GPU is noted with the TPCs.
        if let Some(Err(reason)) = looked {
            let reason = reason.clone();
            problems.add(place, EngineRule::NotThere { device, reason });
        }
        let filler = manifest.partitions.iter().find(|p| p.fill.is_some());
        if let Some(filler) = filler {
            let filler = filler.name.value.clone();
            problems.add(place, EngineRule::BesideFill { filler });
        }
    }
}

/// Notes leaders of engines that have others to serve: the library queues a whole stage before it returns.
pub(super) fn check_leaders(partitions: &[Placed], problems: &mut Problems<'_>) {
    for (position, partition) in partitions.iter().enumerate() {
        if !partition.device.is_engine() {
            continue;
        }
        let mut others = partitions.iter().enumerate();
        let shared = others.find(|(at, other)| {
            *at != position && !other.tpcs.is_empty() && other.cores == partition.cores
        });
        if let Some((_, other)) = shared {
            let (core, other) = (partition.cores[0], other.name.clone());
            problems.add(&partition.place, EngineRule::LeaderShared { core, other });
        }
    }
}
