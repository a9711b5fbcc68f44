//! Networks as a tool with errors, or an attacker, could write them: one that is right, with one to three changes.
//!
//! Shapes, weights and lists are mended after most changes, so that many mutants are valid again. What validation
//! accepts, every device must run as the interpreter does. Same seed, same mutant.

mod exits;
mod fields;
mod inserted;
mod operands;
mod repair;

use punctual_model::{AnswerKind, Exit, Network};
use punctual_types::{Element, Random};

use super::{graph, networks, operators};

/// A network that was changed.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub network: Network,
    /// Where it came from, and each change.
    pub changes: Vec<String>,
}

/// Most changes of a mutant.
const CHANGES_MAX: u32 = 3;

/// The mutant of this seed.
#[must_use]
pub fn mutant(seed: u64) -> Mutant {
    mutant_without(seed, 0)
}

/// As [`mutant`], without the changes whose bit is set in `left_out`: so a test finds out which of them matter.
#[must_use]
pub fn mutant_without(seed: u64, left_out: u32) -> Mutant {
    let seeded = Random::new(seed);
    let mut random = seeded.stream("base", 0);
    let mut network = base(&mut random);
    let mut changes = vec![format!("{}, seed {seed}", network.name)];
    if !random.one_in(4) {
        changes.extend(cut_short(&mut network, &mut random));
    }
    let count = random.within(1, CHANGES_MAX.into());
    for at in (0..count).filter(|at| left_out >> at & 1 == 0) {
        let mut random = seeded.stream("change", at);
        changes.extend(change(&mut network, &mut random));
        // Some stay as they are, so that validation sees what is wrong in one place only.
        if !random.one_in(16) {
            repair::repair(&mut network, &mut random);
        }
    }
    Mutant { network, changes }
}

/// The mutant of this seed with as few of its changes as still fail.
pub fn smallest(seed: u64, fails: impl Fn(&Network) -> bool) -> Mutant {
    let mut left_out = 0;
    for at in 0..CHANGES_MAX {
        let without = left_out | 1 << at;
        if fails(&mutant_without(seed, without).network) {
            left_out = without;
        }
    }
    let mut mutant = mutant_without(seed, left_out);
    let parts = |network: &Network| -> usize {
        let outputs = network.exits().map(|(_, exit)| exit.outputs.len());
        let operators = network.stages.iter().map(|stage| stage.operators.len());
        network.stages.len() + operators.chain(outputs).sum::<usize>()
    };
    loop {
        let limit = parts(&mutant.network);
        let smaller = graph::smaller(&mutant.network).into_iter();
        let mut smaller = smaller.filter(|network| parts(network) < limit);
        match smaller.find(&fails) {
            Some(network) => mutant.network = network,
            None => return mutant,
        }
    }
}

fn base(random: &mut Random) -> Network {
    let seed = random.below(1000);
    match random.below(11) {
        0 => networks::every_operator(seed),
        1 => networks::segments(seed),
        2 => networks::gathers(seed),
        3 => networks::copies(seed),
        4 => networks::recurrent(seed, 7),
        5 | 6 => networks::tangle(seed),
        7 => networks::arithmetic(seed),
        8 => networks::computed(seed),
        9 => networks::detectors(seed),
        _ => networks::quantised(seed),
    }
}

/// Makes any tensor the network's only answer, and leaves out what it does not need: most faults need few operators.
fn cut_short(network: &mut Network, random: &mut Random) -> Option<String> {
    let (stage, at) = graph::any_operator(network, random)?;
    let tensor = network.stages[stage].operators[at].output;
    network.stages.truncate(stage + 1);
    for stage in &mut network.stages {
        stage.exit = None;
    }
    network.answer = AnswerKind::None;
    network.classes.clear();
    let output = exits::plain(network, tensor, Element::F32);
    network.stages[stage].exit = Some(Exit {
        outputs: vec![output],
        scores: None,
        confidence: None,
    });
    repair::repair(network, random);
    Some(format!("cut after {tensor:?}"))
}

/// One change, and what it was; none if nothing of that kind is there to be changed.
fn change(network: &mut Network, random: &mut Random) -> Option<String> {
    (0..8).find_map(|_| match random.below(16) {
        0 | 1 => operands::replace(network, random),
        2 => operands::exchange(network, random),
        3..=5 => operators::reread(network, random),
        7 if random.one_in(3) => fields::tie(network, random),
        6 | 7 => fields::any(network, random),
        8 => fields::bytes(network, random),
        9 => exits::change(network, random),
        10..=12 => inserted::operator(network, random),
        13 => inserted::vector(network, random),
        14 => graph::restage(network, random),
        _ => graph::reorder(network, random),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use punctual_model::{Operator, OperatorKind, TensorId};

    /// How many different ones `traits` knows.
    const TRAITS: usize = 8;

    /// What a valid mutant has of that which planners get wrong.
    fn traits(network: &Network) -> Vec<&'static str> {
        let mut all = Vec::new();
        let inputs = 1 + network.vectors.len() as u32;
        let shape = |id: &TensorId| network.tensors[id.index()];
        let operators = || network.stages.iter().flat_map(|stage| &stage.operators);
        for operator in operators() {
            let unlike = |other: &TensorId| shape(other) != shape(&operator.input);
            match &operator.kind {
                OperatorKind::Gather(of) if of.runs.len() == 1 && of.runs[0].source > 0 => {
                    all.push("one run of another source than the first");
                }
                OperatorKind::Binary(of) if of.swapped && operator.others.iter().any(unlike) => {
                    all.push("two operands that are swapped and unlike");
                }
                OperatorKind::Conv2d(conv)
                    if (1..inputs).contains(&operator.input.0) && conv.window.halo() > 0 =>
                {
                    all.push("a vector that is convolved as an image");
                }
                OperatorKind::Binary(_) if operator.reads().any(|id| id == TensorId(0)) => {
                    all.push("the input as an operand");
                }
                _ => {}
            }
            let has_same = |other: &&Operator| other.weights == operator.weights;
            if !operator.weights.is_empty() && operators().filter(has_same).count() > 1 {
                all.push("weights that two operators have");
            }
        }
        for stage in &network.stages {
            let outputs = stage.exit.iter().flat_map(|exit| &exit.outputs);
            let outputs: Vec<TensorId> = outputs.map(|output| output.tensor).collect();
            let operators = || stage.operators.iter();
            let read = |id: &TensorId| operators().any(|each| each.reads().any(|read| read == *id));
            if outputs.iter().any(|id| stage.inputs.contains(id)) {
                all.push("an output that an earlier stage wrote");
            }
            if outputs.iter().any(read) {
                all.push("an output in the middle");
            }
            if (1..outputs.len()).any(|at| outputs[..at].contains(&outputs[at])) {
                all.push("a tensor that is two outputs");
            }
        }
        all
    }

    #[test]
    fn many_mutants_are_valid_and_have_what_planners_get_wrong() {
        let valid = (0..4000).map(|seed| mutant(seed).network);
        let valid: Vec<Network> = valid.filter(|network| network.validate().is_ok()).collect();
        assert!(valid.len() > 2000, "{} of 4000 are valid", valid.len());
        let mut found = BTreeMap::new();
        for each in valid.iter().flat_map(traits) {
            *found.entry(each).or_insert(0) += 1;
        }
        println!("{found:#?}");
        assert_eq!(found.len(), TRAITS, "{found:#?}");
        assert!(found.values().all(|&count| count >= 4), "{found:#?}");
    }

    #[test]
    fn a_seed_gives_the_same_mutant_again() {
        for seed in 0..20 {
            assert_eq!(mutant(seed).network, mutant(seed).network);
        }
    }

    #[test]
    fn the_smallest_mutant_still_fails_and_has_no_more_changes() {
        let has_gather = |network: &Network| {
            let mut operators = network.stages.iter().flat_map(|stage| &stage.operators);
            network.validate().is_ok()
                && operators.any(|each| matches!(each.kind, OperatorKind::Gather(_)))
        };
        let seeds = (0..1000).filter(|&seed| has_gather(&mutant(seed).network));
        for seed in seeds.take(20) {
            let smallest = smallest(seed, has_gather);
            assert!(has_gather(&smallest.network));
            // It may have more stages: that two of them were made one can be among the changes left out.
            assert!(smallest.changes.len() <= mutant(seed).changes.len());
        }
    }
}
