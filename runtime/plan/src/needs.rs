//! What has to be there before a plan can be made: packages to compile, figures to measure.

use punctual_diagnostics::{Diagnostics, Problems, Spanned};
use std::path::Path;

use punctual_core::{Partitioning, PolicySpec};
use serde::Serialize;

use crate::inputs::{DeviceKind, HostCores, PlanInputs, Policies};
use crate::manifest::{
    self, LeaderWait, Manifest, PackageSource, PlaceChoice, Preparers, RawModel, RawPartition,
    RawTask,
};
use crate::read::Files;
use crate::resolve::places::{self, Home};
use crate::resolve::{FrameNeeds, batches_up_to, device, left};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Needs {
    pub board: String,
    /// The power mode, if it says one.
    pub power_mode: Option<String>,
    /// The folder of engines that the user has built, as in the manifest: relative to the manifest's folder.
    pub engines: Option<String>,
    /// How leaders of partitions of the GPU wait.
    pub leader_wait: LeaderWait,
    pub models: Vec<ModelNeeds>,
    /// Its partitions, in its order.
    pub partitions: Vec<PartitionNeeds>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PartitionNeeds {
    pub device: DeviceKind,
    /// Cores or TPCs.
    pub units: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelNeeds {
    pub name: String,
    /// Its package, as in the manifest: relative to the manifest's folder.
    pub package: String,
    /// Batch sizes to measure, rising.
    pub batches: Vec<u8>,
    /// Where to measure its stages; frames are prepared by the processor.
    pub device: DeviceKind,
    /// Partition sizes to measure, in cores or TPCs, rising.
    pub units: Vec<u8>,
    /// Whether to measure all of these with busy neighbours, too: places are planned with such figures, and then so
    /// are the partitions that lend to them.
    pub beside: bool,
    /// Whether to measure single launches, too: partitions that fill are planned with such figures.
    pub launches: bool,
    /// Frames to measure the preparation of, without repetition.
    pub frames: Vec<FrameNeeds>,
    /// Those of them that the GPU may prepare: to measure there, too.
    pub frames_on_device: Vec<FrameNeeds>,
    /// Whether weights of its package come and go: then all of it is computed directly, and must be measured in this way.
    pub paged: bool,
    /// The pattern that found it: of the packages of one, those that take the same time share a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

impl Needs {
    /// From the manifest alone, on a machine with these cores; neither packages nor profiles are looked at, but for the
    /// names of the packages that a pattern means.
    pub fn of_manifest(
        text: &str,
        path: &Path,
        policies: &Policies,
        cores: &HostCores,
    ) -> Result<Self, Diagnostics> {
        let files = Files::of(path.parent().unwrap_or(Path::new("")));
        let mut problems = Problems::new(path, text, "plan");
        let manifest = manifest::read(policies, PackageSource::Files(&files), &mut problems);
        Self::of(manifest, cores, problems)
    }

    /// Of the manifest that these were read for.
    pub fn of_inputs(inputs: &PlanInputs) -> Result<Self, Diagnostics> {
        let (path, text) = (&inputs.manifest_path, &inputs.manifest_text);
        let mut problems = Problems::new(path, text, "plan");
        let source = PackageSource::Read(&inputs.packages);
        let manifest = manifest::read(&inputs.policies, source, &mut problems);
        Self::of(manifest, &inputs.host.cores, problems)
    }

    fn of(
        manifest: Option<Manifest>,
        cores: &HostCores,
        mut problems: Problems<'_>,
    ) -> Result<Self, Diagnostics> {
        let Some(manifest) = manifest else {
            return Err(problems.into_errors());
        };
        let (path, text) = (problems.file(), problems.text());
        // What is wrong with the machine's cores is for the plan to say.
        let mut of_the_plan = Problems::new(path, text, "plan");
        let widths = Widths {
            manifest: &manifest,
            left: left(&manifest, cores, &mut of_the_plan) as u64,
        };
        let needs = Self {
            board: manifest
                .daemon
                .board
                .as_ref()
                .map(|at| at.value.clone())
                .unwrap_or_default(),
            power_mode: manifest
                .daemon
                .power_mode
                .as_ref()
                .map(|at| at.value.clone()),
            engines: manifest.daemon.engines.as_ref().map(|at| at.value.clone()),
            leader_wait: manifest.daemon.leaders.wait,
            models: of_models(&widths, &mut problems),
            partitions: of_partitions(&widths),
        };
        problems.into_result().map(|()| needs)
    }
}

/// The partitions of a manifest and how many compute units they have.
struct Widths<'m> {
    manifest: &'m Manifest,
    /// Cores that are left for the partition that has those.
    left: u64,
}

impl Widths<'_> {
    fn of(&self, partition: &RawPartition) -> Option<u8> {
        let cores = partition.cores.as_ref().map(|at| at.value.len() as u64);
        let cores = cores.or(partition.units.as_ref().map(|at| at.value));
        let cores = cores.or(partition.has_what_is_left().then_some(self.left));
        let tpcs = partition.tpcs.as_ref().map(|at| at.value);
        let units = tpcs.or(cores)?;
        u8::try_from(units).ok().filter(|units| *units > 0)
    }

    /// The same, of a partition that fills what its launches are lowered for: all that others have.
    fn to_measure(&self, partition: &RawPartition) -> Option<u8> {
        if partition.fill.is_none() {
            return self.of(partition);
        }
        let partitions = self.manifest.partitions.iter();
        let tpcs = partitions.filter_map(|p| p.tpcs.as_ref());
        u8::try_from(tpcs.map(|at| at.value).sum::<u64>()).ok()
    }

    /// How many compute units the places of a device have, and the partitions whose units these are; none without places.
    fn lent(&self, device: DeviceKind) -> Vec<u8> {
        let manifest = self.manifest;
        let choice = manifest.daemon.places.choice;
        let asked = choice != PlaceChoice::None || !manifest.places.is_empty();
        if !asked || !places::lends(device) || !manifest.daemon.policy.value.contract().lends {
            return Vec::new();
        }
        let homes: Vec<Home<'_>> = manifest
            .partitions
            .iter()
            .map(|partition| Home {
                name: &partition.name.value,
                device: partition.device,
                width: self.of(partition).map_or(0, u16::from),
            })
            .collect();
        let generated = places::generated(choice, &homes).into_iter();
        let generated = generated.filter(|range| range.device == device);
        let written = manifest.places.iter().filter_map(|place| match device {
            _ if device.runs_on_cores() => Some(place.cores.as_ref()?.value.len() as u64),
            _ => place.tpcs.as_ref()?.value.get(1).copied(),
        });
        let widths = generated.map(|range| u64::from(range.units.count));
        let mut widths: Vec<u64> = widths.chain(written).collect();
        if !widths.is_empty() {
            let homes = homes.iter().filter(|home| home.device == device);
            widths.extend(homes.map(|home| u64::from(home.width)));
        }
        let widths = widths
            .into_iter()
            .filter_map(|width| u8::try_from(width).ok());
        widths.filter(|width| *width > 0).collect()
    }
}

fn of_models(widths: &Widths<'_>, problems: &mut Problems<'_>) -> Vec<ModelNeeds> {
    let manifest = widths.manifest;
    let mut needs = Vec::new();
    let devices = device::of_models(manifest, problems);
    let fills = manifest.partitions.iter().any(|p| p.fill.is_some());
    for (model, device) in manifest.models.iter().zip(devices) {
        let Some(package) = &model.package else {
            continue;
        };
        let (mut units, mut frames, mut batch_max) = (Vec::new(), Vec::new(), 1);
        let mut frames_on_device = Vec::new();
        let mut pattern = None;
        for task in &manifest.tasks {
            if task.model.as_ref().map(|at| &at.value) != Some(&model.name.value) {
                continue;
            }
            batch_max = batch_max.max(task.batch_max);
            pattern = task.group.pattern.as_ref().map(ToString::to_string);
            let partition = manifest.partition_of(task);
            units.extend(partition.and_then(|partition| widths.to_measure(partition)));
            let frame = task
                .frame
                .as_ref()
                .and_then(|raw| FrameNeeds::of(raw, problems));
            let may_be_there = task.prepare.value != Preparers::Cores && device == DeviceKind::Cuda;
            let there = frame.filter(|frame| may_be_there && !frames_on_device.contains(frame));
            frames_on_device.extend(there);
            frames.extend(frame.filter(|frame| !frames.contains(frame)));
        }
        if manifest.daemon.policy.value.contract().partitioning == Partitioning::Ranges {
            let all = manifest.partitions.iter();
            let all = all.filter_map(|partition| widths.to_measure(partition));
            units.extend(1..=all.fold(0, u8::saturating_add));
        }
        let lent = widths.lent(device);
        let beside = !lent.is_empty() && !units.is_empty();
        if beside {
            units.extend(lent);
        }
        units.sort_unstable();
        units.dedup();
        needs.push(ModelNeeds {
            name: model.name.value.clone(),
            package: package.value.clone(),
            batches: batches_up_to(batch_max),
            device,
            units,
            beside,
            launches: fills && device == DeviceKind::Cuda,
            frames,
            frames_on_device,
            paged: is_paged(manifest, package),
            pattern,
        });
    }
    needs
}

/// Those without a size are noted elsewhere.
fn of_partitions(widths: &Widths<'_>) -> Vec<PartitionNeeds> {
    let partitions = widths
        .manifest
        .partitions
        .iter()
        .filter(|p| p.fill.is_none());
    let with_size = partitions.filter_map(|partition| {
        Some(PartitionNeeds {
            device: partition.device,
            units: widths.of(partition)?,
        })
    });
    with_size.collect()
}

/// Whether any model of the package is used by tasks without a reservation only.
fn is_paged(manifest: &Manifest, package: &Spanned<String>) -> bool {
    let of_package = |model: &&RawModel| {
        let other = model.package.as_ref();
        other.is_some_and(|other| other.value == package.value)
    };
    manifest.daemon.weight_cache.is_some()
        && manifest.models.iter().filter(of_package).any(|model| {
            let named = |task: &&RawTask| {
                let other = task.model.as_ref();
                other.is_some_and(|other| other.value == model.name.value)
            };
            let mut users = manifest.tasks.iter().filter(named);
            users.clone().next().is_some() && users.all(|task| !task.is_reserved())
        })
}
