//! Further assignments of tasks to partitions: `[[layout]]`, each with partitions of its own.

use punctual_diagnostics::{Place, Problems, Section, Spanned};

use super::{LAYOUT_PARTITIONS_MAX, Manifest, RawPartition, RawTask, TPCS_MAX};
use crate::inputs::DeviceKind;

/// The name of the layout that the `[[partition]]`s are.
pub(crate) const FIRST: &str = "first";

/// A load of this much is that of a hundred devices.
const LOAD_MAX: f64 = 100.0;

pub(crate) struct RawLayout {
    pub(crate) name: Spanned<String>,
    /// The lowest and the highest load for which it is meant, as they are written.
    pub(crate) load: Option<Spanned<Vec<f64>>>,
    pub(crate) partitions: Vec<RawLayoutPartition>,
    pub(crate) place: Place,
}

pub(crate) struct RawLayoutPartition {
    /// With the number of its TPCs, if it has any.
    pub(crate) partition: RawPartition,
    /// The first TPC and their number, as they are written.
    pub(crate) tpcs: Option<Spanned<Vec<u64>>>,
    /// The tasks whose stages run there.
    pub(crate) tasks: Option<Spanned<Vec<String>>>,
}

impl RawLayout {
    pub(super) fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let name = section.name(problems);
        let load = section.optional::<Vec<f64>>("load", problems);
        for (position, &value) in load.iter().flat_map(|at| &at.value).enumerate() {
            // The highest may be as high as it likes.
            if position == 1 && value == f64::INFINITY {
                continue;
            }
            let place = section.place_of("load");
            // What it is clamped to does not count: the range was noted.
            let _ = Spanned { value, place }.within(0.0..=LOAD_MAX, "", problems);
        }
        let partitions = section.list(
            "partition",
            1..=LAYOUT_PARTITIONS_MAX,
            problems,
            RawLayoutPartition::read,
        );
        let place = section.place().clone();
        section.finish(problems);
        Some(Self {
            name: name?,
            load,
            partitions,
            place,
        })
    }

    /// The partition of this layout that names a task.
    pub(crate) fn partition_of(&self, task: &RawTask) -> Option<&RawLayoutPartition> {
        self.partitions
            .iter()
            .find(|partition| partition.names(&task.name.value))
    }
}

impl RawLayoutPartition {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let name = section.name(problems);
        let cores = section.optional::<Vec<u64>>("cores", problems);
        let units = section
            .optional::<u64>("units", problems)
            .map(|at| at.within(1..=64, " cores", problems));
        let tpcs = section.optional::<Vec<u64>>("tpcs", problems);
        let tasks = section.required("tasks", problems);
        let place = section.place().clone();
        section.finish(problems);
        // A list of another length is noted where ranges are compared.
        let count = tpcs.as_ref().map(|at| Spanned {
            value: at.value.get(1).copied().unwrap_or(1).min(TPCS_MAX),
            place: at.place.clone(),
        });
        Some(Self {
            partition: RawPartition {
                name: name?,
                cores,
                units,
                device: match count {
                    Some(_) => DeviceKind::Cuda,
                    None => DeviceKind::Cpu,
                },
                tpcs: count,
                fill: None,
                device_place: None,
                place,
            },
            tpcs,
            tasks,
        })
    }

    pub(crate) fn names(&self, task: &str) -> bool {
        let tasks = self.tasks.as_ref().map(|at| &at.value);
        tasks.is_some_and(|tasks| tasks.iter().any(|name| name == task))
    }
}

impl Manifest {
    /// The partitions of a task, in the first layout and in the others; those that exist.
    pub(crate) fn partitions_of<'m>(
        &'m self,
        task: &'m RawTask,
    ) -> impl Iterator<Item = &'m RawPartition> {
        let own = task.partition.as_ref().map(|at| &at.value);
        let mut partitions = self.partitions.iter();
        let own = partitions.find(|partition| Some(&partition.name.value) == own);
        let others = self.layouts.iter();
        let others = others.filter_map(|layout| Some(&layout.partition_of(task)?.partition));
        own.into_iter().chain(others)
    }

    /// The partitions that only further layouts have.
    pub(crate) fn further_partitions(&self) -> impl Iterator<Item = &RawLayoutPartition> {
        self.layouts.iter().flat_map(|layout| &layout.partitions)
    }
}
