//! Small ONNX files, made node by node: what is refused and how, what is fused into what, what the
//! report says, and what hostile files do.

mod builder;
mod composed;
mod computed;
mod copied;
mod dynamic;
mod exits;
mod external;
mod folded;
mod fused;
mod generated;
mod hostile;
mod inputs;
mod joined;
mod linear;
mod nested;
mod products;
mod quantised;
mod recurrent;
mod reduced;
mod refused;
mod reported;
mod resized;
mod schemas;
mod tied;
mod unbatched;
mod viewed;

use punctual_model::{AnswerKind, Calibration, TensorId, reference};

use crate::{CompileError, CompileOptions, Compiled, InputOptions, compile};
use builder::Onnx;

fn options() -> CompileOptions {
    CompileOptions {
        name: "test".to_owned(),
        onnx: "test.onnx".into(),
        calibration: None,
        input: InputOptions {
            prepared: None,
            size: Some((8, 8)),
            mean: Some(vec![0.5; 3]),
            std: Some(vec![0.25; 3]),
        },
        exits: vec![],
        answer: Some(AnswerKind::Classes),
        classes: vec![],
        reductions: vec![],
        detections: None,
    }
}

fn compiled(onnx: &Onnx) -> Result<Compiled, CompileError> {
    compile(&onnx.bytes(), Calibration::default(), &options())
}

/// As [`compiled`], for a network whose answer is all that it gives back.
fn compiled_for_outputs(onnx: &Onnx) -> Result<Compiled, CompileError> {
    let answer = Some(AnswerKind::None);
    let options = CompileOptions {
        answer,
        ..options()
    };
    compile(&onnx.bytes(), Calibration::default(), &options)
}

/// The largest value of all tensors between an image and the outputs: halves hold up to 65,504.
fn largest_between(onnx: &Onnx, image: &[f32]) -> f32 {
    let compiled = compiled_for_outputs(onnx).unwrap();
    let network = compiled.package.network();
    let mut values = [(TensorId(0), image.to_vec())].into();
    for stage in &network.stages {
        let mut stage = stage.clone();
        let written = stage.operators.iter().map(|operator| operator.output);
        stage.outputs = written.collect();
        reference::run_stage(network, &stage, &mut values).unwrap();
    }
    let sizes = values.values().flatten().map(|value| value.abs());
    sizes.fold(0.0, f32::max)
}
