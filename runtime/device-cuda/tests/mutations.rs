//! What validation accepts, the CUDA device runs as the interpreter does, or refuses by name: networks with changes that
//! no compiler makes, on the emulated kernels.
//!
//! `PUNCTUAL_MUTANTS` is how many, `PUNCTUAL_MUTANTS_FROM` the first one's seed.

mod emulation;
mod interpreted;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use interpreted::Inputs;
use punctual_conformance::mutations::{mutant, mutant_without, smallest};
use punctual_device_cuda::lower::{LowerError, Program, Target};
use punctual_model::{Network, OutputLayout};
use punctual_types::Random;

/// Images of a batch, each with its vectors.
const BATCH: usize = 2;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

/// The input and the vectors of each image, which halves hold exactly.
fn inputs(network: &Network, seed: u64) -> Vec<Inputs> {
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
        Program::with_outputs(network, Some(&layout), &[1, 2, 4], &target, &[])
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
    let images = &inputs(network, 1)[..BATCH.min(batch.into())];
    match interpreted::difference(network, &layout, &program, batch, images) {
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
