//! What each exit costs in addition to the path to the next: its head, which requests that go deeper run for nothing.

use std::collections::BTreeSet;

use punctual_model::{DistinctWeights, Network, Operator, Stage, TensorId};

use super::Note;

/// Share of a stage's multiplications from which its head is worth a warning.
const HEAVY: f64 = 0.5;
/// Share of all weights from which a head is.
const LARGE: f64 = 0.25;
/// Share of all multiplications from which the first exit comes late.
const LATE: f64 = 0.8;

/// Warnings about the exits of a network.
pub(super) fn notes(network: &Network) -> Vec<Note> {
    // Not every stage ends in an exit: one that networks share does not.
    let stages = network.stages.iter();
    let exits: Vec<&Stage> = stages.filter(|stage| stage.exit.is_some()).collect();
    let [early @ .., _] = &exits[..] else {
        return Vec::new();
    };
    if early.is_empty() {
        return vec![Note::OneExit];
    }
    let macs_of = |stages: &[Stage]| -> u64 {
        let macs = stages.iter().map(|stage| network.multiplications(stage));
        macs.sum()
    };
    let mut notes = Vec::new();
    for (exit, stage) in early.iter().enumerate() {
        let head = head(stage);
        let macs = head
            .iter()
            .map(|operator| network.multiplications_of(operator))
            .sum();
        let head_share = percent(macs, network.multiplications(stage));
        if head_share.1 >= HEAVY {
            let percent = head_share.0;
            notes.push(Note::HeavyHead { exit, percent });
        }
        let parameters = DistinctWeights::of(head.iter().copied()).count();
        let weights = percent(parameters, network.weights.len() as u64);
        if weights.1 >= LARGE {
            let percent = weights.0;
            notes.push(Note::LargeHead { exit, percent });
        }
    }
    let stages = &network.stages;
    let before = stages.iter().position(|stage| stage.exit.is_some());
    let to_first = &stages[..=before.unwrap_or(0)];
    let first = percent(macs_of(to_first), macs_of(stages));
    if first.1 >= LATE {
        notes.push(Note::LateExit { percent: first.0 });
    }
    notes
}

/// Operators whose results only the stage's own exit needs.
fn head(stage: &Stage) -> Vec<&Operator> {
    let mut deeper: BTreeSet<TensorId> = stage.outputs.iter().copied().collect();
    for operator in stage.operators.iter().rev() {
        if deeper.contains(&operator.output) {
            deeper.extend(operator.reads());
        }
    }
    let mut operators: Vec<&Operator> = stage.operators.iter().collect();
    operators.retain(|operator| !deeper.contains(&operator.output));
    operators
}

/// A share in whole percent, and as it is.
fn percent(part: u64, whole: u64) -> (u32, f64) {
    let share = part as f64 / whole.max(1) as f64;
    ((100.0 * share).round() as u32, share)
}
