//! Operators and stages as a graph: what reads what, in which order, and what is left when some of it goes.

use std::collections::BTreeSet;

use punctual_model::{Exit, Network, Operator, Stage, Tensor, TensorId};
use punctual_types::Random;

use super::drawing::any;

pub(super) fn any_operator(network: &Network, random: &mut Random) -> Option<(usize, usize)> {
    find(network, random, |_| true)
}

/// Any operator that `fits`.
pub fn find(
    network: &Network,
    random: &mut Random,
    fits: impl Fn(&Operator) -> bool,
) -> Option<(usize, usize)> {
    let stages = network.stages.iter().enumerate();
    let all = stages.flat_map(|(at, stage)| {
        let operators = stage.operators.iter().enumerate();
        operators.map(move |(op, operator)| ((at, op), operator))
    });
    let fitting = all.filter(|(_, operator)| fits(operator));
    any(&fitting.map(|(place, _)| place).collect::<Vec<_>>(), random)
}

/// What is there before the operator at this place runs: inputs, and what operators before it write.
pub fn written_before(network: &Network, (stage, at): (usize, usize)) -> Vec<TensorId> {
    let earlier = network.stages[..stage].iter();
    let earlier = earlier.flat_map(|stage| &stage.operators);
    let own = &network.stages[stage].operators[..at];
    let written = earlier.chain(own).map(|operator| operator.output);
    network.input_tensors().chain(written).collect()
}

/// All that operators and exits read, to rename it.
fn reads_mut(network: &mut Network) -> impl Iterator<Item = &mut TensorId> {
    network.stages.iter_mut().flat_map(|stage| {
        let operators = stage.operators.iter_mut().flat_map(Operator::reads_mut);
        operators.chain(stage.exit.iter_mut().flat_map(Exit::reads_mut))
    })
}

/// Gives tensors other numbers, wherever they are named.
fn rename(network: &mut Network, new: impl Fn(TensorId) -> TensorId) {
    reads_mut(network).for_each(|read| *read = new(*read));
    for stage in &mut network.stages {
        let written = stage.operators.iter_mut().map(|each| &mut each.output);
        let lists = stage.inputs.iter_mut().chain(&mut stage.outputs);
        written.chain(lists).for_each(|id| *id = new(*id));
    }
    let bytes = std::mem::take(&mut network.quantised.tensors);
    network.quantised.tensors = bytes.into_iter().map(|(id, of)| (new(id), of)).collect();
}

/// Makes room for a tensor of this shape at `at`.
pub(super) fn insert_tensor(network: &mut Network, at: usize, shape: Tensor) {
    network.tensors.insert(at, shape);
    rename(network, |id| TensorId(id.0 + u32::from(id.index() >= at)));
}

/// Leaves out operators that no exit depends on, vectors that nothing reads, and their tensors.
pub(super) fn prune(network: &mut Network) {
    let mut needed = BTreeSet::new();
    for stage in network.stages.iter_mut().rev() {
        needed.extend(stage.exit.iter().flat_map(Exit::reads));
        let mut kept = Vec::new();
        for operator in stage.operators.drain(..).rev() {
            if needed.contains(&operator.output) {
                needed.extend(operator.reads());
                kept.push(operator);
            }
        }
        kept.reverse();
        stage.operators = kept;
    }
    for at in (0..network.vectors.len()).rev() {
        if !needed.contains(&TensorId(at as u32 + 1)) {
            network.vectors.remove(at);
            network.tensors.remove(at + 1);
            let moved = |id: TensorId| TensorId(id.0 - u32::from(id.index() > at + 1));
            needed = needed.into_iter().map(moved).collect();
            rename(network, moved);
        }
    }
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let written = operators.map(|operator| operator.output);
    let mut kept: Vec<TensorId> = network.input_tensors().chain(written).collect();
    kept.sort_unstable();
    kept.dedup();
    network.quantised.tensors.retain(|id, _| kept.contains(id));
    let shapes = kept.iter().filter_map(|id| network.tensors.get(id.index()));
    network.tensors = shapes.copied().collect();
    rename(network, |id| {
        let place = kept.binary_search(&id).unwrap_or(id.index());
        TensorId(place as u32)
    });
}

/// Lists what each stage takes and carries over.
pub fn carry(network: &mut Network) {
    let mut later = BTreeSet::new();
    for stage in network.stages.iter_mut().rev() {
        let read: BTreeSet<TensorId> = stage.reads().collect();
        let written: BTreeSet<TensorId> = stage.operators.iter().map(|each| each.output).collect();
        stage.inputs = read.difference(&written).copied().collect();
        stage.outputs = written.intersection(&later).copied().collect();
        later.extend(&stage.inputs);
    }
}

/// A stage cut in two, or two made one.
pub(super) fn restage(network: &mut Network, random: &mut Random) -> Option<String> {
    let count = network.stages.len();
    if count > 1 && random.one_in(2) {
        let at = random.below(count as u64 - 1) as usize;
        let first = network.stages.remove(at);
        let second = &mut network.stages[at];
        let operators = std::mem::take(&mut second.operators);
        second.operators = first.operators.into_iter().chain(operators).collect();
        return Some(format!("stages {at} and {} are one", at + 1));
    }
    if count >= punctual_core::STAGES_MAX {
        return None;
    }
    let (stage, at) = any_operator(network, random)?;
    let second = network.stages[stage].operators.split_off(at);
    let exit = network.stages[stage].exit.take();
    let new = Stage {
        inputs: Vec::new(),
        outputs: Vec::new(),
        operators: second,
        exit,
    };
    network.stages.insert(stage + 1, new);
    Some(format!("stage {stage} is cut before operator {at}"))
}

/// An operator moved before another that it does not depend on.
pub(super) fn reorder(network: &mut Network, random: &mut Random) -> Option<String> {
    let (stage, at) = any_operator(network, random)?;
    let operators = &mut network.stages[stage].operators;
    let mut to = at;
    while to > 0
        && !operators[at]
            .reads()
            .any(|read| read == operators[to - 1].output)
        && !random.one_in(8)
    {
        to -= 1;
    }
    if to == at {
        return None;
    }
    let moved = operators.remove(at);
    operators.insert(to, moved);
    Some(format!("operator {at} of stage {stage} is moved to {to}"))
}

/// Networks that are a little smaller: one output only, an operator passed over, a stage left out.
pub(super) fn smaller(network: &Network) -> Vec<Network> {
    let mut all = Vec::new();
    let mut push = |mut network: Network| {
        prune(&mut network);
        carry(&mut network);
        all.push(network);
    };
    let stages = network.stages.iter().enumerate();
    for (at, stage) in stages.clone() {
        if at + 1 < network.stages.len() && stage.exit.is_some() {
            let mut without = network.clone();
            without.stages[at].exit = None;
            push(without);
            let mut cut = network.clone();
            cut.stages.truncate(at + 1);
            push(cut);
        }
        let outputs = stage.exit.iter().flat_map(|exit| 0..exit.outputs.len());
        for output in outputs {
            let mut one = network.clone();
            if let Some(exit) = &mut one.stages[at].exit
                && exit.outputs.len() > 1
            {
                exit.outputs.remove(output);
                push(one);
            }
        }
    }
    for (at, stage) in stages {
        for operator in &stage.operators {
            let same = |id: &TensorId| {
                network.tensors.get(id.index()) == network.tensors.get(operator.output.index())
                    && network.quantisation(*id) == network.quantisation(operator.output)
            };
            let Some(instead) = operator.reads().find(same) else {
                continue;
            };
            let mut passed = network.clone();
            let readers = reads_mut(&mut passed).filter(|read| **read == operator.output);
            readers.for_each(|read| *read = instead);
            let operators = &mut passed.stages[at].operators;
            operators.retain(|each| each.output != operator.output);
            push(passed);
        }
    }
    all
}
