//! Small ONNX files, made node by node: what is refused and how, what is fused into what, what the
//! report says, and what hostile files do.

mod builder;
mod external;
mod folded;
mod fused;
mod hostile;
mod joined;
mod products;
mod quantised;
mod refused;
mod reported;
mod viewed;

use punctual_model::{Calibration, InputForm, InputSpec};

use crate::{CompileError, CompileOptions, Compiled, compile};
use builder::Onnx;

fn options() -> CompileOptions {
    CompileOptions {
        name: "test".to_owned(),
        onnx: "test.onnx".into(),
        calibration: None,
        input: InputSpec {
            height: 8,
            width: 8,
            mean: [0.5; 3],
            std: [0.25; 3],
            form: InputForm::Image,
        },
        exits: vec![],
        classes: vec![],
    }
}

fn compiled(onnx: &Onnx) -> Result<Compiled, CompileError> {
    compile(&onnx.bytes(), Calibration::default(), &options())
}
