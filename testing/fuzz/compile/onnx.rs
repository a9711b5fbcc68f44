//! An ONNX file, compiled and run.

use punctual_compile::{CompileOptions, InputOptions, compile};
use punctual_fuzzed::{Outcome, exercise};
use punctual_model::{AnswerKind, Calibration};

use super::entry::package;

/// Compiles a file; what compiles is a good package, and runs. Whether it did.
pub fn onnx(file: &[u8]) -> bool {
    let mut options = CompileOptions::of("fuzzed.onnx".as_ref());
    options.input = InputOptions {
        prepared: Some(true),
        ..InputOptions::default()
    };
    options.answer = Some(AnswerKind::None);
    let compiled = match compile(file, Calibration::default(), &options) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            return false;
        }
    };
    let file = compiled.package.encode();
    assert_eq!(exercise(&file), Outcome::Verified, "what is compiled");
    package(&file)
}
