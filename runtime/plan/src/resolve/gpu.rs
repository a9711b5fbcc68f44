//! Partitions of the GPU: which TPCs are whose, and which models are there.
//!
//! A partition of TPCs is led by a thread on one core. While a stage runs, the leader hands launches
//! to the driver and watches what they report in memory; it sleeps between stages. So a stage keeps
//! the leader's core for as long as it keeps the TPCs, and counts as that core's load like a
//! stage that the core computes itself. No other partition has that core; where it is one of the
//! daemon's own, arrivals stretch the stages' budgets as they do for cores.

use punctual_diagnostics::{Problems, Rule, Spanned};
use thiserror::Error;

use super::partition::DeviceKind;
use crate::inputs::{GpuHost, PlanInputs};
use crate::manifest::{Manifest, RawPartition};

/// What is wrong with a partition of TPCs, or with a model on one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GpuRule {
    /// A board of which no accelerator is known.
    #[error("board {board:?} has no [gpu]")]
    NoneOnBoard { board: String },
    /// A board that has one, on a machine that does not offer it.
    #[error("this machine offers no GPU (driver, device or mechanism for partitions missing)")]
    NoneOnHost,
    #[error("{asked} TPCs wanted, {free} left of {there}")]
    TooFewTpcs {
        asked: u16,
        /// How many the partitions before it leave.
        free: u16,
        there: u16,
    },
    /// A number that the mechanism cannot grant.
    #[error("{tpcs} TPCs wanted, and this machine grants them in multiples of {granularity}")]
    Granularity { tpcs: u16, granularity: u16 },
    #[error("model {model:?} is run by {cores:?}, of cores, and by {tpcs:?}, of the GPU")]
    BothDevices {
        model: String,
        cores: String,
        tpcs: String,
    },
}

impl Rule for GpuRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NoneOnBoard { .. } => "a partition of TPCs is on a board whose file has a [gpu]",
            Self::NoneOnHost => "a plan with TPCs is made on the machine that has them",
            Self::TooFewTpcs { .. } => "partitions of the GPU share no TPC",
            Self::Granularity { .. } => "TPCs are granted in the multiples that the driver has",
            Self::BothDevices { .. } => "a model is on one device",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NoneOnBoard { .. } => {
                "name a board that has one (`punctual board detect` writes its file), or give \
                 `cores` or `units`"
                    .into()
            }
            Self::NoneOnHost => "see `punctual board detect`, or give `cores` or `units`".into(),
            Self::TooFewTpcs { free: 0, .. } => "remove the partition, or shrink others".into(),
            Self::TooFewTpcs { free, .. } => format!("set tpcs = {free} or less"),
            Self::Granularity { tpcs, granularity } => {
                let least = tpcs.next_multiple_of((*granularity).max(1));
                format!("set tpcs = {least}, or another multiple")
            }
            Self::BothDevices { .. } => {
                "name the package twice, as two [[model]]s of different names".into()
            }
        }
    }
}

/// The TPCs of each partition of the manifest, from 0 on in the manifest's order; none where it is
/// made of cores. What cannot be granted is noted.
pub(crate) fn tpcs(
    manifest: &Manifest,
    inputs: &PlanInputs,
    problems: &mut Problems<'_>,
) -> Vec<Vec<u16>> {
    let mut next = 0;
    let mut sets = Vec::new();
    let mut is_first = true;
    for partition in &manifest.partitions {
        let Some(asked) = &partition.tpcs else {
            sets.push(Vec::new());
            continue;
        };
        let asked = Spanned {
            value: asked.value as u16,
            place: asked.place.clone(),
        };
        if let Some(gpu) = there(inputs, &asked, is_first, problems) {
            let before = problems.count();
            grant(gpu, &asked, next, problems);
            // What was too much for one leaves no less for the next.
            if problems.count() > before {
                sets.push(Vec::new());
                continue;
            }
        }
        is_first = false;
        sets.push((next..next + asked.value).collect());
        next += asked.value;
    }
    sets
}

/// The machine's GPU; that there is none is noted for the first partition only.
fn there<'i>(
    inputs: &'i PlanInputs,
    asked: &Spanned<u16>,
    is_first: bool,
    problems: &mut Problems<'_>,
) -> Option<&'i GpuHost> {
    let mut note = |cause| {
        if is_first {
            problems.add(&asked.place, cause);
        }
    };
    if inputs.board.gpu.is_none() {
        let board = inputs.board.name.clone();
        note(GpuRule::NoneOnBoard { board });
        return None;
    }
    if inputs.host.gpu.is_none() {
        note(GpuRule::NoneOnHost);
    }
    inputs.host.gpu.as_ref()
}

fn grant(gpu: &GpuHost, asked: &Spanned<u16>, next: u16, problems: &mut Problems<'_>) {
    let (there, granularity) = (gpu.tpcs, gpu.granularity.max(1));
    let free = there.saturating_sub(next);
    let tpcs = asked.value;
    if !tpcs.is_multiple_of(granularity) {
        let cause = GpuRule::Granularity { tpcs, granularity };
        problems.add(&asked.place, cause);
    } else if tpcs > free {
        let cause = GpuRule::TooFewTpcs {
            asked: tpcs,
            free,
            there,
        };
        problems.add(&asked.place, cause);
    }
}

/// The device of each model of the manifest: that of the partitions of its tasks. A model that no
/// task uses is on the GPU if everything else is.
pub(crate) fn devices(manifest: &Manifest, problems: &mut Problems<'_>) -> Vec<DeviceKind> {
    let mut devices = Vec::new();
    let all_on_gpu = !manifest.partitions.is_empty()
        && manifest
            .partitions
            .iter()
            .all(|p| device(p) == DeviceKind::Cuda);
    for model in &manifest.models {
        let users = partitions_of(manifest, &model.name.value);
        let first = |kind| users.iter().find(|p| device(p) == kind);
        let (cores, tpcs) = (first(DeviceKind::Cpu), first(DeviceKind::Cuda));
        if let (Some(cores), Some(tpcs)) = (cores, tpcs) {
            let cause = GpuRule::BothDevices {
                model: model.name.value.clone(),
                cores: cores.name.value.clone(),
                tpcs: tpcs.name.value.clone(),
            };
            problems.add(&model.name.place, cause);
        }
        let on_gpu = tpcs.is_some() || (users.is_empty() && all_on_gpu);
        devices.push(match on_gpu {
            true => DeviceKind::Cuda,
            false => DeviceKind::Cpu,
        });
    }
    devices
}

/// What a partition's stages run on.
pub(crate) fn device(partition: &RawPartition) -> DeviceKind {
    match partition.tpcs {
        Some(_) => DeviceKind::Cuda,
        None => DeviceKind::Cpu,
    }
}

/// The partitions of the tasks that use a model.
fn partitions_of<'m>(manifest: &'m Manifest, model: &str) -> Vec<&'m RawPartition> {
    let tasks = manifest.tasks.iter();
    let tasks = tasks.filter(|task| task.model.as_ref().is_some_and(|at| at.value == model));
    tasks
        .filter_map(|task| {
            let name = &task.partition.as_ref()?.value;
            manifest.partitions.iter().find(|p| p.name.value == *name)
        })
        .collect()
}
