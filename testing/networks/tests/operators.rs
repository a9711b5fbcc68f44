//! Files of one operator: what is drawn, and that what compiles of them says what onnxruntime says.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use punctual_networks::Engine;
use punctual_networks::operators::{Outcome, compare, names, one};
use punctual_types::mix;

/// On every machine. A change of what is drawn changes the number.
#[test]
fn a_seed_gives_the_same_file_of_an_operator_everywhere() {
    let bytes = (0..500).flat_map(|seed| one(seed).drawn.bytes());
    let hash = bytes.fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    assert_eq!(hash, 4_308_619_135_411_554_576);
}

#[test]
fn files_are_drawn_of_every_operator_that_is_compiled() {
    let drawn: BTreeSet<&str> = names().collect();
    let mut missing = punctual_compile::compiled_operators();
    missing.retain(|name| !drawn.contains(name.as_str()));
    // Operands come from the first, often; the branches of the second are graphs.
    assert_eq!(missing, ["Constant", "If"]);
}

#[test]
fn files_of_one_operator_say_what_onnxruntime_says() {
    if Engine::usual().all(|engine| engine != Engine::Onnxruntime) {
        println!("skipped: ORT_DYLIB_PATH names no ONNX Runtime");
        return;
    }
    let (mut agreed, mut wrong) = (0, Vec::new());
    for seed in 0..1000 {
        let one = one(seed);
        match compare(&one) {
            Outcome::Agreed(_) => agreed += 1,
            Outcome::Wrong(what) => wrong.push(format!("seed {seed}, {}: {what}", one.operator)),
            Outcome::Refused(_) | Outcome::NoOnnxruntime(_) => {}
        }
    }
    assert!(wrong.is_empty() && agreed > 700, "{agreed}; {wrong:#?}");
}
