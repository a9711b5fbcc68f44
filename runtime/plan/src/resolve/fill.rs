//! Partitions that fill: best-effort launches on the TPCs that real-time launches leave (REEF's kernel padding).

use punctual_core::{Partitioning, PolicySpec as _};
use punctual_diagnostics::{Problems, Rule};
use thiserror::Error;

use super::placement::Placed;
use super::tasks::Task;
use crate::inputs::{DeviceKind, GpuHost};
use crate::manifest::{Manifest, PlaceChoice, RawPartition};

/// What is wrong with a partition that fills.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FillRule {
    #[error("a partition that fills has `{key}`")]
    HasUnits { key: &'static str },
    #[error("a partition of {:?} that fills", device.name())]
    OtherDevice { device: DeviceKind },
    #[error("no other partition has TPCs")]
    NothingToFill,
    /// A policy that divides the device by itself.
    #[error("policy {policy:?} gives TPCs to its stages by itself")]
    PolicyDivides { policy: &'static str },
    #[error("partitions fill, and `places` or [[place]] lend the TPCs that they would fill")]
    WithPlaces,
    /// Masks must be written before each launch, of single TPCs.
    #[error(
        "{mechanism}, which grants TPCs in multiples of {granularity}, cannot give each launch TPCs of its own"
    )]
    NotRedivided { mechanism: String, granularity: u16 },
    #[error("core {core} leads this partition and {other:?}")]
    LeaderShared { core: u16, other: String },
    #[error("task {task:?} is real-time, and its partition fills")]
    RealTime { task: String },
}

impl Rule for FillRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::HasUnits { .. } | Self::OtherDevice { .. } => {
                "a partition that fills is of the GPU, and has no TPCs of its own"
            }
            Self::NothingToFill => "partitions fill what others leave",
            Self::PolicyDivides { .. } => "partitions fill beside those of the manifest",
            Self::WithPlaces => "idle TPCs are lent, or filled",
            Self::NotRedivided { .. } => {
                "launches fill only by masks of single TPCs that were tried on this machine"
            }
            Self::LeaderShared { .. } => "a partition that fills has a leader of its own",
            Self::RealTime { .. } => "only best-effort launches fill",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::HasUnits { key } => format!("remove `{key}`, or `fill`"),
            Self::OtherDevice { .. } => "remove `device`, or `fill`".into(),
            Self::NothingToFill => "give the tasks to be run first a partition with `tpcs`".into(),
            Self::PolicyDivides { .. } => "choose policy = \"punctual\", or remove `fill`".into(),
            Self::WithPlaces => "remove one of the two".into(),
            Self::NotRedivided { .. } => {
                "`punctual board detect` says why masks are not used; or give the partition `tpcs`"
                    .into()
            }
            Self::LeaderShared { .. } => "name another core in `cores`".into(),
            Self::RealTime { .. } => {
                "make it \"best-effort\", or give it a partition with `tpcs`".into()
            }
        }
    }
}

/// Notes what contradicts `fill` in the manifest, and a GPU that cannot do it.
pub(super) fn check(manifest: &Manifest, gpu: Option<&GpuHost>, problems: &mut Problems<'_>) {
    let fills = manifest.partitions.iter();
    let fills = fills.filter_map(|partition| Some((partition, partition.fill.as_ref()?)));
    for (partition, place) in fills {
        let policy = &manifest.daemon.policy.value;
        let causes = [
            of_itself(partition),
            beside(manifest),
            (policy.contract().partitioning != Partitioning::Planned).then(|| {
                let policy = policy.name();
                FillRule::PolicyDivides { policy }
            }),
            gpu.and_then(undividable),
        ];
        for cause in causes.into_iter().flatten() {
            problems.add(place, cause);
        }
    }
}

fn of_itself(partition: &RawPartition) -> Option<FillRule> {
    let key = match (&partition.tpcs, &partition.units) {
        (Some(_), _) => Some("tpcs"),
        (_, Some(_)) => Some("units"),
        (None, None) => None,
    };
    let device = partition.device;
    let other = || (device != DeviceKind::Cuda).then_some(FillRule::OtherDevice { device });
    key.map(|key| FillRule::HasUnits { key }).or_else(other)
}

fn beside(manifest: &Manifest) -> Option<FillRule> {
    if manifest.partitions.iter().all(|p| p.tpcs.is_none()) {
        return Some(FillRule::NothingToFill);
    }
    let lends = manifest.daemon.places.choice != PlaceChoice::None || !manifest.places.is_empty();
    lends.then_some(FillRule::WithPlaces)
}

fn undividable(gpu: &GpuHost) -> Option<FillRule> {
    let granularity = gpu.granularity.max(1);
    (!gpu.redivides || granularity > 1).then(|| FillRule::NotRedivided {
        mechanism: gpu.mechanism.clone(),
        granularity,
    })
}

/// Notes leaders and tasks that cannot be those of a partition that fills.
pub(super) fn check_users(
    manifest: &Manifest,
    partitions: &[Placed],
    tasks: &[Task],
    problems: &mut Problems<'_>,
) {
    if manifest.daemon.policy.value.contract().partitioning != Partitioning::Planned {
        // Noted by `check`.
        return;
    }
    for (position, partition) in partitions.iter().enumerate().filter(|(_, p)| p.fills()) {
        let mut others = partitions.iter().enumerate();
        let leads = |other: &Placed| !other.tpcs.is_empty() && other.cores == partition.cores;
        if let Some((_, other)) = others.find(|(at, other)| *at != position && leads(other)) {
            let cause = FillRule::LeaderShared {
                core: partition.cores[0],
                other: other.name.clone(),
            };
            problems.add(&partition.place, cause);
        }
        let tasks = tasks.iter().filter(|task| task.partition == position);
        for task in tasks.filter(|task| !task.is_best_effort()) {
            let task_name = task.name.clone();
            problems.add(&task.deadline_place, FillRule::RealTime { task: task_name });
        }
    }
}
