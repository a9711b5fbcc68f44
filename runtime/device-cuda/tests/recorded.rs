//! The recorded networks of the compiler's tests, lowered and run on the emulated kernels against the reference: what
//! both exporters of PyTorch write of detectors, segmenters and transformers in small.

mod emulation;

use std::path::{Path, PathBuf};

use emulation::{Memory, assert_scores};
use punctual_compile::{Overrides, compile_with};
use punctual_device_cuda::lower::{Program, Target};
use punctual_model::{InputForm, Network, OutputLayout, reference};
use punctual_types::{Element, Random};

/// What is refused when it is lowered, by the beginning of its name, and what the message says of it. The rest runs.
const REFUSED: &[(&str, &str)] = &[];

/// Tokens of recorded texts are below this.
const TOKENS: u64 = 60;

fn recorded() -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compile/tests");
    let mut found: Vec<PathBuf> = ["data", "networks"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(tests.join(folder)).expect("a folder"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    found.sort();
    found
}

/// Values like normalised pixels; of a text numbers of tokens, and a mask of which the last is no token.
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

/// The values of an output, of floats.
fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| f32::from_ne_bytes(*word)).collect()
}

fn check(path: &Path) {
    let name = path.file_stem().expect("a name").to_string_lossy();
    let compiled = compile_with(path, &Overrides::imagenet())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let network = compiled.package.network();
    let layout = OutputLayout::of(network, |_| true);
    let target = Target {
        multiprocessors: 16,
        compute_capability: (8, 7),
        page_bytes: 4 << 20,
    };
    let refusal = REFUSED.iter().find(|(begin, _)| name.starts_with(begin));
    let program = Program::with_outputs((network, Some(&layout)), &[1], &target, &[]);
    let program = match (program, refusal) {
        (Ok(program), None) => program,
        (Err(error), Some((_, words))) if error.to_string().contains(words) => return,
        (Ok(_), Some(_)) => panic!("{name} lowers: take it out of the list"),
        (Err(error), _) => panic!("{name}: {error}"),
    };
    let image = input(network, 3);
    let expected = reference::run_all(network, &[&image]);
    let mut memory = Memory::new(network, &program, &[image]);
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
            assert_eq!(output.element, Element::F32, "{what}");
            let expected = &expected.outputs[placed.output];
            assert_scores(&floats(own), expected, layers, &format!("{what} output"));
        }
    }
}

#[test]
fn recorded_networks_say_the_same_or_are_refused_by_name() {
    let recorded = recorded();
    assert!(recorded.len() >= 15, "{} networks", recorded.len());
    recorded.iter().for_each(|path| check(path));
}
