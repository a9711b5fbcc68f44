//! From measurements to budgets: how long a stage may take on a partition.

use punctual_core::{BatchTime, ModelConfig, Nanos, SPAN_MAX, StageConfig, StageTime};
use punctual_diagnostics::{Problems, Rule, and_more};
use punctual_model::{Profile, StageProfile};
use thiserror::Error;

use super::arrival::{Interference, response};
use super::fill;
use crate::inputs::DeviceKind;
use crate::manifest::Margins;
use crate::resolve::{MEASURE, Model, Placed};

/// A figure that a profile lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the profile of model {model:?} lacks stage {stage}, batch {batch}, {units} unit(s){}{}",
    if *beside { " beside busy neighbours" } else { "" },
    and_more(*more)
)]
#[non_exhaustive]
pub struct StageNotProfiled {
    pub model: String,
    pub stage: u8,
    pub batch: u8,
    pub units: u8,
    /// While all other compute units are busy.
    pub beside: bool,
    /// How many more figures it lacks.
    pub more: usize,
}

impl Rule for StageNotProfiled {
    fn rule(&self) -> &'static str {
        if self.beside {
            "what runs on places, or beside them, is measured while all other compute units are busy"
        } else {
            "all stages are measured at all batch sizes in use"
        }
    }

    fn help(&self) -> String {
        if self.beside {
            "measure with `punctual profile --beside MANIFEST` on this machine, or remove the places".into()
        } else {
            MEASURE.into()
        }
    }
}

/// Budgets of what runs on partitions.
pub(crate) struct Budgets<'p> {
    pub(crate) margins: &'p Margins,
    /// For each partition, what stretches whatever runs on it.
    pub(crate) stretches: &'p [Vec<Interference>],
}

impl Budgets<'_> {
    /// The budget for something that was measured alone, on this partition.
    pub(crate) fn of(&self, partition: usize, samples: u32, p99_ns: u64, max_ns: u64) -> Nanos {
        let alone = self.margins.budget(samples, p99_ns, max_ns);
        response(alone, &self.stretches[partition]).min(SPAN_MAX)
    }
}

/// The scheduler's table of one model: a budget for each stage and batch size on each partition.
pub(crate) fn config(
    model: &Model<'_>,
    batches: &[u8],
    partitions: &[Placed],
    runs_on: impl Fn(usize) -> bool,
    budgets: &Budgets<'_>,
    problems: &mut Problems<'_>,
) -> ModelConfig {
    let network = model.package.network();
    let answers: Vec<bool> = network.stages.iter().map(|s| s.exit.is_some()).collect();
    let calibration = model.package.calibration().by_stage(&answers);
    let accuracies = calibration.exit_accuracies(answers.len());
    let mut stages = Vec::new();
    let (mut missing, mut missing_beside) = (Vec::new(), Vec::new());
    for (stage, exit) in (0..model.stages()).zip(accuracies) {
        let mut times: Vec<BatchTime> = Vec::new();
        for &batch in batches {
            let mut on = Vec::new();
            for (position, partition) in partitions.iter().enumerate() {
                // Where it is never dispatched, the longest span keeps a mistake from looking cheap.
                let mut time = LONGEST;
                if runs_on(position) {
                    let figure = (stage, batch, partition.width());
                    match stage_time(model.profile, stage, batch, partitions, position, budgets) {
                        Ok(found) => time = found,
                        Err(Lacks::Alone) => missing.push(figure),
                        Err(Lacks::Beside) => missing_beside.push(figure),
                    }
                }
                // A larger batch is never cheaper; where it was measured so, that was noise.
                if let Some(smaller) = times.last() {
                    time.budget = time.budget.max(smaller.on[position].budget);
                    time.max_seen = time.max_seen.max(smaller.on[position].max_seen);
                }
                on.push(time);
            }
            times.push(BatchTime { batch, on });
        }
        stages.push(StageConfig {
            times,
            accuracy: exit.accuracy,
            deeper: exit.deeper,
            follows: exit.follows,
            answers: answers[usize::from(stage)],
            runs_as: None,
        });
    }
    for (beside, missing) in [(false, missing), (true, missing_beside)] {
        if let Some(&(stage, batch, units)) = missing.first() {
            let cause = StageNotProfiled {
                model: model.name.clone(),
                stage,
                batch,
                units,
                beside,
                more: missing.len() - 1,
            };
            problems.add(&model.place, cause);
        }
    }
    ModelConfig {
        stages,
        weights: None,
        places: Vec::new(),
    }
}

const LONGEST: StageTime = StageTime {
    budget: SPAN_MAX,
    max_seen: SPAN_MAX,
};

/// Which figures of a stage a profile lacks.
enum Lacks {
    Alone,
    Beside,
}

/// The time of a stage at a batch size on a partition: on a place, the time with busy neighbours. Where there are places, the
/// partitions of tasks have such neighbours, too: the longer of their times alone and with neighbours.
fn stage_time(
    profile: &Profile,
    stage: u8,
    batch: u8,
    partitions: &[Placed],
    position: usize,
    budgets: &Budgets<'_>,
) -> Result<StageTime, Lacks> {
    let partition = &partitions[position];
    let units = partition.width();
    let of = |entry| measured(entry, budgets, position);
    let beside = profile.stage_beside(stage, batch, units);
    if partition.is_place() {
        return beside.map(of).ok_or(Lacks::Beside);
    }
    let alone = profile
        .stage(stage, batch, units)
        .map(of)
        .ok_or(Lacks::Alone)?;
    if partition.fills() {
        return Ok(fill::filling(alone));
    }
    if !has_places(partition.device, partitions) {
        return Ok(alone);
    }
    // Those of fewer compute units would make the partition look slower than it is.
    let beside = beside.filter(|entry| entry.units == units);
    let beside = beside.map(of).ok_or(Lacks::Beside)?;
    Ok(StageTime {
        budget: alone.budget.max(beside.budget),
        max_seen: alone.max_seen.max(beside.max_seen),
    })
}

pub(super) fn measured(entry: &StageProfile, budgets: &Budgets<'_>, partition: usize) -> StageTime {
    let budget = budgets.of(partition, entry.samples, entry.p99_ns, entry.max_ns);
    let max_seen = Nanos::new(entry.max_ns).max(budget).min(SPAN_MAX);
    StageTime { budget, max_seen }
}

/// Whether any place is made of a device's compute units.
pub(super) fn has_places(device: DeviceKind, partitions: &[Placed]) -> bool {
    let mut places = partitions.iter().filter(|partition| partition.is_place());
    places.any(|place| place.device == device)
}
