//! What files of one operator showed that was not what ONNX says (`punctual-networks operators` draws them).

use punctual_model::{AnswerKind, Calibration, reference};

use super::builder::{Onnx, image_of, int};
use super::options;
use crate::{CompileError, CompileOptions, InputOptions, compile};

/// A file whose input `image` has these dimensions behind the batch.
fn of(sizes: &[i64]) -> Onnx {
    let mut onnx = Onnx::new();
    onnx.graph().input[0] = image_of("image", sizes);
    // A network has weights.
    let half = onnx.exactly("half", &[], vec![0.5]);
    half.node("Mul", "image half", "weighed", &[])
}

/// The values of `x` for an input.
fn values(onnx: Onnx, image: &[f32]) -> Result<Vec<f32>, CompileError> {
    let options = CompileOptions {
        input: InputOptions {
            prepared: Some(true),
            ..InputOptions::default()
        },
        answer: Some(AnswerKind::None),
        ..options()
    };
    let onnx = onnx.output("x").output("weighed");
    let compiled = compile(&onnx.bytes(), Calibration::default(), &options)?;
    let mut exits = reference::run_all(compiled.package.network(), &[image]);
    Ok(exits.remove(0).unwrap().outputs.remove(0))
}

#[test]
fn a_cast_of_features_to_integers_cuts_what_is_behind_the_point() {
    for to in [6, 7] {
        let onnx = of(&[3])
            .node("Cast", "image", "whole", &[int("to", to)])
            .node("Cast", "whole", "x", &[int("to", 1)]);
        assert_eq!(values(onnx, &[2.75, -1.5, 3.0]).unwrap(), [2.0, -1.0, 3.0]);
    }
}

#[test]
fn a_cast_like_zeros_and_ones_is_refused_as_they_may_be_booleans() {
    let like = |operand| {
        of(&[3])
            .ints("few", &[0, 1])
            .ints("more", &[0, 2])
            .exactly("known", &[3], vec![2.75, -1.5, 3.0])
            .node("CastLike", operand, "whole", &[])
            .node("Cast", "whole", "floats", &[int("to", 1)])
            .node("Add", "image floats", "x", &[])
    };
    let zeros = [0.0; 3];
    assert_eq!(
        values(like("known more"), &zeros).unwrap(),
        [2.0, -1.0, 3.0]
    );
    for operands in ["known few", "image few"] {
        assert!(values(like(operands), &zeros).is_err());
    }
}

#[test]
fn a_length_along_no_axes_is_the_size_of_each_value() {
    let mut onnx = of(&[3])
        .exactly("known", &[3], vec![2.75, -1.5, 3.0])
        .node(
            "ReduceL2",
            "known",
            "sizes",
            &[int("noop_with_empty_axes", 1)],
        )
        .node("Add", "image sizes", "x", &[]);
    onnx.0.opset_import[0].version = Some(18);
    assert_eq!(values(onnx, &[0.0; 3]).unwrap(), [2.75, 1.5, 3.0]);
}
