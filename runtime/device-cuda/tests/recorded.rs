//! The recorded networks of the compiler's tests, lowered and run on the emulated kernels against the reference: what
//! both exporters of PyTorch write of detectors, segmenters and transformers in small.

mod emulation;

use std::path::{Path, PathBuf};

use emulation::{Memory, assert_scores, assert_within};
use punctual_compile::{CompileError, Overrides, compile_with};
use punctual_device_cuda::lower::{Program, Target};
use punctual_model::{AnswerKind, InputForm, Network, Output, OutputLayout, reference};
use punctual_types::{Element, Random};

/// Tokens of recorded texts are below this.
const TOKENS: u64 = 60;

fn recorded() -> Vec<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [
        "runtime/compile/tests/data",
        "runtime/compile/tests/networks",
        "models/zoo/recorded",
    ];
    let mut found: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(repository.join(folder)).expect("a folder"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    found.sort();
    found
}

/// Values like normalised pixels; for a text the numbers of tokens, and a mask that excludes the last token.
fn input(network: &Network, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let shape = network.tensors[network.input_tensor().index()];
    let plane = (shape.height * shape.width) as usize;
    let value = |at: usize| match network.input.form {
        InputForm::Tokens { .. } if at < plane => random.below(TOKENS) as f32,
        InputForm::Tokens { .. } => f32::from(at + 1 < 2 * plane),
        _ => 2.0 * random.signed_unit(),
    };
    (0..shape.elements() as usize).map(value).collect()
}

/// The inputs that were recorded next to a network's file, if there are any, one after the other.
fn recorded_inputs(path: &Path) -> Option<Vec<f32>> {
    let bytes = std::fs::read(path.with_extension("inputs.f32")).ok()?;
    Some(floats(&bytes))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| f32::from_ne_bytes(*word)).collect()
}

/// The values of an output's bytes.
fn values(output: &Output, bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks::<4>().0.iter();
    match output.element {
        Element::F32 => floats(bytes),
        Element::I32 => words.map(|word| i32::from_ne_bytes(*word) as f32).collect(),
        _ => bytes.iter().map(|byte| f32::from(*byte)).collect(),
    }
}

/// The interpreter's values, converted to the output's type.
fn converted(output: &Output, values: &[f32]) -> Vec<f32> {
    let bytes = output.element.bytes() as usize;
    let mut all = vec![0; values.len() * bytes];
    for (value, to) in values.iter().zip(all.chunks_exact_mut(bytes)) {
        output.element.write(*value, to);
    }
    self::values(output, &all)
}

fn check(path: &Path) {
    let name = path.file_stem().expect("a name").to_string_lossy();
    let inputs = recorded_inputs(path);
    let overrides = match inputs {
        Some(_) => Overrides::of_tensors(),
        // What it finds are boxes; its decoder is declared in the compiler's own test.
        None if name == "retinanet" => Overrides {
            answer: Some(AnswerKind::None),
            ..Overrides::imagenet()
        },
        None => Overrides::imagenet(),
    };
    let compiled = match compile_with(path, &overrides) {
        Ok(compiled) => compiled,
        // The compiler's own tests cover which operators it lacks.
        Err(CompileError::Nodes(_)) => return,
        Err(error) => panic!("{name}: {error}"),
    };
    let network = compiled.package.network();
    let steps = network.quantised.tensors.values().map(|bytes| bytes.scale);
    let step = steps.fold(0.0, f32::max);
    let layout = OutputLayout::of(network, |_| true);
    let target = Target {
        multiprocessors: 16,
        compute_capability: (8, 7),
        page_bytes: 4 << 20,
    };
    let program = Program::with_outputs(network, Some(&layout), &[1], &target, &[]);
    let program = program.unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut inputs = inputs.unwrap_or_else(|| input(network, 3));
    if step > 0.0 {
        // Halves hold these exactly, so that the first bytes are the same.
        inputs
            .iter_mut()
            .for_each(|value| *value = (*value * 64.0).round() / 64.0);
    }
    let expected = {
        let mut left = &inputs[..];
        let each = network.input_tensors().map(|tensor| {
            let (own, rest) = left.split_at(network.tensors[tensor.index()].elements() as usize);
            left = rest;
            own
        });
        reference::run_all(network, &each.collect::<Vec<_>>())
    };
    let mut memory = Memory::new(network, &program, &[inputs]);
    let mut layers = 0;
    for (number, expected) in expected.into_iter().enumerate() {
        layers += network.stages[number].operators.len();
        let scores = memory.run(&program, number, 1).remove(0);
        let Some(expected) = expected else { continue };
        let what = format!("{name}, exit {number}");
        assert_scores(&scores, &expected.scores, layers, &what);
        assert_eq!(memory.answer(0).not_finite, 0, "{what}");
        let bytes = memory.outputs(&program, number, 0);
        let exit = network.stages[number].exit.as_ref().expect("an exit");
        let placed = layout.stage(number).expect("all are wanted");
        let first = placed.outputs[0].offset;
        for placed in &placed.outputs {
            let output = &exit.outputs[placed.output];
            let own = &bytes[(placed.offset - first) as usize..][..placed.bytes as usize];
            let expected = converted(output, &expected.outputs[placed.output]);
            let what = format!("{what}, output {}", output.name);
            assert_within(&values(output, own), &expected, layers, 2.0 * step, &what);
        }
    }
}

#[test]
fn recorded_networks_say_the_same_as_the_interpreter() {
    let recorded = recorded();
    assert!(recorded.len() >= 50, "{} networks", recorded.len());
    let fails = |path: &&PathBuf| std::panic::catch_unwind(|| check(path)).is_err();
    let wrong: Vec<_> = recorded.iter().filter(fails).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
