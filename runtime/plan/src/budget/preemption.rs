//! How long best-effort work keeps a partition when it is preempted: the largest figure of the stages and batch sizes that may run
//! there.

use std::fmt;
use std::num::NonZeroU8;

use punctual_core::Nanos;
use punctual_model::PreemptionProfile;
use serde::Serialize;

use super::times::Budgets;
use crate::inputs::DeviceKind;
use crate::resolve::{Model, Resolved, batches_up_to};

/// The best-effort stage that keeps a partition the longest when it is preempted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreemptedStage {
    pub model: String,
    pub stage: u8,
    pub batch: u8,
}

impl fmt::Display for PreemptedStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            model,
            stage,
            batch,
        } = self;
        write!(f, "{model}, stage {stage}, batch {batch}")
    }
}

pub(super) fn bound(resolved: &Resolved<'_>, partition: usize, budgets: &Budgets<'_>) -> Nanos {
    let of = |model: &Model<'_>, batch_max| match entries(resolved, partition, model, batch_max) {
        Some(entries) => entries
            .map(|entry| budgets.of(partition, entry.samples, entry.p99_ns, entry.max_ns))
            .max(),
        // The figure is itself the longest that was seen.
        None => {
            let longest = model.profile.preemption_ns_max;
            Some(budgets.of(partition, 0, longest, longest))
        }
    };
    let bounds = best_effort(resolved, partition).filter_map(|(model, batch)| of(model, batch));
    bounds.max().unwrap_or(Nanos::ZERO)
}

/// Which stage that is, where figures by stage are the longest.
pub(super) fn longest(resolved: &Resolved<'_>, partition: usize) -> Option<PreemptedStage> {
    let mut longest: Option<(u64, PreemptedStage)> = None;
    for (model, batch_max) in best_effort(resolved, partition) {
        for entry in entries(resolved, partition, model, batch_max)? {
            if longest.as_ref().is_none_or(|(ns, _)| entry.p99_ns > *ns) {
                let stage = PreemptedStage {
                    model: model.name.clone(),
                    stage: entry.stage,
                    batch: entry.batch,
                };
                longest = Some((entry.p99_ns, stage));
            }
        }
    }
    longest.map(|(_, stage)| stage)
}

/// Models on the GPU that best-effort tasks run and whose profiles have one figure for all stages: then the longest stage.
pub(crate) fn unmeasured<'r>(resolved: &'r Resolved<'_>) -> Vec<&'r str> {
    let partitions = 0..resolved.placement.partitions.len();
    let mut names: Vec<&str> = partitions
        .flat_map(|partition| {
            let lacks = move |(model, batch): &(&'r Model<'_>, u8)| {
                model.device == DeviceKind::Cuda
                    && entries(resolved, partition, model, *batch).is_none()
            };
            best_effort(resolved, partition)
                .filter(lacks)
                .map(|(model, _)| model.name.as_str())
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The models of best-effort tasks on a partition, and their largest batches.
fn best_effort<'r>(
    resolved: &'r Resolved<'_>,
    partition: usize,
) -> impl Iterator<Item = (&'r Model<'r>, u8)> {
    let tasks = resolved.tasks.iter();
    let tasks = tasks.filter(move |task| task.is_best_effort() && task.partition == partition);
    tasks.map(|task| (&resolved.models[task.model], task.batch_max))
}

/// The figures of a model on a partition; none if its profile lacks one of them, or if launches will look less often whether
/// they are preempted than when they were measured.
fn entries<'r>(
    resolved: &Resolved<'_>,
    partition: usize,
    model: &'r Model<'r>,
    batch_max: u8,
) -> Option<impl Iterator<Item = &'r PreemptionProfile>> {
    let profile = model.profile;
    let stride = |model: &Model<'_>| model.profile.look_stride.map_or(1, NonZeroU8::get);
    let on_gpu = resolved
        .models
        .iter()
        .filter(|other| other.device == DeviceKind::Cuda);
    if model.device == DeviceKind::Cuda && on_gpu.map(stride).max() > Some(stride(model)) {
        return None;
    }
    let units = resolved.placement.partitions[partition].width();
    let batches = batches_up_to(batch_max);
    let entry = |stage: u8, batch: u8| {
        let stage = profile.measured_as(stage);
        let mut entries = profile.preemption.iter();
        entries.find(|entry| (entry.stage, entry.batch, entry.units) == (stage, batch, units))
    };
    let stages = 0..model.stages();
    let wanted = stages.flat_map(|stage| batches.iter().map(move |&batch| (stage, batch)));
    let found: Option<Vec<_>> = wanted.map(|(stage, batch)| entry(stage, batch)).collect();
    found.map(Vec::into_iter)
}
