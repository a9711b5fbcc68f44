//! Small networks as people export them, with inputs and the outputs of onnxruntime, on the emulated kernels. The files are not in
//! the tree; which of them are compiled, the compiler's tests say.

mod emulation;
mod npz;

use std::path::{Path, PathBuf};

use emulation::{Memory, assert_scores};
use punctual_compile::{Overrides, compile_with};
use punctual_device_cuda::lower::{Program, Target};
use punctual_model::{Network, OutputLayout};

const FOLDER: &str = "../shared/cases/networks";

fn cases() -> Vec<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Ok(folder) = std::fs::read_dir(repository.join(FOLDER)) else {
        return Vec::new();
    };
    let files = folder.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    found.sort();
    found
}

/// The input of the first image and the vectors behind it, in the network's order.
fn inputs(network: &Network, arrays: &[(String, Vec<f32>)]) -> Vec<f32> {
    let given = arrays.iter().filter_map(|(name, values)| {
        let name = name.strip_prefix("in:")?;
        Some((name, values))
    });
    let given: Vec<_> = given.collect();
    let is_vector = |name: &str| network.vectors.iter().any(|vector| vector.name == name);
    let first = given.iter().find(|(name, _)| !is_vector(name));
    let of_one_image = network.input.tensor().elements() as usize;
    let mut all = first.expect("the input").1[..of_one_image].to_vec();
    for vector in &network.vectors {
        let own = given.iter().find(|(name, _)| *name == vector.name);
        all.extend(&own.expect("a vector").1[..vector.length as usize]);
    }
    all
}

/// Whether it is compiled; panics where its answers are wrong.
fn check(path: &Path) -> bool {
    let name = path.file_stem().expect("a name").to_string_lossy();
    let arrays = npz::read(&path.with_extension("npz"));
    let overrides = Overrides::of_tensors();
    let Ok(compiled) = compile_with(path, &overrides) else {
        return false;
    };
    let network = compiled.package.network();
    let layout = OutputLayout::of(network, |_| true);
    let target = Target {
        multiprocessors: 16,
        compute_capability: (8, 7),
        page_bytes: 4 << 20,
    };
    let program =
        Program::with_outputs(network, Some(&layout), &[1, 2], &target, &[]).expect("lowers");
    let input = inputs(network, &arrays);
    // The second member has other values, so that members that are mixed up are noticed.
    let other: Vec<f32> = input.iter().map(|value| 0.5 - value).collect();
    let mut memory = Memory::new(network, &program, &[input, other]);
    let mut compared = 0;
    for (number, stage) in network.stages.iter().enumerate() {
        memory.run(&program, number, 2);
        let (Some(exit), Some(placed)) = (&stage.exit, layout.stage(number)) else {
            continue;
        };
        let bytes = memory.outputs(&program, number, 0);
        for placed in &placed.outputs {
            let output = &exit.outputs[placed.output];
            // The compiler names a file's only output itself.
            let is_it = |name: &str| name == output.name || output.name == "output";
            let mut recorded = arrays.iter();
            let expected = recorded.find(|(name, _)| name.strip_prefix("out:").is_some_and(is_it));
            let Some((_, expected)) = expected else {
                continue;
            };
            let first =
                (placed.offset - layout.stage(number).expect("placed").range().start) as usize;
            let own = &bytes[first..][..placed.bytes as usize];
            let words = own.as_chunks::<4>().0.iter();
            let found: Vec<f32> = words.map(|word| f32::from_ne_bytes(*word)).collect();
            assert_scores(
                &found,
                &expected[..found.len()],
                stage.operators.len(),
                &name,
            );
            compared += 1;
        }
    }
    let names: Vec<_> = network.output_names().collect();
    assert!(compared > 0, "{name}: none of {names:?} is recorded");
    true
}

#[test]
fn small_networks_say_what_onnxruntime_says_on_the_kernels() {
    let cases = cases();
    if cases.is_empty() {
        eprintln!("skipped: {FOLDER} is not there");
        return;
    }
    let (mut compiled, mut wrong) = (0, Vec::new());
    for path in &cases {
        match std::panic::catch_unwind(|| check(path)) {
            Ok(is_compiled) => compiled += usize::from(is_compiled),
            Err(_) => wrong.push(path),
        }
    }
    assert!(compiled > 0 && wrong.is_empty(), "{wrong:#?}");
}
