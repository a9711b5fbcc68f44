//! Cutting networks where they part.
//!
//! Networks that were specialised from one by training its last layers again begin alike. A stage
//! runs for requests of several of them at once if the whole of it is the same (Nexus, section
//! 6.3), and a stage with its exit head seldom is: the head is what was trained again. So the first
//! stage that is not the same in whole is cut in two: what all of the networks compute, which ends
//! in no exit, and what is each one's own.

use std::collections::BTreeSet;

use crate::network::{Network, Stage};
use crate::prefix::Hashing;
use crate::tensor::{Tensor, TensorId};
use crate::{Exit, Operator, PrefixHash};

/// Cuts the first stage in which the networks part, if they have a part of it in common. Networks
/// that are equal, or have nothing in common there, come back as they were; so do networks with
/// [`STAGES_MAX`](punctual_core::STAGES_MAX) stages.
///
/// # Panics
/// If a network is not valid.
#[must_use]
pub fn cut_where_they_part(networks: &[Network]) -> Vec<Network> {
    let prefixes: Vec<_> = networks.iter().map(Network::stage_prefixes).collect();
    let Some((first, others)) = prefixes.split_first() else {
        return Vec::new();
    };
    let equal = |index: usize| {
        let hash = first.get(index).map(|prefix| prefix.hash);
        let mut others = others.iter();
        hash.is_some() && others.all(|other| other.get(index).map(|p| p.hash) == hash)
    };
    let index = (0..first.len())
        .find(|&index| !equal(index))
        .unwrap_or(first.len());
    let room = |network: &Network| {
        let stages = network.stages.len();
        (index + 1..=punctual_core::STAGES_MAX).contains(&(stages + 1)) && index < stages
    };
    if !networks.iter().all(room) {
        return networks.to_vec();
    }
    let hashes: Vec<_> = networks.iter().map(tensor_hashes).collect();
    let common = common_part(networks, &hashes, index);
    if !parts(networks, &hashes, index, &common) {
        return networks.to_vec();
    }
    let networks = networks.iter().zip(&hashes);
    networks
        .map(|(network, hashes)| cut_network(network, hashes, index, &common))
        .collect()
}

/// Names all that a tensor's content depends on.
type Hash = PrefixHash;

/// By tensor; none for one that is no input and that no operator writes.
fn tensor_hashes(network: &Network) -> Vec<Option<Hash>> {
    let mut hashes = vec![None; network.tensors.len()];
    for (at, input) in network.input_tensors().enumerate() {
        let vector = at.checked_sub(1).map(|at| network.vectors[at].length);
        let mut hashing = Hashing::new(network);
        hashing.add(&(&network.input, at as u32, vector));
        hashes[input.index()] = Some(hashing.hash());
    }
    for operator in network.stages.iter().flat_map(|stage| &stage.operators) {
        let mut hashing = Hashing::new(network);
        let mut nameless = operator.clone();
        nameless.reads_mut().for_each(|read| *read = TensorId(0));
        nameless.output = TensorId(0);
        hashing.content(operator, nameless);
        for read in operator.reads() {
            hashing.add(&hashes[read.index()]);
        }
        hashes[operator.output.index()] = Some(hashing.hash());
    }
    hashes
}

/// What the networks' stages at one position have in common: tensors that all of them write there
/// and that depend, within the stage, on such tensors alone.
fn common_part(networks: &[Network], hashes: &[Vec<Option<Hash>>], index: usize) -> BTreeSet<Hash> {
    let written = |(network, hashes): (&Network, &Vec<Option<Hash>>)| {
        let operators = network.stages[index].operators.iter();
        let written = operators.filter_map(|operator| hashes[operator.output.index()]);
        written.collect::<BTreeSet<Hash>>()
    };
    let mut all = networks.iter().zip(hashes).map(written);
    let mut common = all.next().unwrap_or_default();
    for written in all {
        common.retain(|hash| written.contains(hash));
    }
    // Each round drops what depends on something dropped; operators are in order, so that few
    // rounds are needed.
    loop {
        let before = common.len();
        for (network, hashes) in networks.iter().zip(hashes) {
            let stage = &network.stages[index];
            for operator in &stage.operators {
                let own = |read: &TensorId| {
                    let local = stage.operators.iter().any(|other| other.output == *read);
                    local && hashes[read.index()].is_none_or(|hash| !common.contains(&hash))
                };
                if operator.reads().any(|read| own(&read))
                    && let Some(hash) = hashes[operator.output.index()]
                {
                    common.remove(&hash);
                }
            }
        }
        if common.len() == before {
            return common;
        }
    }
}

/// Whether the stages at one position have a part in common, but not the exit.
fn parts(
    networks: &[Network],
    hashes: &[Vec<Option<Hash>>],
    index: usize,
    common: &BTreeSet<Hash>,
) -> bool {
    let mut all = networks.iter().zip(hashes);
    !common.is_empty()
        && all.all(|(network, hashes)| {
            let exit = network.stages[index].exit.iter();
            let mut reads = exit.flat_map(Exit::reads);
            reads.any(|read| hashes[read.index()].is_some_and(|hash| !common.contains(&hash)))
        })
}

fn cut_network(
    network: &Network,
    hashes: &[Option<Hash>],
    index: usize,
    common: &BTreeSet<Hash>,
) -> Network {
    let mut stages = Vec::with_capacity(network.stages.len() + 1);
    for (at, stage) in network.stages.iter().enumerate() {
        if at != index {
            stages.push((stage.operators.clone(), stage.exit.clone()));
            continue;
        }
        let is_common = |operator: &Operator| {
            hashes[operator.output.index()].is_some_and(|hash| common.contains(&hash))
        };
        let (shared, own) = stage.operators.iter().cloned().partition(is_common);
        stages.push((shared, None));
        stages.push((own, stage.exit.clone()));
    }
    Network {
        stages: carry(stages),
        ..network.clone()
    }
}

/// Adds to each stage what it takes and what it carries over.
fn carry(stages: Vec<(Vec<Operator>, Option<Exit>)>) -> Vec<Stage> {
    let mut later = BTreeSet::new();
    let mut carried = Vec::with_capacity(stages.len());
    for (operators, exit) in stages.into_iter().rev() {
        let read = operators.iter().flat_map(Operator::reads);
        let read: BTreeSet<TensorId> = read.chain(exit.iter().flat_map(Exit::reads)).collect();
        let written: BTreeSet<TensorId> = operators.iter().map(|o| o.output).collect();
        let inputs: Vec<TensorId> = read.difference(&written).copied().collect();
        let outputs = written.intersection(&later).copied().collect();
        later.extend(&inputs);
        carried.push(Stage {
            inputs,
            outputs,
            operators,
            exit,
        });
    }
    carried.reverse();
    carried
}

/// What a device plans a request buffer by: the inputs and all that is carried between stages.
/// Networks whose entries are equal have equal request buffers, on any device, so that a stage that
/// two of them have in common can run in the other's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    shape: Tensor,
    /// The stage that writes it; none for an input.
    written: Option<usize>,
    /// The last stage that reads it.
    read: Option<usize>,
    /// Zeros around it.
    halo: u32,
}

impl Network {
    /// The inputs, then what each stage carries over, in order.
    #[must_use]
    pub fn carried(&self) -> Vec<Carried> {
        let outputs = self.stages.iter().enumerate();
        let outputs =
            outputs.flat_map(|(stage, s)| s.outputs.iter().map(move |o| (Some(stage), *o)));
        let inputs = self.input_tensors().map(|input| (None, input));
        let borders = self.borders();
        inputs
            .chain(outputs)
            .map(|(written, tensor)| Carried {
                shape: self.tensors[tensor.index()],
                written,
                read: self.stages.iter().rposition(|s| s.inputs.contains(&tensor)),
                halo: borders[tensor.index()].around(),
            })
            .collect()
    }
}
