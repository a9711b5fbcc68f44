//! What validation accepts, the device runs as the interpreter does: networks with changes that no compiler makes.
//!
//! `PUNCTUAL_MUTANTS` is how many, `PUNCTUAL_MUTANTS_FROM` the first one's seed.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_conformance::mutations::{Mutant, mutant, smallest};
use punctual_device_cpu::{Evaluator, ExitResult, image_layout, pack_image};
use punctual_kernels::{Isa, Solution};
use punctual_model::reference::agreement::{self, ExpectedExit, Mismatch, Precision};
use punctual_model::reference::{self, Exited, Values};
use punctual_model::{Calibration, Exit, Network, Package, SolutionChoice};
use punctual_types::{Element, Random};

/// Images of a batch, each with its vectors.
const BATCH: usize = 3;
/// Of a value, and of 1, before the reference is asked how far an engine may be from it.
const TOLERANCE: f32 = 1e-4;
/// Beyond this, an engine may overflow where the interpreter does not.
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

/// Whether a value somewhere is none, or so large that engines differ: which of their operands an addition's or a
/// maximum's NaN is of, and whether a sum overflows, is not specified.
fn is_extreme(network: &Network, inputs: &[&[f32]]) -> bool {
    let mut values: Values = network
        .input_tensors()
        .zip(inputs.iter().map(|input| input.to_vec()))
        .collect();
    network.stages.iter().any(|stage| {
        let mut all = stage.clone();
        all.outputs = stage
            .operators
            .iter()
            .map(|operator| operator.output)
            .collect();
        let _ = reference::run_stage(network, &all, &mut values);
        values
            .values()
            .flatten()
            .any(|value| !value.is_finite() || value.abs() > LARGE)
    })
}

/// What an exit gave, in the terms of the interpreter.
fn exited(exit: &Exit, result: &ExitResult) -> Exited {
    let outputs = exit.outputs.iter().zip(&result.outputs);
    Exited {
        outputs: outputs
            .map(|(output, bytes)| output.element.read(bytes).collect())
            .collect(),
        scores: result.scores.clone(),
        confidence: result.confidence,
    }
}

/// What the interpreter gives for each image, and how far an engine may be from it, found out when it is needed.
struct Reference<'n> {
    network: &'n Network,
    inputs: Vec<Vec<Vec<f32>>>,
    exact: Vec<Vec<Option<Exited>>>,
    expected: Vec<OnceCell<Vec<Option<ExpectedExit>>>>,
}

impl<'n> Reference<'n> {
    fn new(network: &'n Network) -> Self {
        let inputs = inputs(network, 1);
        let exact = inputs
            .iter()
            .map(|image| reference::run_all(network, &slices(image)));
        Self {
            network,
            exact: exact.collect(),
            expected: inputs.iter().map(|_| OnceCell::new()).collect(),
            inputs,
        }
    }

    /// What is wrong with what an exit gives for an image, if anything is.
    fn difference(&self, image: usize, stage: usize, found: &Exited) -> Option<Mismatch> {
        let exit = self.network.stages[stage].exit.as_ref()?;
        let exact = self.exact[image][stage].as_ref()?;
        if is_close(exit, found, exact) {
            return None;
        }
        let inputs = slices(&self.inputs[image]);
        let precision = Precision::Single;
        let compare =
            |expected: &[Option<ExpectedExit>]| expected[stage].as_ref()?.compare(found).err();
        let first = self.expected[image]
            .get_or_init(|| agreement::expected(self.network, &inputs, precision, 0));
        let wrong = compare(first)?;
        let is_right =
            agreement::agrees_with_more_noise(self.network, &inputs, precision, 0, |exits| {
                compare(exits).is_none()
            });
        (!is_right && !is_extreme(self.network, &inputs)).then_some(wrong)
    }
}

/// Whether all values are what they should be but for roundings of a network that does not enlarge them.
fn is_close(exit: &Exit, found: &Exited, exact: &Exited) -> bool {
    let room = |element: Element, value: f32| match element {
        Element::F32 => TOLERANCE * value.abs().max(1.0),
        Element::U8 { .. } | Element::I8 { .. } => 1.0,
        Element::I32 | Element::Bool => 0.0,
    };
    let close = |element: Element, found: &[f32], exact: &[f32]| {
        let mut pairs = found.iter().zip(exact);
        found.len() == exact.len()
            && pairs.all(|(found, exact)| {
                let exact = match element {
                    Element::I32 => exact.trunc(),
                    Element::Bool => f32::from(*exact != 0.0),
                    _ => *exact,
                };
                (found - exact).abs() <= room(element, exact) || *found == exact
            })
    };
    let outputs = found.outputs.iter().zip(&exact.outputs);
    let mut outputs = exit.outputs.iter().zip(outputs);
    outputs.all(|(output, (found, exact))| close(output.element, found, exact))
        && close(Element::F32, &found.scores, &exact.scores)
        && close(
            Element::F32,
            found.confidence.as_slice(),
            exact.confidence.as_slice(),
        )
}

fn slices(image: &[Vec<f32>]) -> Vec<&[f32]> {
    image.iter().map(Vec::as_slice).collect()
}

/// Of every convolution that has the solution.
fn solutions(network: &Network, seed: u64) -> Vec<SolutionChoice> {
    let solution = Solution::ALL[seed as usize % Solution::ALL.len()].name();
    let operators = network.stages.iter().map(|stage| stage.operators.len());
    let choice = |(operator, batch): (usize, u8)| SolutionChoice {
        operator: operator as u32,
        batch,
        units: 1,
        solution: solution.to_owned(),
    };
    let all = 0..operators.sum();
    all.flat_map(|at| [(at, 1), (at, 4)]).map(choice).collect()
}

/// Runs a valid network on an instruction set as one batch and image by image; says what is wrong.
fn problem_on(isa: Isa, reference: &Reference<'_>, seed: u64) -> Option<String> {
    let (network, inputs) = (reference.network, &reference.inputs);
    let mates: &[usize] = if seed.is_multiple_of(16) { &[0] } else { &[] };
    let chosen = solutions(network, seed);
    let mut evaluator = match Evaluator::with_mates(isa, network, BATCH, mates, &chosen) {
        Ok(evaluator) => evaluator,
        Err(error) => return Some(format!("{isa} does not start: {error}")),
    };
    // Single images where the memory still has others'.
    for batch in [&[0, 1, 2][..], &[2], &[0]] {
        let images: Vec<&[f32]> = batch
            .iter()
            .map(|&image: &usize| inputs[image][0].as_slice())
            .collect();
        evaluator.load(&images);
        for (at, &image) in batch.iter().enumerate() {
            evaluator.load_vectors(at, &slices(&inputs[image][1..]));
        }
        let stages = evaluator.exits(batch.len());
        for (at, (stage, results)) in network.stages.iter().zip(&stages).enumerate() {
            for (&image, result) in batch.iter().zip(results) {
                let exit = stage.exit.as_ref().expect("it has results");
                if let Some(wrong) = reference.difference(image, at, &exited(exit, result)) {
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

/// A package of the network with its weight image is what it was when it is read again.
fn package_problem(isa: Isa, network: &Network) -> Option<String> {
    let package = || -> Result<Package, Box<dyn std::error::Error>> {
        let package = Package::new(network.clone(), Calibration::default())?;
        let package = package.with_layouts(vec![image_layout(isa, network)?])?;
        Ok(package.with_image(isa.lanes() as u8, pack_image(isa, network)?)?)
    };
    match package().map(|package| (Package::decode(&package.encode()), package)) {
        // By its hash: bytes that were packed as floats may be NaN.
        Ok((Ok(again), package)) if again.hash() == package.hash() => None,
        Ok((again, _)) => Some(format!(
            "{isa} does not read its package: {:?}",
            again.err()
        )),
        Err(error) => Some(format!("{isa} does not start: {error}")),
    }
}

/// What is wrong on any instruction set. The seed chooses a solution of convolutions, and sometimes a second core.
fn problem(network: &Network, seed: u64) -> Option<String> {
    let reference = Reference::new(network);
    let packaged = seed as usize % Isa::available().count();
    Isa::available().enumerate().find_map(|(at, isa)| {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let package = (at == packaged).then(|| package_problem(isa, network));
            package
                .flatten()
                .or_else(|| problem_on(isa, &reference, seed))
        }));
        ran.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("{isa} panicked: {}", text.unwrap_or_default()))
        })
    })
}

fn kind(problem: &str) -> Option<&'static str> {
    let kinds = ["panicked", "does not start", "does not read"];
    kinds.into_iter().find(|kind| problem.contains(kind))
}

/// What a person needs to look into it.
fn describe(seed: u64, problem: &str, smallest: &Mutant) {
    let (network, changes) = (&smallest.network, &smallest.changes);
    println!("seed {seed}: {problem}\n  {}", changes.join("\n  "));
    for stage in &network.stages {
        println!("  stage {:?} -> {:?}", stage.inputs, stage.outputs);
        for each in &stage.operators {
            let shape = network.tensors[each.output.index()];
            let (output, input, kind) = (each.output, each.input, &each.kind);
            println!("    {output:?} {shape} of {input:?}: {kind:?}");
        }
        println!("    {:?}", stage.exit);
    }
    println!("  then: {:?}", self::problem(network, seed));
}

#[test]
fn what_validation_accepts_runs_as_the_interpreter_does() {
    let count = setting("PUNCTUAL_MUTANTS", 1000);
    let first = setting("PUNCTUAL_MUTANTS_FROM", 0);
    let (mut accepted, mut wrong) = (0, Vec::new());
    for seed in first..first + count {
        let network = mutant(seed).network;
        if network.validate().is_err() {
            continue;
        }
        accepted += 1;
        let Some(problem) = problem(&network, seed) else {
            continue;
        };
        let fails = |network: &Network| {
            let other = || self::problem(network, seed);
            network.validate().is_ok()
                && other().is_some_and(|other| kind(&other) == kind(&problem))
        };
        describe(seed, &problem, &smallest(seed, fails));
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
