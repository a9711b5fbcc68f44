//! Scalars that come with each frame, to which the file gives no batch.

use punctual_model::{AnswerKind, Calibration, Network, reference};

use super::builder::{Onnx, image_of, int, ints_of};
use super::options;
use crate::schema::{AttributeProto, ValueInfoProto, data_type};
use crate::{CompileError, CompileOptions, InputOptions, compile, lower};

/// A file of three features and a scalar `t` of these dimensions.
fn with_scalar(kind: i32, dims: &[i64]) -> Onnx {
    let mut onnx = Onnx::new();
    let scalar = ValueInfoProto::tensor("t", kind, dims.iter().copied().map(Some));
    onnx.graph().input = vec![image_of("image", &[3]), scalar];
    onnx
}

fn compiled(onnx: &Onnx) -> Result<Network, CompileError> {
    let options = CompileOptions {
        answer: Some(AnswerKind::None),
        input: InputOptions::default(),
        ..options()
    };
    let compiled = compile(&onnx.bytes(), Calibration::default(), &options)?;
    Ok(compiled.package.network().clone())
}

/// What the only output is for the features 1, 2, 3 and this scalar.
fn answered(network: &Network, t: f32) -> Vec<f32> {
    let exits = reference::run_all(network, &[&[1.0, 2.0, 3.0], &[t]]);
    exits.into_iter().flatten().next().unwrap().outputs[0].clone()
}

#[test]
fn a_scalar_is_a_number_of_each_frame() {
    for dims in [&[][..], &[1]] {
        let onnx = with_scalar(data_type::FLOAT, dims)
            .node("Mul", "t image", "scaled", &[])
            .node("Add", "scaled t", "exit_0", &[])
            .output("exit_0");
        let network = compiled(&onnx).unwrap();
        assert_eq!(network.vectors[0].length, 1);
        assert_eq!(answered(&network, 4.0), [8.0, 12.0, 16.0]);
    }
}

#[test]
fn integers_and_booleans_may_be_scalars() {
    let to_float = [int("to", data_type::FLOAT.into())];
    for kind in [data_type::INT32, data_type::INT64] {
        let onnx = with_scalar(kind, &[])
            .floats("table", &[9, 3])
            .node("Gather", "table t", "row", &[])
            .node("Cast", "t", "number", &to_float)
            .node("Add", "row number", "sum", &[])
            .node("Add", "image sum", "exit_0", &[])
            .output("exit_0");
        let row = (0..3).map(|at| ((15 + at) as f32 + 5.0) * 0.7);
        let expected = row
            .zip([1.0, 2.0, 3.0])
            .map(|(x, own)| x.sin() * 0.4 + 5.0 + own);
        let found = answered(&compiled(&onnx).unwrap(), 5.0);
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
    let onnx = with_scalar(data_type::BOOL, &[])
        .node("Neg", "image", "negative", &[])
        .node("Where", "t image negative", "exit_0", &[])
        .output("exit_0");
    let network = compiled(&onnx).unwrap();
    assert_eq!(answered(&network, 1.0), [1.0, 2.0, 3.0]);
    assert_eq!(answered(&network, 0.0), [-1.0, -2.0, -3.0]);
}

#[test]
fn what_is_computed_of_a_scalar_alone_has_the_dimensions_of_the_file() {
    // A row of three, without and with a first dimension, joined and multiplied by a matrix, before it meets the features.
    let onnx = with_scalar(data_type::FLOAT, &[])
        .exactly("steps", &[2], vec![1.0, 2.0])
        .exactly(
            "matrix",
            &[3, 3],
            vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 10.0],
        )
        .ints("one", &[1])
        .ints("row", &[1, -1])
        .ints("first", &[0])
        .node("Mul", "t steps", "rates", &[])
        .node("Reshape", "t one", "single", &[])
        .node("Concat", "rates single", "three", &[int("axis", 0)])
        .node("MatMul", "three matrix", "product", &[])
        .node("Reshape", "product row", "wide", &[])
        .node("MatMul", "wide matrix", "again", &[])
        .node("Squeeze", "again first", "flat", &[])
        .node("Shape", "flat", "three_long", &[])
        .node("Reshape", "flat three_long", "same", &[])
        .node("Sub", "image same", "exit_0", &[])
        .output("exit_0");
    assert_eq!(
        answered(&compiled(&onnx).unwrap(), 2.0),
        [-1.0, -2.0, -197.0]
    );
}

#[test]
fn a_scalar_is_repeated_for_an_open_batch() {
    for repeat in ["Expand", "Tile"] {
        let onnx = with_scalar(data_type::FLOAT, &[1])
            .ints("first", &[0])
            .ints("behind", &[1])
            .node("Shape", "image", "shape", &[])
            .node("Gather", "shape first", "images", &[])
            .node(repeat, "t images", "each", &[])
            .node("Unsqueeze", "each behind", "column", &[])
            .node("Concat", "image column", "exit_0", &[int("axis", 1)])
            .output("exit_0");
        let found = answered(&compiled(&onnx).unwrap(), 7.0);
        assert_eq!(found, [1.0, 2.0, 3.0, 7.0], "{repeat}");
    }
}

#[test]
fn outputs_of_a_scalar_alone_have_the_batch_in_front() {
    let onnx = with_scalar(data_type::FLOAT, &[])
        .exactly("steps", &[2], vec![1.0, 2.0])
        .ints("matrix", &[1, 2])
        .node("Mul", "t steps", "rates", &[])
        .node("Reshape", "rates matrix", "wide", &[])
        .node("Relu", "image", "exit_0/image", &[])
        .node("Neg", "t", "exit_0/next", &[])
        .node("Neg", "rates", "exit_0/rates", &[])
        .node("Neg", "wide", "exit_0/wide", &[])
        .output("exit_0/image")
        .output("exit_0/next")
        .output("exit_0/rates")
        .output("exit_0/wide");
    let network = compiled(&onnx).unwrap();
    let (_, exit) = network.exits().next().unwrap();
    let shapes: Vec<&[u32]> = exit
        .outputs
        .iter()
        .map(|output| &output.shape[..])
        .collect();
    assert_eq!(shapes, [&[3][..], &[], &[2], &[2]]);
}

#[test]
fn an_operator_that_has_no_place_for_the_batch_is_refused() {
    let onnx = with_scalar(data_type::FLOAT, &[])
        .exactly("steps", &[2], vec![1.0, 2.0])
        .node("Mul", "t steps", "rates", &[])
        .node("ReduceSum", "rates", "sum", &[])
        .node("Add", "image sum", "exit_0", &[])
        .output("exit_0");
    let message = compiled(&onnx).unwrap_err().to_string();
    assert!(
        message.contains("a tensor (2), which comes with each frame"),
        "{message}"
    );
    let mut alone = with_scalar(data_type::FLOAT, &[]);
    alone.graph().input.remove(0);
    let alone = alone.node("Neg", "t", "exit_0", &[]).output("exit_0");
    let message = compiled(&alone).unwrap_err().to_string();
    assert!(
        message.contains("inputs beside its weights are [\"t\"]"),
        "{message}"
    );
}

#[test]
fn every_operator_of_scalars_compiles_or_is_refused() {
    let mut names: Vec<(&str, Option<&str>)> = lower::all().map(|of| (of.name, None)).collect();
    let microsoft = "com.microsoft";
    names.extend(lower::all_of(microsoft).map(|of| (of.name, Some(microsoft))));
    let attributes: [&[AttributeProto]; 3] = [
        &[],
        &[int("axis", 0)],
        &[ints_of("axes", &[0]), int("num_heads", 1)],
    ];
    let operands = [
        "t",
        "row",
        "t t",
        "t row",
        "row row",
        "image t",
        "t image",
        "table t",
        "t table",
        "image row",
        "row table",
        "row table steps",
        "t first",
        "row first",
        "t first first",
        "row first last",
        "row t row",
        "row table table row",
    ];
    let mut compiles = 0;
    for (name, domain) in names {
        for operands in operands {
            for attributes in attributes {
                let mut onnx = with_scalar(data_type::FLOAT, &[])
                    .exactly("steps", &[3], vec![1.0, 2.0, 3.0])
                    .floats("table", &[3, 3])
                    .ints("first", &[0])
                    .ints("last", &[1])
                    .node("Mul", "t steps", "row", &[])
                    .node(name, operands, "made", attributes)
                    .node("Add", "image t", "sum", &[])
                    .node("Mul", "sum made", "exit_0", &[])
                    .output("exit_0");
                onnx.graph().node[1].domain = domain.map(str::to_owned);
                if let Ok(network) = compiled(&onnx) {
                    assert!(!answered(&network, 0.5).is_empty());
                    compiles += 1;
                }
            }
        }
    }
    assert!(compiles > 300, "{compiles}");
}
