//! What validation accepts, the CUDA device runs as the interpreter does, or refuses by name: networks with changes that
//! no compiler makes, on the emulated kernels.
//!
//! `PUNCTUAL_MUTANTS` is how many, `PUNCTUAL_MUTANTS_FROM` the first one's seed.

mod emulation;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use emulation::Memory;
use punctual_device::conformance::mutations::{mutant, mutant_without, smallest};
use punctual_device_cuda::lower::{LowerError, Program, Target};
use punctual_kernels::cuda::half;
use punctual_model::reference::{self, Exited, Values};
use punctual_model::{Network, Output, OutputLayout, Stage};
use punctual_types::{Element, Random};

/// Images of a batch, each with its vectors.
const BATCH: usize = 2;
/// How often a network is computed with other roundings, where the first comparison fails.
const ROUNDINGS: u64 = 24;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

/// The input and the vectors of each image, which halves hold exactly.
fn inputs(network: &Network, seed: u64) -> Vec<Vec<Vec<f32>>> {
    let mut random = Random::new(seed);
    let mut value = || (random.signed_unit() * 128.0).round() / 64.0;
    let mut input = |elements| (0..elements).map(|_| value()).collect();
    let mut image = || {
        let tensors = network.input_tensors();
        let tensors = tensors.map(|id| network.tensors[id.index()].elements());
        tensors.map(&mut input).collect()
    };
    (0..BATCH).map(|_| image()).collect()
}

fn slices(image: &[Vec<f32>]) -> Vec<&[f32]> {
    image.iter().map(Vec::as_slice).collect()
}

/// A value as the nearest half, or as the one beside it.
fn rounded(value: f32, random: &mut Random) -> f32 {
    let nearest = half::from_f32(value);
    // What halves hold exactly, such as zeros and ones, is computed exactly.
    match half::to_f32(nearest) == value {
        true => value,
        false => half::to_f32(nearest.wrapping_add(random.below(3) as u16).wrapping_sub(1)),
    }
}

/// What exits give if weights and the result of each operator are halves, each rounded up or down.
fn in_halves(network: &Network, image: &[Vec<f32>], seed: u64) -> Vec<Option<Exited>> {
    let mut random = Random::new(seed);
    let mut network = network.clone();
    for weight in network.weights.to_mut() {
        *weight = rounded(*weight, &mut random);
    }
    let tensors = network.input_tensors().zip(image);
    let mut values: Values = tensors.map(|(id, values)| (id, values.clone())).collect();
    let stages = network.stages.clone();
    let stages = stages.iter().map(|stage| {
        for operator in &stage.operators {
            let alone = Stage {
                inputs: operator.reads().collect(),
                outputs: vec![operator.output],
                operators: vec![operator.clone()],
                exit: None,
            };
            let _ = reference::run_stage(&network, &alone, &mut values);
            let is_bytes = network.quantisation(operator.output).is_some();
            let made = values.get_mut(&operator.output).expect("it was made");
            if !is_bytes {
                made.iter_mut().for_each(|v| *v = rounded(*v, &mut random));
            }
        }
        let exit = Stage {
            inputs: stage.reads().chain(made_by(stage)).collect(),
            outputs: Vec::new(),
            operators: Vec::new(),
            exit: stage.exit.clone(),
        };
        reference::run_stage(&network, &exit, &mut values)
    });
    stages.collect()
}

fn made_by(stage: &Stage) -> impl Iterator<Item = punctual_model::TensorId> {
    stage.operators.iter().map(|operator| operator.output)
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

fn converted(element: Element, values: &[f32]) -> Vec<f32> {
    let convert = |value: &f32| match element {
        Element::F32 | Element::U8 { .. } | Element::I8 { .. } => *value,
        Element::I32 => *value as i32 as f32,
        Element::Bool => f32::from(u8::from(*value != 0.0)),
    };
    values.iter().map(convert).collect()
}

/// What an exit gives, each with its name and type.
type Given = Vec<(String, Element, Vec<f32>)>;

fn given(network: &Network, stage: usize, exited: &Exited) -> Given {
    let exit = network.stages[stage].exit.as_ref().expect("an exit");
    let outputs = exit.outputs.iter().zip(&exited.outputs);
    let outputs = outputs.map(|(output, values)| {
        let values = converted(output.element, values);
        (output.name.clone(), output.element, values)
    });
    let scores = ("the scores".to_owned(), Element::F32, exited.scores.clone());
    let confidence = exited.confidence.into_iter().collect();
    let confidence = ("the confidence".to_owned(), Element::F32, confidence);
    outputs.chain([scores, confidence]).collect()
}

/// Whether the values are those of the interpreter but for the rounding of so many operators.
fn is_near(found: &[f32], wanted: &[f32], layers: usize, element: Element) -> bool {
    let largest = wanted
        .iter()
        .fold(0.0_f32, |largest, x| largest.max(x.abs()));
    let step = if element == Element::F32 { 0.0 } else { 1.0 };
    let room = 4.0 * (2.0 * layers as f32).sqrt() / 2048.0 * largest + step;
    let mut pairs = found.iter().zip(wanted);
    found.len() == wanted.len() && pairs.all(|(found, wanted)| (found - wanted).abs() <= room)
}

/// Whether a value lies where other roundings lead, or beyond what halves hold.
fn is_around(found: f32, wanted: f32, around: &[f32], element: Element) -> bool {
    let (mut low, mut high) = (wanted, wanted);
    for &near in around {
        if !near.is_finite() {
            return true;
        }
        (low, high) = (low.min(near), high.max(near));
    }
    let step = if element == Element::F32 { 0.0 } else { 1.0 };
    let room = 4.0 * (high - low) + 2e-3 * wanted.abs() + 1e-6 + step;
    !wanted.is_finite() || (found - wanted).abs() <= room
}

/// What a stage gave for a member.
fn found(
    memory: &Memory,
    program: &Program,
    of: (&Network, &OutputLayout),
    at: (usize, usize),
    scores: &[f32],
) -> Given {
    let ((network, layout), (stage, member)) = (of, at);
    let exit = network.stages[stage].exit.as_ref().expect("an exit");
    let bytes = memory.outputs(program, stage, member);
    let mut given = Given::new();
    if let Some(placed) = layout.stage(stage) {
        let first = placed.range().start;
        for placed in &placed.outputs {
            let output = &exit.outputs[placed.output];
            let own = &bytes[(placed.offset - first) as usize..][..placed.bytes as usize];
            given.push((output.name.clone(), output.element, values(output, own)));
        }
    }
    given.push(("the scores".to_owned(), Element::F32, scores.to_vec()));
    let confidence = exit.confidence.map(|_| memory.answer(member).confidence);
    let confidence = confidence.into_iter().collect();
    given.push(("the confidence".to_owned(), Element::F32, confidence));
    given
}

/// What is wrong with a lowered network, if anything is.
fn difference(
    network: &Network,
    layout: &OutputLayout,
    program: &Program,
    batch: u8,
) -> Option<String> {
    let inputs = inputs(network, 1);
    let inputs = &inputs[..BATCH.min(batch.into())];
    let flat: Vec<Vec<f32>> = inputs.iter().map(|image| image.concat()).collect();
    let wanted: Vec<_> = inputs
        .iter()
        .map(|image| reference::run_all(network, &slices(image)))
        .collect();
    let mut memory = Memory::new(network, program, &flat);
    let mut layers = 0;
    for (stage, own) in network.stages.iter().enumerate() {
        layers += own.operators.len();
        let scores = memory.run(program, stage, batch);
        if own.exit.is_none() {
            continue;
        }
        for (member, wanted) in wanted.iter().enumerate() {
            let wanted = given(network, stage, wanted[stage].as_ref().expect("an exit"));
            let found = found(
                &memory,
                program,
                (network, layout),
                (stage, member),
                &scores[member],
            );
            let mut around: Option<Vec<Given>> = None;
            for (at, ((name, element, found), (_, _, wanted))) in
                found.iter().zip(&wanted).enumerate()
            {
                if is_near(found, wanted, layers, *element) {
                    continue;
                }
                if found.len() != wanted.len() {
                    return Some(format!(
                        "{name} has {} values instead of {}",
                        found.len(),
                        wanted.len()
                    ));
                }
                let around = around.get_or_insert_with(|| {
                    let seeds = 0..ROUNDINGS;
                    let runs = seeds.map(|seed| in_halves(network, &inputs[member], seed));
                    runs.map(|run| given(network, stage, run[stage].as_ref().expect("an exit")))
                        .collect()
                });
                let wrong = (0..found.len()).find(|&value| {
                    let near: Vec<f32> = around.iter().map(|given| given[at].2[value]).collect();
                    !is_around(found[value], wanted[value], &near, *element)
                });
                if let Some(value) = wrong {
                    return Some(format!(
                        "member {member}, exit {stage}, {name}, value {value}: {} instead of {}",
                        found[value], wanted[value]
                    ));
                }
            }
        }
    }
    None
}

/// How a mutant fared.
enum Fate {
    Right,
    /// A limit of the device, by its name.
    Refused(&'static str),
    Wrong(String),
}

fn refusal(error: &LowerError) -> Option<&'static str> {
    match error {
        LowerError::NoKernel { kind, .. } => Some(kind),
        LowerError::Digits { .. } => Some("more digits than kernels count"),
        LowerError::Tensor { .. } => Some("a tensor beyond 2 GiB"),
        _ => None,
    }
}

fn run(network: &Network, seed: u64) -> Fate {
    let layout = OutputLayout::of(network, |_| true);
    let batch = [1, 2, 4][seed as usize / 3 % 3];
    // Small pages cut operators by channels; where one cannot be cut, larger ones do.
    let pages: &[u32] = [&[32 << 10, 1 << 20][..], &[1 << 20]][seed as usize / 9 % 2];
    let lower = |page_bytes: &u32| {
        let target = Target {
            multiprocessors: [1, 8, 132][seed as usize % 3],
            compute_capability: (8, 7),
            page_bytes: *page_bytes,
        };
        let outputs = (network, Some(&layout));
        Program::with_outputs(outputs, &[1, 2, 4], &target, &[])
    };
    let fits = |lowered: &Result<_, LowerError>| !matches!(lowered, Err(LowerError::Page { .. }));
    let lowered = pages.iter().map(lower).find(fits);
    let program = match lowered {
        Some(Ok(program)) => program,
        Some(Err(error)) => {
            let refused = refusal(&error).map(Fate::Refused);
            return refused.unwrap_or(Fate::Wrong(format!("is refused: {error}")));
        }
        None => return Fate::Refused("weights of a launch that exceed a page"),
    };
    match difference(network, &layout, &program, batch) {
        Some(difference) => Fate::Wrong(difference),
        None => Fate::Right,
    }
}

fn fate(network: &Network, seed: u64) -> Fate {
    let ran = catch_unwind(AssertUnwindSafe(|| run(network, seed)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Fate::Wrong(format!("panicked: {}", text.unwrap_or_default()))
    })
}

/// Prints the smallest network that fails alike.
fn explain(seed: u64, problem: &str) {
    let kind = |problem: &str| {
        problem
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .take(10)
            .collect::<String>()
    };
    let fails = |network: &Network| {
        network.validate().is_ok()
            && matches!(fate(network, seed), Fate::Wrong(other) if kind(&other) == kind(problem))
    };
    let smallest = smallest(seed, fails);
    println!(
        "seed {seed}: {problem}\n  {}",
        smallest.changes.join("\n  ")
    );
    let network = &smallest.network;
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
}

#[test]
fn what_validation_accepts_runs_as_the_interpreter_does_or_is_refused_by_name() {
    let (count, first) = (
        setting("PUNCTUAL_MUTANTS", 60),
        setting("PUNCTUAL_MUTANTS_FROM", 0),
    );
    let (mut right, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    for seed in first..first + count {
        let network = mutant(seed).network;
        if network.validate().is_err() {
            continue;
        }
        match fate(&network, seed) {
            Fate::Right => right += 1,
            Fate::Refused(kind) => *refused.entry(kind).or_insert(0) += 1,
            Fate::Wrong(problem) => {
                explain(seed, &problem);
                wrong.push((seed, problem));
            }
        }
    }
    println!(
        "of {count} mutants {right} were right, refused {refused:?}, wrong {}",
        wrong.len()
    );
    assert!(right * 4 >= count, "only {right} of {count} mutants ran");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(mutant(first).network, mutant_without(first, 0).network);
}
