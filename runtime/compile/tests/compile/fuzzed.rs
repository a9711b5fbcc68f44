//! The fuzzer's entries without the fuzzer: damaged ONNX files and damaged packages are refused, or compile and run.

#[path = "../../../../testing/fuzz/compile/entry.rs"]
mod entry;
#[path = "../../../../testing/fuzz/compile/onnx.rs"]
mod onnx;

use std::path::Path;

use fastrand::Rng;
use punctual_compile::{CompileOptions, InputOptions, compile};
use punctual_fuzzed::{sealed, sections};
use punctual_model::{AnswerKind, Calibration};

/// Small networks with many kinds of operators.
const NAMES: [&str; 2] = ["elements.onnx", "windows.onnx"];

fn network(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/networks");
    std::fs::read(folder.join(name)).expect("a recorded network")
}

fn damage(random: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..=random.usize(..3) {
        let at = random.usize(..bytes.len());
        bytes[at] = match random.usize(..3) {
            0 => bytes[at] ^ 1 << random.usize(..8),
            1 => bytes[at].wrapping_add(1),
            _ => random.u8(..),
        };
    }
}

#[test]
fn damaged_networks_are_refused_or_compile_and_run() {
    let mut random = Rng::with_seed(0x0DD);
    for name in NAMES {
        let honest = network(name);
        assert!(onnx::onnx(&honest), "{name}");
        let ran = (0..300).filter(|_| {
            let mut damaged = honest.clone();
            damage(&mut random, &mut damaged);
            onnx::onnx(&damaged)
        });
        assert!(ran.count() > 10, "{name}: few were good enough to be run");
    }
}

#[test]
fn packages_with_another_network_are_refused_or_run() {
    let mut random = Rng::with_seed(0xACC);
    for name in NAMES {
        let mut options = CompileOptions::of(name.as_ref());
        options.input = InputOptions {
            prepared: Some(true),
            ..InputOptions::default()
        };
        options.answer = Some(AnswerKind::None);
        let compiled = compile(&network(name), Calibration::default(), &options);
        let file = compiled.expect("it compiles").package.encode();
        let sections = sections(&file);
        let ran = (0..600).filter(|_| {
            // The first is the description, which says what is computed.
            let mut description = sections[0].2.to_vec();
            damage(&mut random, &mut description);
            let mut forged = sections.clone();
            forged[0].2 = &description;
            entry::package(&sealed(&forged))
        });
        assert!(ran.count() > 10, "{name}: few were good enough to be run");
    }
}
