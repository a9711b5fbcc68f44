//! The demonstration network: the package is what the files say, and its answers are onnxruntime's.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use punctual_compile::{Compiled, compile_file};
use punctual_model::{Package, reference};
use serde_json::Value;

/// Tolerance between engines, absolute, on logits (`engine.md`).
const TOLERANCE: f32 = 1e-4;

fn signs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../models/signs")
        .join(name)
}

/// Once for all tests: hashing takes its time in a debug build.
static COMPILED: LazyLock<Compiled> =
    LazyLock::new(|| compile_file(&signs("signs.toml")).expect("the committed files compile"));

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks()
        .0
        .iter()
        .copied()
        .map(f32::from_le_bytes)
        .collect()
}

/// To renew the package after training: `PUNCTUAL_RENEW=1 cargo test -p punctual-compile`.
#[test]
fn the_committed_package_is_a_fresh_compile_of_the_committed_network() {
    let fresh = &COMPILED.package;
    let path = signs("signs.punctual");
    if std::env::var_os("PUNCTUAL_RENEW").is_some() {
        std::fs::write(&path, fresh.encode()).unwrap();
    }
    let committed = Package::read(&path).unwrap();
    assert_eq!(
        committed.hash(),
        fresh.hash(),
        "compile models/signs/signs.toml again"
    );
    assert_eq!(std::fs::read(&path).unwrap(), fresh.encode());
}

#[test]
fn compiling_again_gives_the_same_bytes() {
    let again = compile_file(&signs("signs.toml")).expect("as before");
    assert_eq!(again.package.encode(), COMPILED.package.encode());
    assert_eq!(again.report.to_string(), COMPILED.report.to_string());
}

#[test]
fn each_exit_of_the_staged_network_says_what_onnxruntime_says_of_the_whole() {
    let network = COMPILED.package.network();
    let text = std::fs::read_to_string(signs("reference.json")).unwrap();
    let header: Value = serde_json::from_str(&text).unwrap();
    let count = |key: &str| header[key].as_u64().unwrap() as usize;
    let (images, classes) = (count("images"), count("classes"));
    let exits = header["exits"].as_array().unwrap().len();
    assert_eq!(
        (exits, classes),
        (network.stages.len(), network.classes.len())
    );

    let data = floats(&std::fs::read(signs("reference.f32")).unwrap());
    let size = network.tensors[network.input_tensor().index()].elements() as usize;
    assert_eq!(data.len(), images * (size + exits * classes));
    let (inputs, expected) = data.split_at(images * size);
    for (index, image) in inputs.chunks_exact(size).enumerate() {
        for (exit, logits) in reference::run(network, image).iter().enumerate() {
            let expected = &expected[(exit * images + index) * classes..][..classes];
            for (class, (ours, theirs)) in logits.iter().zip(expected).enumerate() {
                assert!(
                    (ours - theirs).abs() <= TOLERANCE,
                    "image {index}, exit {exit}, class {class}: {ours} is not {theirs}"
                );
            }
        }
    }
}

#[test]
fn the_stages_are_three_of_growing_work_with_everything_fused() {
    let Compiled {
        package, report, ..
    } = &*COMPILED;
    assert_eq!(report.stages.len(), 3);
    let work: Vec<u64> = report
        .stages
        .iter()
        .map(|stage| stage.multiplications)
        .collect();
    assert!(work.is_sorted(), "{work:?}");
    let operators = package
        .network()
        .stages
        .iter()
        .flat_map(|stage| &stage.operators);
    let unfused = operators.filter(|o| matches!(o.kind, punctual_model::OperatorKind::Binary(_)));
    assert_eq!(unfused.count(), 0, "{report}");
    assert!(report.stages[0].carried_bytes > 0);
    assert_eq!(
        report.stages[2].carried_bytes, 0,
        "nothing is carried over from the last stage"
    );
}
