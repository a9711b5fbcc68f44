//! What partitions that fill need: how long each launch takes alone, and time for launches that wait for others.

use std::collections::BTreeSet;

use punctual_core::{Nanos, SPAN_MAX, StageTime};
use punctual_diagnostics::{Problems, Rule};
use punctual_model::LaunchProfile;
use thiserror::Error;

use crate::inputs::DeviceKind;
use crate::resolve::{MEASURE, Model, Resolved};

/// A stage that fills is expected to take this number of times as long as alone: its launches wait for room. Nothing is
/// promised on it; a longer one counts as an overrun of its model.
const FILLING: u64 = 20;

/// The time of a stage on a partition that fills, from its time alone.
pub(super) fn filling(alone: StageTime) -> StageTime {
    let stretched = |time: Nanos| Nanos::new(time.as_nanos().saturating_mul(FILLING)).min(SPAN_MAX);
    StageTime {
        budget: stretched(alone.budget),
        max_seen: stretched(alone.max_seen),
    }
}

/// A profile without times of launches.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the profile of model {model:?} lacks the times of launches of stage {stage}, batch {batch}, {units} TPC(s)"
)]
#[non_exhaustive]
pub struct LaunchesNotProfiled {
    pub model: String,
    pub stage: u8,
    pub batch: u8,
    pub units: u8,
}

impl Rule for LaunchesNotProfiled {
    fn rule(&self) -> &'static str {
        "with a partition that fills, launches of all stages on the GPU are measured"
    }

    fn help(&self) -> String {
        MEASURE.into()
    }
}

/// By model, the times of its launches, if any partition fills. A model on partitions of several sizes has none, as its
/// launches differ: nothing runs at the same time as they do.
pub(super) fn launches(
    resolved: &Resolved<'_>,
    batches: &[Vec<u8>],
    problems: &mut Problems<'_>,
) -> Vec<Vec<LaunchProfile>> {
    let fills = resolved.placement.partitions.iter().any(|p| p.fills());
    let models = resolved.models.iter().enumerate();
    models
        .map(|(position, model)| {
            let widths = widths(resolved, position);
            match widths.first().filter(|_| widths.len() == 1) {
                Some(&units) if fills && model.device == DeviceKind::Cuda => {
                    of_model(model, &batches[position], units, problems)
                }
                _ => Vec::new(),
            }
        })
        .collect()
}

/// The sizes of the partitions that run a model.
fn widths(resolved: &Resolved<'_>, model: usize) -> BTreeSet<u8> {
    let tasks = resolved.tasks.iter().filter(|task| task.model == model);
    let partitions = tasks.map(|task| &resolved.placement.partitions[task.partition]);
    partitions.map(|partition| partition.width()).collect()
}

fn of_model(
    model: &Model<'_>,
    batches: &[u8],
    units: u8,
    problems: &mut Problems<'_>,
) -> Vec<LaunchProfile> {
    let mut found = Vec::new();
    for stage in 0..model.stages() {
        for &batch in batches {
            let mut profiles = model.profile.launches.iter();
            let of_list = |launches: &&LaunchProfile| {
                (launches.stage, launches.batch, launches.units) == (stage, batch, units)
            };
            let Some(launches) = profiles.find(of_list) else {
                let cause = LaunchesNotProfiled {
                    model: model.name.clone(),
                    stage,
                    batch,
                    units,
                };
                // One is enough.
                problems.add(&model.place, cause);
                return Vec::new();
            };
            found.push(launches.clone());
        }
    }
    found
}
