//! What is drawn, and that it is run, compared and made smaller.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use punctual_networks::draw::Numbers;
use punctual_networks::{Drawn, Engine, Verdict, compare, compiled, smallest};
use punctual_types::mix;

const OF_ONE_OPERATOR: &str = "files of one operator have it: tests/operators.rs";
/// Operators that no move draws, and why.
const NOT_DRAWN: &[(&str, &str)] = &[
    ("Constant", "its value is an initializer"),
    ("DynamicQuantizeLinear", OF_ONE_OPERATOR),
    ("GatherND", "its positions are constants for one image only"),
    ("OneHot", OF_ONE_OPERATOR),
    ("ScatterElements", OF_ONE_OPERATOR),
    ("ScatterND", OF_ONE_OPERATOR),
    ("Trilu", OF_ONE_OPERATOR),
];

fn operators(drawn: &Drawn) -> impl Iterator<Item = &str> {
    let nodes = drawn.graph().node.iter();
    nodes.filter_map(|node| node.op_type.as_deref())
}

fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |hash, byte| mix(hash ^ u64::from(*byte)))
}

/// On every machine: NEON's emulation runs this test, too. A change of what is drawn changes the number.
#[test]
fn a_seed_gives_the_same_file_everywhere() {
    let files = (0..200).map(|seed| hash(&Drawn::of(seed).bytes()));
    let all = files.fold(0, |all, file| mix(all ^ file));
    assert_eq!(all, 8_073_098_206_107_338_934);
}

#[test]
fn every_operator_that_is_lowered_is_drawn() {
    let drawn: Vec<Drawn> = (0..6000).map(Drawn::of).collect();
    let found: BTreeSet<&str> = drawn.iter().flat_map(operators).collect();
    let excused = |operator: &&str| !NOT_DRAWN.iter().any(|(name, _)| name == operator);
    let known = punctual_compile::operators().into_iter();
    let missing: Vec<&str> = known
        .filter(|name| !found.contains(name))
        .filter(excused)
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn networks_have_from_few_to_forty_operators_several_exits_and_up_to_four_vectors() {
    let drawn: Vec<Drawn> = (0..2000).map(Drawn::of).collect();
    let mut sizes = BTreeMap::<usize, usize>::new();
    let mut vectors = BTreeSet::new();
    let mut exits = BTreeSet::new();
    for drawn in &drawn {
        *sizes.entry(operators(drawn).count() / 10).or_default() += 1;
        vectors.insert(drawn.inputs.len() - 1);
        let outputs = drawn.graph().output.iter();
        let names = outputs.filter_map(|output| output.name.as_deref()?.split('/').next());
        exits.insert(names.collect::<BTreeSet<_>>().len());
    }
    assert_eq!(vectors, BTreeSet::from([0, 1, 2, 3, 4]));
    assert!(exits.is_superset(&BTreeSet::from([1, 2, 3])), "{exits:?}");
    assert!((0..4).all(|tens| sizes.get(&tens) > Some(&50)), "{sizes:?}");
}

#[test]
fn pictures_are_drawn_in_bytes_and_floats_with_their_channels_first_and_last() {
    let mut found = BTreeMap::<(bool, bool), usize>::new();
    let mut refused = Vec::new();
    for seed in 0..1000 {
        let drawn = Drawn::of(seed);
        let Numbers::Picture(picture) = drawn.inputs[0].numbers else {
            continue;
        };
        *found
            .entry((picture.bytes, picture.channels_last))
            .or_default() += 1;
        match compiled(&drawn) {
            Ok(compiled) => {
                let input = compiled.package.network().input;
                assert!(input.form.is_image(), "seed {seed}: {input:?}");
            }
            Err(refusal) => refused.push((seed, refusal.to_string())),
        }
    }
    let all: usize = found.values().sum();
    assert!(found.len() == 4 && all > 100, "{found:?}");
    assert!(refused.len() < all / 5, "of {all}: {refused:?}");
}

#[test]
fn few_networks_are_refused() {
    let refused = (0..300).filter(|seed| compiled(&Drawn::of(*seed)).is_err());
    let refused = refused.count();
    assert!(refused < 60, "{refused} of 300");
}

#[test]
fn drawn_networks_agree_on_each_engine_of_this_processor() {
    let engines: Vec<Engine> = Engine::usual().collect();
    let mut values = 0;
    for seed in 1_000_000..1_000_020 {
        match compare(&Drawn::of(seed), &engines) {
            Verdict::Refused(_) => {}
            Verdict::Broken(what) => panic!("seed {seed}: {what}"),
            Verdict::Compared(compared) => {
                for (engine, result) in compared {
                    match result {
                        Ok(compared) => values += compared.values,
                        Err(failure) => panic!("seed {seed}, {engine}: {}", failure.what),
                    }
                }
            }
        }
    }
    assert!(values > 10_000, "{values} values");
}

#[test]
fn the_cuda_device_agrees_on_interpreted_kernels() {
    for seed in [3, 5, 8] {
        let verdict = compare(&Drawn::of(seed), &[Engine::Cuda]);
        let failures: Vec<String> = verdict
            .failures()
            .map(|(_, failure)| failure.what.clone())
            .collect();
        assert!(!verdict.is_failure(), "seed {seed}: {failures:?}");
    }
}

#[test]
fn a_network_is_made_smaller_down_to_what_fails() {
    let has_join = |drawn: &Drawn| {
        let concat = drawn
            .graph()
            .node
            .iter()
            .any(|node| node.op_type.as_deref() == Some("Concat") && node.input.len() > 2);
        concat && compiled(drawn).is_ok()
    };
    let large = (0..)
        .map(Drawn::of)
        .find(|drawn| operators(drawn).count() > 20 && has_join(drawn));
    let large = large.expect("seeds do not end");
    let small = smallest(&large, has_join);
    assert!(has_join(&small));
    let left: Vec<&str> = operators(&small).collect();
    assert!(left.len() < 5, "{left:?}");
}
