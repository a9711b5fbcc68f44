//! Partitions of the GPU: which TPCs are whose.
//!
//! A partition of TPCs is led by a thread on one core. While a stage runs, the leader hands launches
//! to the driver and watches what they report in memory; it sleeps between stages. So a stage keeps
//! the leader's core for as long as it keeps the TPCs, and counts as that core's load like a
//! stage that the core computes itself. No other partition has that core; where it is one of the
//! daemon's own, arrivals stretch the stages' budgets as they do for cores.

use punctual_core::PolicySpec as _;
use punctual_diagnostics::{Problems, Rule, Spanned};
use thiserror::Error;

use super::placement::Placed;
use super::powered::{Powered, in_mode, or_another_mode};
use super::tasks::Task;
use crate::inputs::{GpuHost, PlanInputs};
use crate::manifest::Manifest;

/// What is wrong with a partition of TPCs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GpuRule {
    /// A board of which no accelerator is known.
    #[error("board {board:?} has no [gpu]")]
    NoneOnBoard { board: String },
    /// A board that has one, on a machine that does not offer it.
    #[error("this machine offers no GPU (driver, device or mechanism for partitions missing)")]
    NoneOnHost,
    #[error("{asked} TPCs wanted, {free} left of {there}{}", in_mode(mode))]
    TooFewTpcs {
        asked: u16,
        /// How many the partitions before it leave.
        free: u16,
        there: u16,
        /// The power mode, if it leaves no more on.
        mode: Option<String>,
    },
    #[error("leaders are to sleep, and no partition is of TPCs")]
    NobodyWaits,
    /// Stages are measured with a leader that does nothing else.
    #[error(
        "task {task:?} is real-time, and core {core} leads its partition and {other:?}, which run at once"
    )]
    SharedLeader {
        task: String,
        other: String,
        core: u16,
    },
    /// A number that the mechanism cannot grant.
    #[error("{tpcs} TPCs wanted, and this machine grants them in multiples of {granularity}")]
    Granularity { tpcs: u16, granularity: u16 },
}

impl Rule for GpuRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NoneOnBoard { .. } => "a partition of TPCs is on a board whose file has a [gpu]",
            Self::SharedLeader { .. } => {
                "a leader of real-time tasks serves partitions that never run at once"
            }
            Self::NobodyWaits => "leaders wait for the GPU",
            Self::NoneOnHost => "a plan with TPCs is made on the machine that has them",
            Self::TooFewTpcs { .. } => "partitions of the GPU share no TPC",
            Self::Granularity { .. } => "TPCs are granted in the multiples that the driver has",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NoneOnBoard { .. } => {
                "name a board that has one (`punctual board detect` writes its file), or give \
                 `cores` or `units`"
                    .into()
            }
            Self::SharedLeader { .. } => {
                "give the partition a core of its own in `cores`, or make the task \"best-effort\""
                    .into()
            }
            Self::NobodyWaits => "remove it".into(),
            Self::NoneOnHost => "see `punctual board detect`, or give `cores` or `units`".into(),
            Self::TooFewTpcs { free: 0, mode, .. } => {
                or_another_mode("remove the partition, or shrink others", mode)
            }
            Self::TooFewTpcs { free, mode, .. } => {
                or_another_mode(&format!("set tpcs = {free} or less"), mode)
            }
            Self::Granularity { tpcs, granularity } => {
                let least = tpcs.next_multiple_of((*granularity).max(1));
                format!("set tpcs = {least}, or another multiple")
            }
        }
    }
}

/// The TPCs of each partition of the manifest, from 0 on in the manifest's order; none where it is
/// made of cores. What cannot be granted is noted.
pub(crate) fn tpcs(
    manifest: &Manifest,
    inputs: &PlanInputs,
    powered: &Powered<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Vec<u16>> {
    if let Some(place) = &manifest.daemon.leaders.sleep
        && manifest.partitions.iter().all(|p| p.tpcs.is_none())
    {
        problems.add(place, GpuRule::NobodyWaits);
    }
    let mut next = 0;
    let mut sets = Vec::new();
    let mut is_first = true;
    let total: u64 = manifest
        .partitions
        .iter()
        .filter_map(|p| Some(p.tpcs.as_ref()?.value))
        .sum();
    for partition in &manifest.partitions {
        let Some(asked) = &partition.tpcs else {
            if partition.fill.is_some() {
                // What its launches are lowered for; which of them one has is decided when it is made.
                sets.push((0..total as u16).collect());
                continue;
            }
            sets.push(Vec::new());
            continue;
        };
        let asked = Spanned {
            value: asked.value as u16,
            place: asked.place.clone(),
        };
        if let Some(gpu) = there(inputs, &asked, is_first, problems) {
            let before = problems.count();
            grant(gpu.granularity.max(1), powered, &asked, next, problems);
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

fn grant(
    granularity: u16,
    powered: &Powered<'_>,
    asked: &Spanned<u16>,
    next: u16,
    problems: &mut Problems<'_>,
) {
    let there = powered.tpcs;
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
            mode: powered.mode_of_tpcs.clone(),
        };
        problems.add(&asked.place, cause);
    }
}

/// Notes real-time tasks whose stages would wait for a leader that has others to serve, where policies promise times.
pub(crate) fn check_leaders(
    manifest: &Manifest,
    partitions: &[Placed],
    tasks: &[Task],
    problems: &mut Problems<'_>,
) {
    if !manifest.daemon.policy.value.contract().promises {
        return;
    }
    for task in tasks {
        let own = &partitions[task.partition];
        if let Some(cause) = shared_leader(task, own, partitions.iter()) {
            problems.add(&task.deadline_place, cause);
        }
    }
}

/// Whether stages of a real-time task would wait for a leader that serves one of the other partitions.
pub(super) fn shared_leader<'p>(
    task: &Task,
    own: &Placed,
    mut others: impl Iterator<Item = &'p Placed>,
) -> Option<GpuRule> {
    if task.is_best_effort() || own.tpcs.is_empty() {
        return None;
    }
    let apart = |other: &Placed| other.tpcs.iter().all(|tpc| !own.tpcs.contains(tpc));
    let other =
        others.find(|other| !other.tpcs.is_empty() && other.cores == own.cores && apart(other))?;
    Some(GpuRule::SharedLeader {
        task: task.name.clone(),
        other: other.name.clone(),
        core: own.cores[0],
    })
}
