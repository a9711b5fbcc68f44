//! What validation accepts, the device runs as the interpreter does: networks with changes that no compiler makes.
//!
//! `PUNCTUAL_MUTANTS` is how many, `PUNCTUAL_MUTANTS_FROM` the first one's seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_device::conformance::mutations::{mutant, mutant_without, smallest};
use punctual_device_cpu::{Evaluator, ExitResult};
use punctual_kernels::Isa;
use punctual_model::reference::{self, Exited};
use punctual_model::{Network, Output};
use punctual_types::{Element, Random};

/// Images of a batch, each with its vectors.
const BATCH: usize = 3;
/// Of a value, and of 1.
const TOLERANCE: f32 = 1e-3;
/// Beyond this, devices that round in between overflow where the interpreter does not.
const LARGE: f32 = 1e30;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

/// The input and the vectors of each image.
fn inputs(network: &Network, seed: u64) -> Vec<Vec<Vec<f32>>> {
    let mut random = Random::new(seed);
    let mut input = |elements| (0..elements).map(|_| 2.0 * random.signed_unit()).collect();
    let mut image = || {
        let tensors = network.input_tensors();
        let tensors = tensors.map(|id| network.tensors[id.index()].elements());
        tensors.map(&mut input).collect()
    };
    (0..BATCH).map(|_| image()).collect()
}

/// What each image's exits give: `[image][stage]`.
fn expected(network: &Network, inputs: &[Vec<Vec<f32>>]) -> Vec<Vec<Option<Exited>>> {
    let run = |image: &Vec<Vec<f32>>| {
        let image: Vec<&[f32]> = image.iter().map(Vec::as_slice).collect();
        reference::run_all(network, &image)
    };
    inputs.iter().map(run).collect()
}

/// The same of networks and inputs that differ by a rounding: how far an engine that sums in another order may be.
fn nearby(network: &Network, inputs: &[Vec<Vec<f32>>], seed: u64) -> Vec<Vec<Option<Exited>>> {
    let mut random = Random::new(seed);
    let mut shake = |value: &mut f32| *value *= 1.0 + random.signed_unit() * 2e-6;
    let mut network = network.clone();
    network.weights.to_mut().iter_mut().for_each(&mut shake);
    let mut inputs = inputs.to_vec();
    let values = inputs.iter_mut().flatten().flatten();
    values.for_each(&mut shake);
    expected(&network, &inputs)
}

/// An output's values as numbers in the terms of the interpreter.
fn values(output: &Output, bytes: &[u8]) -> Vec<f32> {
    let each = output.element.bytes() as usize;
    let value = |bytes: &[u8]| {
        let word = || [bytes[0], bytes[1], bytes[2], bytes[3]];
        match output.element {
            Element::F32 => f32::from_ne_bytes(word()),
            Element::I32 => i32::from_ne_bytes(word()) as f32,
            Element::Bool | Element::U8 { .. } => f32::from(bytes[0]),
            Element::I8 { .. } => f32::from(bytes[0] as i8) + 128.0,
        }
    };
    bytes.chunks_exact(each).map(value).collect()
}

fn converted(element: Element, value: f32) -> f32 {
    match element {
        Element::F32 | Element::U8 { .. } | Element::I8 { .. } => value,
        Element::I32 => value as i32 as f32,
        Element::Bool => f32::from(u8::from(value != 0.0)),
    }
}

/// Whether a value may be what the interpreter gives, or what lies between it and its neighbours.
fn agrees(found: f32, wanted: f32, around: impl Iterator<Item = f32>, element: Element) -> bool {
    if wanted.is_nan() || wanted.abs() >= LARGE || found == wanted {
        return true;
    }
    let (mut low, mut high) = (wanted, wanted);
    for near in around {
        if near.is_nan() || near.abs() >= LARGE {
            return true;
        }
        (low, high) = (low.min(near), high.max(near));
    }
    let step = match element {
        Element::F32 => 0.0,
        // A value that is nearly whole, or nearly between two steps.
        Element::I32 | Element::U8 { .. } | Element::I8 { .. } => 1.0,
        Element::Bool => f32::from(u8::from(low != high || wanted == 0.0)),
    };
    let room = 8.0 * (high - low) + TOLERANCE * wanted.abs().max(1.0) + step;
    (found - wanted).abs() <= room
}

/// What is wrong with what an exit gives, if anything is.
fn difference(
    outputs: &[Output],
    found: &ExitResult,
    wanted: &Exited,
    near: &[&Exited],
) -> Option<String> {
    let compare =
        |what: &str, found: &[f32], element: Element, of: &dyn Fn(&Exited) -> Vec<f32>| {
            let converted = |exited: &Exited| -> Vec<f32> {
                of(exited)
                    .into_iter()
                    .map(|value| converted(element, value))
                    .collect()
            };
            let wanted = converted(wanted);
            let near: Vec<Vec<f32>> = near.iter().map(|near| converted(near)).collect();
            if found.len() != wanted.len() {
                return Some(format!(
                    "{what} has {} values instead of {}",
                    found.len(),
                    wanted.len()
                ));
            }
            let mut places = 0..found.len();
            let wrong = places.find(|&at| {
                let around = near.iter().map(|near| near[at]);
                !agrees(found[at], wanted[at], around, element)
            })?;
            Some(format!(
                "{what}, value {wrong}: {} instead of {}",
                found[wrong], wanted[wrong]
            ))
        };
    for (at, output) in outputs.iter().enumerate() {
        let found = values(output, &found.outputs[at]);
        let wrong = compare(&output.name, &found, output.element, &|exited| {
            exited.outputs[at].clone()
        });
        if wrong.is_some() {
            return wrong;
        }
    }
    let confidence = found
        .confidence
        .map(|value| vec![value])
        .unwrap_or_default();
    compare("the scores", &found.scores, Element::F32, &|exited| {
        exited.scores.clone()
    })
    .or_else(|| {
        compare("the confidence", &confidence, Element::F32, &|exited| {
            exited.confidence.into_iter().collect()
        })
    })
}

/// Runs a valid network on an instruction set as one batch and image by image; says what is wrong.
fn problem_on(isa: Isa, network: &Network) -> Option<String> {
    let inputs = inputs(network, 1);
    let wanted = expected(network, &inputs);
    let mut evaluator = match Evaluator::new(isa, network, BATCH) {
        Ok(evaluator) => evaluator,
        Err(error) => return Some(format!("{isa} does not start: {error}")),
    };
    // The last image last, where the memory still has the others'.
    for batch in [&[0, 1, 2][..], &[2], &[0]] {
        let images: Vec<&[f32]> = batch
            .iter()
            .map(|&image: &usize| inputs[image][0].as_slice())
            .collect();
        evaluator.load(&images);
        for (at, &image) in batch.iter().enumerate() {
            let vectors: Vec<&[f32]> = inputs[image][1..].iter().map(Vec::as_slice).collect();
            evaluator.load_vectors(at, &vectors);
        }
        let stages = evaluator.exits(batch.len());
        let mut near: Option<Vec<_>> = None;
        for (at, (stage, results)) in network.stages.iter().zip(&stages).enumerate() {
            for (&image, result) in batch.iter().zip(results) {
                let exit = stage.exit.as_ref().expect("it has results");
                let wanted = wanted[image][at].as_ref().expect("an exit");
                if difference(&exit.outputs, result, wanted, &[]).is_none() {
                    continue;
                }
                let near = near.get_or_insert_with(|| {
                    (0..16).map(|seed| nearby(network, &inputs, seed)).collect()
                });
                let near: Vec<&Exited> = near
                    .iter()
                    .filter_map(|near| near[image][at].as_ref())
                    .collect();
                if let Some(wrong) = difference(&exit.outputs, result, wanted, &near) {
                    let members = batch.len();
                    return Some(format!(
                        "{isa}, image {image} of {members}, exit {at}: {wrong}"
                    ));
                }
            }
        }
    }
    None
}

fn problem(network: &Network) -> Option<String> {
    Isa::available().find_map(|isa| {
        let ran = catch_unwind(AssertUnwindSafe(|| problem_on(isa, network)));
        ran.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("{isa} panicked: {}", text.unwrap_or_default()))
        })
    })
}

/// The kind of a problem: its text without figures.
fn kind(problem: &str) -> String {
    problem
        .chars()
        .filter(|letter| !letter.is_ascii_digit())
        .collect()
}

#[test]
fn what_validation_accepts_runs_as_the_interpreter_does() {
    let (count, first) = (
        setting("PUNCTUAL_MUTANTS", 2000),
        setting("PUNCTUAL_MUTANTS_FROM", 0),
    );
    let (mut accepted, mut wrong) = (0, Vec::new());
    for seed in first..first + count {
        let network = mutant(seed).network;
        if network.validate().is_err() {
            continue;
        }
        accepted += 1;
        let Some(problem) = problem(&network) else {
            continue;
        };
        let fails = |network: &Network| {
            network.validate().is_ok()
                && self::problem(network)
                    .is_some_and(|other| kind(&other)[..6] == kind(&problem)[..6])
        };
        let smallest = smallest(seed, fails);
        let (network, changes) = (smallest.network, smallest.changes);
        println!("seed {seed}: {problem}\n  {}", changes.join("\n  "));
        for stage in &network.stages {
            println!("  stage {:?} -> {:?}", stage.inputs, stage.outputs);
            for each in &stage.operators {
                let shape = network.tensors[each.output.index()];
                println!(
                    "    {:?} {shape} of {:?}: {:?}",
                    each.output, each.input, each.kind
                );
            }
            println!("    {:?}", stage.exit);
        }
        println!("  then: {:?}", self::problem(&network));
        wrong.push((seed, problem));
    }
    println!(
        "{accepted} of {count} mutants were accepted, {} were wrong",
        wrong.len()
    );
    assert!(
        accepted * 3 >= count,
        "only {accepted} of {count} mutants are valid"
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_seed_gives_the_same_mutant_again() {
    for seed in 0..20 {
        assert_eq!(mutant(seed).network, mutant_without(seed, 0).network);
    }
}
